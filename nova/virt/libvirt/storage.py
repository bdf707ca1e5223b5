"""The directory of each guest: its disks, and the record of what they are.

    <instances>/<uuid>/guest.json       the Guest (xml.py): disks with their formats, written by us only
                       disk             root: qcow2 overlay on a cached image, or raw
                       disk.ephemeral0, disk.swap      raw
                       disk.config      config drive
                       disk.plain       what becomes an encrypted disk, for a moment: local_disks/encrypted.py
                       root             file system of a container, which belongs to its users
                       kernel, ramdisk  of images that come in three parts
                       *.rescue, disk.configrescue     what a rescued guest runs with: life/rescue.py
                       frozen           there while its file systems are brought to rest: life/agent.py
                       console.log
    <instances>/_base/                  the image cache

A guest may write any header into its disks, so a format is never read from a disk: it stands in the record.
"""
from __future__ import annotations

import contextlib
import dataclasses
import glob
import logging
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TYPE_CHECKING

from nova import exception
from nova.hardware import disks as disk_words
from nova.hardware import guest_options
from nova.runtime import disk_space
from nova.runtime import privileges
from nova.runtime import progress
from nova.virt.libvirt import configdrive
from nova.virt.libvirt import files
from nova.virt.libvirt import imagecache
from nova.virt.libvirt.local_disks import reflink
from nova.virt.libvirt import xml
from nova.virt.libvirt.containers import unpack
from nova.virt.libvirt.life import rescued
from nova.virt.libvirt.local_disks import encrypted as encrypted_disks
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.volumes import disk as volume_disks

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.driver import ImageSource
    from nova.virt.driver import SpawnRequest
    from nova.virt.libvirt.local_disks.base import Place
    from nova.virt.libvirt.local_disks.rbd import Rbd
    from nova.virt.libvirt.qemu_img import Tool
    from nova.virt.libvirt.volumes.disk import Volume

LOG = logging.getLogger(__name__)

GIB = 1024 ** 3
MIB = 1024 ** 2
RECORD = 'guest.json'
KEPT = '_kept'                          # what a resize puts aside: resize.py
BASE = '_base'
FETCHED, MADE = 70, 90                   # hundredths of a build that are done when the image is here, and the root disk
SNAPSHOT = 'snapshot-'                   # prefix of the temporary directory of a snapshot
# QEMU runs as another user: it may pass through these directories to files that are given to it.
DIRECTORY_MODE = 0o711
FILES: dict[str, Callable[[str, Tool], Place]] = {'qcow2': local_files.Qcow2, 'raw': local_files.Raw}
# what makes an empty disk of each format, its path behind it
MAKE = {'swap': ['mkswap', '-q'],
        **{each: [f'mkfs.{each}', '-q', '-F', '-L', '{label}'] for each in ('ext2', 'ext3', 'ext4')},
        'vfat': ['mkfs.vfat', '-n', '{label}'], 'xfs': ['mkfs.xfs', '-q', '-L', '{label}']}
Image = dict[str, Any]                   # as ImageSource.show gives it
Device = dict[str, Any]                  # a row of block_device_mappings
UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z')


def instances_directory(state_path: str | None) -> str:
    """Where the guests of a deployment lie.

    :param state_path: [DEFAULT] state-path; None means its default
    """
    default = '/var/lib/nova' if os.geteuid() == 0 else '~/.local/share/nova'
    return os.path.join(os.path.realpath(os.path.expanduser(state_path or default)), 'instances')


def take_over(directory: str, user: pwd.struct_passwd) -> None:
    """Let an ordinary user go on with the guests that this host has run as root; called by root.

    Images that guests share become that user's, disks of guests that are off, too; those of guests that run stay QEMU's
    and are for that user to read. A second call changes nothing.
    :param directory: of all guests; where it is a link, or not there, nothing is done
    """
    if not os.path.isdir(directory):
        return
    for folder, below, names, descriptor in os.fwalk(directory):
        shared = os.path.basename(folder) == BASE
        if unpack.ROOT in below:         # the files of a container's users, and they stay so
            below.remove(unpack.ROOT)
        for name in names:
            with privileges.plain_file(name, descriptor) as file:
                if file is None:
                    continue
                if shared or os.fstat(file).st_uid == 0:
                    os.fchown(file, user.pw_uid, user.pw_gid)
                if not shared:
                    files.let_read(file, user.pw_uid)
        os.fchown(descriptor, user.pw_uid, user.pw_gid)


def _no_key(uuid: str) -> NoReturn:
    raise exception.VirtError(operation='open the disks', reason='this service was given no keys')


class Storage:
    """
    :param directory: of all guests of this deployment on this host
    :param images: an ImageSource
    :param qemu_img: a qemu_img.Tool
    :param inspect: see ImageCache
    :param images_type: 'qcow2', 'raw' or 'rbd': form of the root disks
    :param max_age: seconds; see ImageCache
    :param reserve: nova.runtime.disk_space.Reserve that snapshots leave
    :param verify: see ImageCache
    :param host: whose guests are saved and listed here; others may share the directory. None: all are
    :param pool: local_disks.rbd.Rbd; None: disks are files
    :param key: function(uuid of a guest) -> the passphrase of its disks; raises VirtError
    """

    def __init__(self, directory: str, images: ImageSource, qemu_img: Tool,
                 inspect: Callable[[str, str], None] | None = None, images_type: str = 'qcow2', max_age: int = 86400,
                 reserve: disk_space.Reserve = disk_space.Reserve(), verify: Callable[..., Any] | None = None,
                 host: str | None = None, pool: Rbd | None = None, key: Callable[[str], str] = _no_key) -> None:
        self.directory, self._reserve, self._host = directory, reserve, host
        self._images, self._qemu_img, self._key = images, qemu_img, key
        self._base = os.path.join(directory, BASE)
        self.cache = imagecache.ImageCache(self._base, images, qemu_img, inspect, max_age, verify)
        self._shares = False
        self._files = FILES.get(images_type, local_files.Qcow2)(directory, qemu_img)
        self._pool = pool
        self._disks: Place = pool or self._files     # where new ones are made
        self.owners = owners.Owners(pool, host)
        self.kept = KeptGuests(self, pool, host)

    def prepare(self) -> None:
        """Make the directories, remove what a crash left that no guest needs, and see what the file system can."""
        os.makedirs(self._base, exist_ok=True)
        for path in (self.directory, self._base):
            os.chmod(path, DIRECTORY_MODE)
        others = {guest.uuid for guest in self.records() if not self.is_ours(guest)}    # theirs may be under way
        for path in glob.glob(os.path.join(glob.escape(self.directory), '*', SNAPSHOT + '*')):
            if os.path.basename(os.path.dirname(path)) not in others:
                shutil.rmtree(path, ignore_errors=True)
        for path in glob.glob(os.path.join(glob.escape(self.directory), '*', encrypted_disks.PLAIN)):
            if os.path.basename(os.path.dirname(path)) not in others:
                files.remove(path)
        self.cache.clean()
        self.cache.protect()
        self._files.prepare()
        self._disks.prepare()
        self._shares = reflink.possible(self.directory)

    @property
    def disk_cache(self) -> str:
        """QEMU's cache mode for files here."""
        return self._files.cache

    def of(self, disk: xml.Disk) -> Place:
        """The Place of a recorded Disk.

        :raises VirtError: this host does not reach it
        """
        if disk.secret:
            return self._encrypted(disk.secret)
        if disk.source is None:
            return self._files
        if self._pool is None:
            raise exception.VirtError(operation='reach the disks', reason='they lie in a pool of Ceph, and [libvirt] '
                                                                          'images_type of this host is not rbd')
        return self._pool

    def _encrypted(self, uuid: str) -> Place:
        return encrypted_disks.Encrypted(self.directory, self._qemu_img, self._files.cache, uuid,
                                         lambda: self._key(uuid))

    def _new(self, uuid: str, encrypted: bool) -> Place:
        """The Place of a new disk.

        :raises VirtError: it cannot be encrypted here
        """
        if not encrypted:
            return self._disks
        if not self.encrypts:
            raise exception.VirtError(operation='encrypt the disks', reason=(
                '[libvirt] images_type of this host is rbd, and disks in Ceph are not encrypted here'))
        return self._encrypted(uuid)

    @property
    def encrypts(self) -> bool:
        """Whether new disks can be encrypted."""
        return self._pool is None

    def refresh(self, guest: xml.Guest) -> None:
        """Let the disks of a record be where this host finds them: monitors of Ceph come and go."""
        for disk in rescued.files(guest):
            disk.source = self.of(disk).source(disk.file)

    def pooled(self, disk: xml.Disk, path: str) -> xml.Disk:
        """A Disk that another host has in the pool, as this one has it.

        :raises VirtError: this host has no pool, or the other one's record is not here
        """
        place = self.of(dataclasses.replace(disk, source={}))
        return dataclasses.replace(disk, file=path, format='raw', cache=place.cache, backing_file=None,
                                   backing_format=None, source=place.source(path))

    def check_reach(self, uuid: str) -> None:
        """
        :raises VirtError: the pool has disks of a guest, and neither it nor this host has a record of it
        """
        if self.load(uuid) is None and self.kept.load(uuid) is None and self.owners.read(uuid) is None:
            self._disks.check_new(uuid)

    def path(self, uuid: str, name: str = '') -> str:
        """Path of a guest's directory or of a file in it.

        :raises VirtError: the uuid is none
        """
        if not UUID.match(uuid):
            raise exception.VirtError(operation='find the disks', reason='the instance id is not a UUID')
        return os.path.join(self.directory, uuid, name) if name else os.path.join(self.directory, uuid)

    def load(self, uuid: str) -> xml.Guest | None:
        """The recorded Guest, or None."""
        values = files.read_json(self.path(uuid, RECORD))
        return xml.Guest.from_dict(values) if values else None

    def guests(self) -> list[xml.Guest]:
        """[Guest] of the records of this host."""
        return [guest for guest in self.records() if self.is_ours(guest)]

    def is_ours(self, guest: xml.Guest) -> bool:
        """Whether the record is one of this host."""
        return self._host is None or guest.host in (None, self._host)

    def save(self, guest: xml.Guest) -> None:
        if self._host is not None:
            if guest.host not in (None, self._host):
                guest.taken_from = guest.host
            guest.host = self._host
        self.owners.write(guest, self.path(guest.uuid))
        self.record(guest)

    def record(self, guest: xml.Guest) -> None:
        """As ``save``, of a guest that stays whose it is."""
        files.write_json(self.path(guest.uuid, RECORD), dataclasses.asdict(guest))

    def has_lost(self, uuid: str) -> bool:
        """Whether another host has taken over, in the pool, a guest whose record here is this host's own."""
        guest = self.load(uuid)
        return guest is not None and guest.host == self._host and any(disk.source for disk in guest.disks) and (
            self.owners.are_others(uuid, self.path(uuid)))

    def fence(self, uuid: str) -> None:
        """Shut out of Ceph every client that has a guest's disks open; nothing where disks are files."""
        if self._pool is not None:
            self._pool.fence(uuid)

    def fence_volume(self, name: str) -> None:
        """The same of a volume in the Ceph of this host's disks.

        :param name: pool/image
        :raises VirtError: this host's user may not look at it, or it has none
        """
        if self._pool is None:
            raise exception.VirtError(operation='shut clients of a volume out',
                                      reason='[libvirt] images_type of this host is not rbd')
        self._pool.fence_volume(name)

    def clear_pool(self, guest: xml.Guest) -> None:
        """Remove what the pool has of a guest and its record does not name."""
        names = {os.path.basename(disk.file) for disk in rescued.files(guest) if disk.source}
        if self._pool is not None and names:
            self._pool.erase(guest.uuid, names)

    def release(self, guest: xml.Guest) -> None:
        """Its disks are what they were, and stay so."""
        for disk in guest.disks:
            self.of(disk).release(disk)

    def forget(self, uuid: str) -> None:
        """Remove a guest's directory, and no disk that lies elsewhere."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(uuid))

    def remove(self, uuid: str, again: bool = False) -> None:
        """Remove a guest's directory with all that is in it, and its disks elsewhere; no error when there is none.

        :param again: the guest is made again: also disks in a pool that another host has
        """
        path, guest = self.path(uuid), self.load(uuid)
        self._erase(uuid, guest, again)
        for disk in elsewhere(guest):
            files.remove(disk.file)
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if os.path.lexists(path):    # something else removed a file at the same time: once more
                shutil.rmtree(path)

    def _erase(self, uuid: str, guest: xml.Guest | None, again: bool) -> None:
        """Remove what a guest has outside of its directory; where there is no directory, it may be the guest of a host
        that shares the pool and not the record."""
        if guest is None and not self.exists(uuid):
            return
        kept = self.kept.load(uuid)
        names = {os.path.basename(disk.file) for disk in kept.disks} if kept else set()
        places_of = {self.of(disk) for disk in rescued.files(guest)} if guest else {self._disks}
        if kept is None and not again and self._pool in places_of and self.owners.are_others(uuid, self.path(uuid)):
            places_of.discard(self._pool)
        for place in places_of:
            place.erase(uuid, names)
        self.owners.forget(uuid)

    def remove_disk(self, uuid: str, name: str) -> None:
        """Remove a disk that was made for a guest for a while; no error when there is none."""
        for place in {self._files, self._disks}:         # what images_type says may have changed since
            place.remove(self.path(uuid, name))

    def exists(self, uuid: str) -> bool:
        return os.path.isdir(self.path(uuid))

    def check_room(self, sources: Iterable[str] = ()) -> None:
        """:raises InsufficientStorage: copies of these files would use up the reserve"""
        self._reserve.check(self.directory, sum(map(disk_space.used_bytes, sources)))

    @contextlib.contextmanager
    def snapshot_path(self, uuid: str, sources: Iterable[str] = ()) -> Iterator[str]:
        """Path of a file that a snapshot may be written to; it is gone afterwards.

        :param sources: paths of the files that are copied into it
        :raises InsufficientStorage: there is no room for them
        """
        self.check_room(sources)
        directory = tempfile.mkdtemp(prefix=SNAPSHOT, dir=self.path(uuid))
        try:
            os.chmod(directory, DIRECTORY_MODE)
            yield os.path.join(directory, 'disk.qcow2')
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def create(self, context: RequestContext, instance: Instance,
               request: SpawnRequest) -> tuple[list[xml.Disk], dict[str, str]]:
        """Make all files of a guest in a new directory.

        :param context: of the task, for the ImageSource
        :returns: (disks, paths): [Disk], and {'kernel': path, 'ramdisk': path} where there are such images
        :raises ImageUnacceptable: the image cannot be used
        :raises BuildFailed: the request cannot be met here
        """
        uuid = instance.uuid
        self._disks.check_new(uuid)
        os.mkdir(self.path(uuid))
        os.chmod(self.path(uuid), DIRECTORY_MODE)
        # What an image names by now was not checked: the server's row has what its own named
        boot_files = self.boot_files(context, uuid, request.image, {
            part: (getattr(instance, f'{part}_id', None), part) for part in ('kernel', 'ramdisk')})
        bus = _bus(request.image or {'id': '', 'properties': instance.image_properties})
        wanted = _requested(request.block_devices)
        volumes = volume_letters(request.block_devices)
        encrypted = guest_options.encrypts(instance)
        place = self._new(uuid, encrypted)
        letters = (letter for letter in 'abcdefghijklmnopqrstuvwxyz' if letter not in volumes)

        def target(bus: str) -> str:
            return f'{xml.DISK_BUSES[bus]}{next(letters)}'
        disks = [self._root(context, instance, request.image, wanted, target, bus,
                            request.report)] if request.image else []
        for number, row in enumerate(wanted.ephemerals or [_ephemeral(instance)]):
            if row['volume_size']:
                own = row.get('disk_bus') or bus
                disks.append(self._blank(place, uuid, f'disk.ephemeral{number}', row['volume_size'] * GIB, target(own),
                                         own, row.get('guest_format')))
        swap, most = wanted.swap or {}, int((instance.flavor or {}).get('swap') or 0)
        swap_mib = min(most, swap.get('volume_size') or most)         # the row may be older than a resize
        if swap_mib:
            own = swap.get('disk_bus') or bus
            disks.append(self._blank(place, uuid, 'disk.swap', swap_mib * MIB, target(own), own, disk_words.SWAP))
        if request.config_drive is not None:
            disks.append(self.config_drive(uuid, request.config_drive, target(bus), bus, encrypted=encrypted))
        if sum(disk.bus == 'ide' for disk in disks) > xml.IDE_DISKS:
            raise exception.BuildFailed(instance_id=uuid, reason=f'IDE takes {xml.IDE_DISKS} disks at most')
        return disks, boot_files

    def _root(self, context: RequestContext, instance: Instance, image: Image, wanted: Wanted,
              target: Callable[[str], str], bus: str, report: progress.Report) -> xml.Disk:
        """The Disk that the guest boots from: as the request says, a CD-ROM, too, which has the size of its image."""
        row = wanted.root or {}
        cdrom = row.get('device_type') == disk_words.CDROM
        properties = image.get('properties') or {}
        bus = row.get('disk_bus') or (volume_disks.cdrom_bus(properties, str(properties.get('hw_machine_type') or ''
                                                                             ) or xml.DEFAULT_MACHINE)
                                      if cdrom else bus)
        if bus not in xml.DISK_BUSES:
            raise exception.ImageUnacceptable(image_id=image['id'], reason='its hw_cdrom_bus is not known')
        disk = self.image_disk(context, instance, image, target(bus), bus, root_gb=0 if cdrom else None,
                               report=report)
        disk.device = disk_words.CDROM if cdrom else disk_words.DISK
        return disk

    def image_disk(self, context: RequestContext, instance: Instance, image: Image, target: str, bus: str,
                   name: str = 'disk', root_gb: int | None = None,
                   report: progress.Report = progress.ignore) -> xml.Disk:
        """The Disk of a new file made of an image.

        :param root_gb: GiB that it grows to; 0: as large as the image; None: as the server's
        :param report: of the whole build, of which the disk is not the end
        :raises ImageUnacceptable: it is larger than the server's root disk may be
        """
        base = self.cache.fetch(context, image, progress.part(report, 0, FETCHED))
        root_gb = instance.root_gb if root_gb is None else root_gb
        size = max(root_gb * GIB, _aligned(base.virtual_size))
        limit = instance.root_gb * GIB or self.total_bytes()
        if base.virtual_size > limit:
            raise exception.ImageUnacceptable(
                image_id=image['id'],
                reason=f'its virtual size of {base.virtual_size} bytes is over the {limit} bytes of the root disk')
        place = self._new(instance.uuid, guest_options.encrypts(instance))
        return place.from_image(self.path(instance.uuid, name), image['id'], base, size, target, bus,
                                progress.part(report, FETCHED, MADE))

    def blanks(self, uuid: str, sizes: Mapping[str, int], present: Sequence[xml.Disk],
               volumes: Sequence[Volume] = (), taken: Collection[str] = (), encrypted: bool = False) -> list[xml.Disk]:
        """New disks of a guest: those of {file name: bytes} that are not among the Disks ``present``.

        :param volumes: that it has, too
        :param taken: letters of the names of volumes that it gets
        """
        wanted = {name: size for name, size in sizes.items() if size and name not in {
            os.path.basename(disk.file) for disk in present}}
        if not wanted:
            return []
        devices: list[xml.Disk | Volume] = [*present, *volumes]
        bus = next((device.bus for device in devices), xml.Disk.bus)
        prefix = xml.DISK_BUSES[bus]
        letters = (letter for letter in 'abcdefghijklmnopqrstuvwxyz'
                   if letter not in taken and f'{prefix}{letter}' not in {device.target for device in devices})
        place = self._new(uuid, encrypted)
        return [self._blank(place, uuid, name, size, f'{prefix}{next(letters)}', bus) for name, size in wanted.items()]

    def _blank(self, place: Place, uuid: str, name: str, size: int, target: str, bus: str,
               form: str | None = None) -> xml.Disk:
        """
        :param form: of disk_words.FORMATS, or SWAP; None: the usual one of such a disk
        """
        form = disk_words.SWAP if name == 'disk.swap' else form or disk_words.DEFAULT_FORMAT
        make = [word.format(label=name.removeprefix('disk.')) for word in MAKE[form]]
        path = self.path(uuid, name)
        with open(path, 'xb') as file:
            file.truncate(size)
        environment = {'PATH': os.environ.get('PATH', os.defpath) + ':/usr/sbin:/sbin', 'LC_ALL': 'C'}
        try:
            done = subprocess.run([*make, path], stdin=subprocess.DEVNULL, capture_output=True, env=environment)
        except FileNotFoundError:
            raise exception.BuildFailed(instance_id=uuid, reason=f'this host cannot make a disk of the format {form}: '
                                                                 f'it has no {make[0]}') from None
        if done.returncode:
            LOG.error('%s failed: %s', make[0], done.stderr.decode(errors='replace'))
            raise exception.BuildFailed(instance_id=uuid, reason=f'{make[0]} failed on {name}')
        return place.from_file(path, target, bus)

    def config_drive(self, uuid: str, contents: Mapping[str, bytes], target: str, bus: str,
                     name: str = 'disk.config', encrypted: bool = False) -> xml.Disk:
        """The Disk of a new config drive with {path: bytes}; raises BuildFailed when they do not fit into one."""
        path, place = self.path(uuid, name), self._new(uuid, encrypted)
        try:
            configdrive.write(path, contents)
        except ValueError as error:
            raise exception.BuildFailed(instance_id=uuid, reason=str(error)) from error
        return place.from_file(path, target, bus, readonly=True)

    def boot_files(self, context: RequestContext, uuid: str, image: Image | None,
                   wanted: Mapping[str, tuple[str | None, str]]) -> dict[str, str]:
        """Kernel and ramdisk of a guest: {part: path} of new files.

        :param wanted: {part: (image id, file name)}; a part without an id is left out
        :raises ImageUnacceptable: they are no such images, or there is a ramdisk without a kernel
        """
        found = {}
        for part, (image_id, name) in wanted.items():
            if image_id:
                base = self.cache.fetch(context, self._images.show(context, image_id))
                if base.format != 'raw':
                    raise exception.ImageUnacceptable(image_id=image_id, reason=f'it is no {part}')
                found[part] = self.path(uuid, name)
                # A copy: libvirt changes the owner of what it gives to a guest, and takes it away again at its end.
                shutil.copyfile(base.path, found[part])
                files.give_to_guest(found[part])
        if 'ramdisk' in found and 'kernel' not in found:
            raise exception.ImageUnacceptable(image_id=(image or {}).get('id'),
                                              reason='it has a ramdisk, but no kernel')
        return found

    # ---- the whole host -----------------------------------------------------------

    def total_bytes(self) -> int:
        room = self._disks.room()
        if room:
            return room.total
        status = os.statvfs(self.directory)
        return status.f_frsize * status.f_blocks

    def unused_bytes(self) -> int:
        """Bytes that are free, whatever was promised of them."""
        room = self._disks.room()
        if room:
            return room.unused
        status = os.statvfs(self.directory)
        return status.f_frsize * status.f_bavail

    def free_bytes(self) -> int:
        """Bytes that are free and not promised to a guest: disks are sparse and will grow.

        Of a pool: that are free; what its other users were promised no host knows.
        """
        room = self._disks.room()
        if room:
            return room.unused
        status = os.statvfs(self.directory)
        promised = 0
        for guest in self.records():
            for disk in rescued.files(guest):
                promised += max(0, _promised(disk, self._shares))
        return status.f_frsize * status.f_bavail - promised

    def records(self) -> list[xml.Guest]:
        """The recorded Guest of every directory, also of hosts that share it."""
        found = []
        for name in sorted(os.listdir(self.directory)):
            if UUID.match(name):
                guest = self.load(name)
                if guest:
                    found.append(guest)
        return found

    def remove_unused_images(self) -> None:
        kept = [guest for guest in map(self.kept.load, self.kept.uuids()) if guest]
        self.cache.remove_unused({disk.backing_file for guest in [*self.records(), *kept]
                                  for disk in rescued.files(guest)})
        self._disks.remove_unused()


class KeptGuests:
    """What a resize puts aside: a guest as it was, until the resize is confirmed or reverted.

    :param stored: the guests
    :param pool, host: as of Storage
    """

    def __init__(self, stored: Storage, pool: Rbd | None, host: str | None) -> None:
        self._storage, self._pool, self._host = stored, pool, host

    def path(self, uuid: str) -> str:
        """The directory of a guest as it was before a resize."""
        return self._storage.path(uuid) + KEPT

    def load(self, uuid: str) -> xml.Guest | None:
        """The recorded Guest that was put aside, or None. Its paths are those of the guest's own directory."""
        values = files.read_json(os.path.join(self.path(uuid), RECORD))
        return xml.Guest.from_dict(values) if values else None

    def uuids(self) -> list[str]:
        """Uuids of the guests of this host that were put aside."""
        names = [name.removesuffix(KEPT) for name in os.listdir(self._storage.directory) if name.endswith(KEPT)]
        found = {name: self.load(name) for name in names if UUID.match(name)}
        return sorted(name for name, guest in found.items() if guest is None or self._storage.is_ours(guest))

    def forget(self, uuid: str) -> None:
        """Remove for ever what was put aside of a guest; nothing when there is nothing, or another host keeps it."""
        kept, stored = self.load(uuid), self._storage
        if kept is not None and not stored.is_ours(kept):
            LOG.info('What was put aside of %s is %s\'s and stays.', uuid, kept.host)
            return
        used = self._used(uuid)
        for disk in kept.disks if kept else ():
            if disk.source:
                stored.of(disk).release(disk) if disk.file in used else stored.of(disk).remove(disk.file)
        if self._pool is not None and kept is not None and not used and any(disk.source for disk in kept.disks):
            self._pool.erase(uuid)       # the whole guest was here alone
        for disk in elsewhere(kept):
            files.remove(disk.file)
        stored.owners.forget(uuid)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(uuid))

    def _used(self, uuid: str) -> set[str]:
        """Names, as paths, of the disks that a guest has now, on this host or on the one that it has gone to."""
        guest = self._storage.load(uuid)
        if guest is not None:
            return {disk.file for disk in guest.disks}
        note = self._storage.owners.read(uuid)
        return {self._storage.path(uuid, name) for name in note.disks} if note and note.host != self._host else set()

    def restore(self, uuid: str) -> None:
        """Let the disks that were put aside without a copy be what they were; the guest is off.

        :raises VirtError: another host has them
        """
        kept, stored = self.load(uuid), self._storage
        pooled = [disk for disk in kept.disks if disk.source] if kept else []
        if pooled and stored.owners.are_others(uuid, stored.path(uuid)):
            raise exception.VirtError(operation='take the disks back', reason='another host has them still')
        for disk in kept.disks if kept else ():
            stored.of(disk).restore(disk)
        if kept is not None and pooled:  # what the guest got elsewhere goes
            stored.clear_pool(kept)


def elsewhere(guest: xml.Guest | None) -> list[xml.Disk]:
    """[Disk] of a guest (or None) that lie outside of its directory, where another program has made them."""
    return [disk for disk in guest.disks if disk.file in guest.adopted] if guest else []


def _bus(image: Image) -> str:
    bus = ((image or {}).get('properties') or {}).get('hw_disk_bus', 'virtio')
    if bus not in xml.DISK_BUSES:
        raise exception.ImageUnacceptable(image_id=image['id'], reason='its hw_disk_bus is not known')
    return bus


@dataclasses.dataclass
class Wanted:
    """Rows of a server's local disks."""

    root: Device | None
    ephemerals: list[Device]
    swap: Device | None


def _requested(block_devices: Iterable[Device]) -> Wanted:
    local = [row for row in block_devices if row.get('destination_type') == 'local']
    blank = [row for row in local if row.get('source_type') == 'blank']
    return Wanted(next((row for row in local if row.get('source_type') == 'image'), None),
                  [row for row in blank if row.get('guest_format') != disk_words.SWAP],
                  next((row for row in blank if row.get('guest_format') == disk_words.SWAP), None))


def _ephemeral(instance: Instance) -> Device:
    """The row of the flavor's ephemeral disk, where none was requested."""
    return {'volume_size': instance.ephemeral_gb}


def _aligned(size: int) -> int:
    """Disks are whole sectors."""
    return (size + 511) // 512 * 512


def _promised(disk: xml.Disk, shares: bool) -> int:
    """Bytes that a disk may still take; ``shares``: also for blocks that it shares with the image as long as it can."""
    try:
        status = os.stat(disk.file)
        size = status.st_size
        if disk.format == 'qcow2':
            size = local_files.qcow2_size(disk.file)
        return size - status.st_blocks * 512 + (reflink.shared_bytes(disk.file) if shares else 0)
    except OSError:
        return 0


def volume_letters(block_devices: Iterable[Device]) -> set[str]:
    """The last letters of the names of the volumes among a server's block devices."""
    return {(row.get('device_name') or ' ')[-1] for row in block_devices if row.get('destination_type') == 'volume'}


def flavor_sizes(instance: Instance) -> dict[str, int]:
    """{name of a disk's file: bytes} that the server's flavor gives; 0: it has none, or no wish."""
    return {'disk': instance.root_gb * GIB, 'disk.ephemeral0': instance.ephemeral_gb * GIB,
            'disk.swap': int((instance.flavor or {}).get('swap') or 0) * MIB}
