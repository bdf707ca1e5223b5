"""The directory of each guest: its disks, and the record of what they are.

    <instances>/<uuid>/guest.json       the Guest (xml.py): disks with their formats, written by us only
                       disk             root: qcow2 overlay on a cached image, or raw
                       disk.ephemeral0, disk.swap      raw
                       disk.config      config drive
                       disk.plain       what becomes an encrypted disk, for a moment: local_disks/encrypted.py
                       root             file system of a container, which belongs to its users
                       kernel, ramdisk  of images that come in three parts
                       *.rescue, disk.configrescue     what a rescued guest runs with: features/rescue.py
                       frozen           there while its file systems are brought to rest: features/agent.py
                       console.log
    <instances>/_base/                  the image cache

A guest may write any header into its disks, so a format is never read from a disk: it stands in the record.
"""
from __future__ import annotations

import contextlib
import dataclasses
import glob
import itertools
import logging
import os
import pathlib
import pwd
import shutil
import tempfile
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TYPE_CHECKING

from nova.disk_files import files
from nova.disk_files import reflink
from nova import exception
from nova.runtime import disk_space
from nova.runtime import privileges
from nova.runtime import versioned_records
from nova.virt.libvirt import xml
from nova.virt.libvirt.container_root import unpack
from nova.virt.libvirt.domain import rescued
from nova.virt.libvirt.local_disks import encrypted as encrypted_disks
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import image_cache
from nova.virt.libvirt.local_disks import resize_backups
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.local_disks import records

if TYPE_CHECKING:
    from nova.disk_files.qemu_img import Tool
    from nova.virt.driver import ImageSource
    from nova.virt.libvirt.local_disks.base import Place
    from nova.virt.libvirt.local_disks.base import Pool

LOG = logging.getLogger(__name__)

GIB = 1024 ** 3
BASE = '_base'
SNAPSHOT = 'snapshot-'                   # prefix of the temporary directory of a snapshot
# QEMU runs as another user: it may pass through these directories to files that are given to it.
DIRECTORY_MODE = 0o711


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
    :param disks: local_disks.base.Place of new disks; None: qcow2 files
    :param max_age: seconds; see ImageCache
    :param reserve: nova.runtime.disk_space.Reserve that snapshots, images and guests that come leave
    :param verify: see ImageCache
    :param host: whose guests are saved and listed here; others may share the directory. None: all are
    :param key: function(uuid of a guest) -> the passphrase of its disks; raises VirtError
    """

    def __init__(self, directory: str, images: ImageSource, qemu_img: Tool,
                 inspect: Callable[[str, str], None] | None = None, disks: Place | None = None, max_age: int = 86400,
                 reserve: disk_space.Reserve = disk_space.Reserve(), verify: Callable[..., Any] | None = None,
                 host: str | None = None, key: Callable[[str], str] = _no_key) -> None:
        self.directory, self.reserve, self.host = directory, reserve, host
        self._qemu_img, self._key = qemu_img, key
        self._base = os.path.join(directory, BASE)
        self.cache = image_cache.ImageCache(self._base, images, qemu_img, inspect, max_age, verify, reserve)
        self._shares = False
        self._parsed: dict[str, tuple[records.Stamp, xml.Guest]] = {}    # by uuid, see records()
        self.unreadable = versioned_records.UnreadableRecords()          # by directory
        self._disks: Place = disks or local_files.Qcow2(directory, qemu_img, reserve)         # where new ones are made
        pooled = self._disks.pooled
        self._files = local_files.Qcow2(directory, qemu_img, reserve) if pooled else self._disks
        self._pool = typing.cast('Pool', disks) if pooled else None
        self.owners = owners.Owners(self._pool, host)
        self.resize_backups = resize_backups.ResizeBackups(self, self._pool, host)
        self.new_disks = new_disks.NewDisks(self, images)

    def prepare(self) -> None:
        """Make the directories, remove what a crash left that no guest needs, and see what the file system can."""
        missing = itertools.takewhile(lambda path: not path.exists(), pathlib.Path(self._base).parents)
        for directory in [*reversed(list(missing)), pathlib.Path(self.directory), pathlib.Path(self._base)]:
            directory.mkdir(exist_ok=True)
            directory.chmod(DIRECTORY_MODE)      # QEMU's user passes through
        others = {self.path(guest.uuid) for guest in self.records() if not self.is_ours(guest)}
        for path in glob.glob(os.path.join(glob.escape(self.directory), '*', SNAPSHOT + '*')):
            if self._may_clean(os.path.dirname(path), others):
                shutil.rmtree(path, ignore_errors=True)
        for path in glob.glob(os.path.join(glob.escape(self.directory), '*', encrypted_disks.PLAIN)):
            if self._may_clean(os.path.dirname(path), others):
                files.remove(path)
        self.cache.clean()
        self.cache.protect()
        for place in {self._files, self._disks}:
            place.prepare()
        self._shares = reflink.possible(self.directory)

    def _may_clean(self, path: str, others: set[str]) -> bool:
        """Whether no other host can be writing in a directory, by its record."""
        return path not in others and path not in self.unreadable

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

    def place_of_new(self, uuid: str, encrypted: bool) -> Place:
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
        if self.load(uuid) is None and self.resize_backups.load(uuid) is None and self.owners.read(uuid) is None:
            self._disks.check_new(uuid)

    def path(self, uuid: str, name: str = '') -> str:
        """Path of a guest's directory or of a file in it.

        :raises VirtError: the uuid is none
        """
        if not records.UUID.match(uuid):
            raise exception.VirtError(operation='find the disks', reason='the instance id is not a UUID')
        return os.path.join(self.directory, uuid, name) if name else os.path.join(self.directory, uuid)

    def load(self, uuid: str) -> xml.Guest | None:
        """The recorded Guest, or None."""
        return records.read(self.path(uuid))

    def guests(self) -> list[xml.Guest]:
        """[Guest] of the records of this host."""
        return [guest for guest in self.records() if self.is_ours(guest)]

    def is_ours(self, guest: xml.Guest) -> bool:
        """Whether the record is one of this host."""
        return self.host is None or guest.host in (None, self.host)

    def save(self, guest: xml.Guest) -> None:
        if self.host is not None:
            if guest.host not in (None, self.host):
                guest.taken_from = guest.host
            guest.host = self.host
        self.owners.write(guest, self.path(guest.uuid))
        self.record(guest)

    def record(self, guest: xml.Guest) -> None:
        """As ``save``, of a guest that stays whose it is."""
        records.write(self.path(guest.uuid), guest)
        self._parsed.pop(guest.uuid, None)

    def has_lost(self, uuid: str) -> bool:
        """Whether another host has taken over, in the pool, a guest whose record here is this host's own."""
        guest = self.load(uuid)
        return guest is not None and guest.host == self.host and any(disk.source for disk in guest.disks) and (
            self.owners.are_others(uuid, self.path(uuid)))

    def pool_images(self, uuid: str) -> list[str]:
        """[pool/image] of a guest's disks in Ceph; none where disks are files."""
        return [] if self._pool is None else self._pool.images_of(uuid)

    def clear_pool(self, guest: xml.Guest) -> None:
        """Remove what the pool has of a guest and its record does not name."""
        names = {os.path.basename(disk.file) for disk in rescued.files(guest) if disk.source}
        if self._pool is not None and names:
            self._pool.erase(guest.uuid, names)

    def release(self, guest: xml.Guest) -> None:
        """Its disks are what they were, and stay so."""
        for disk in guest.disks:
            self.of(disk).release(disk)

    def make_directory(self, uuid: str) -> None:
        """
        :raises VirtError: the pool has disks of such a guest
        """
        self._disks.check_new(uuid)
        os.makedirs(self.path(uuid), exist_ok=True)          # of a rebuild: what stays of its machine is there
        os.chmod(self.path(uuid), DIRECTORY_MODE)

    def forget(self, uuid: str) -> None:
        """Remove a guest's directory, and no disk that lies elsewhere."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(uuid))

    def remove(self, uuid: str, again: bool = False, kept: typing.Collection[str] = ()) -> None:
        """Remove a guest's directory with all that is in it, and its disks elsewhere; no error when there is none.

        :param again: the guest is made again: also disks in a pool that another host has
        :param kept: names of files of the directory that stay, and the directory with them
        """
        path, guest = self.path(uuid), self.load(uuid)
        self._erase(uuid, guest, again)
        for disk in records.elsewhere(guest):
            files.remove(disk.file)
        staying = [name for name in kept if os.path.exists(os.path.join(path, name))]
        if staying:
            for name in set(os.listdir(path)).difference(staying):
                gone = os.path.join(path, name)
                shutil.rmtree(gone) if os.path.isdir(gone) and not os.path.islink(gone) else files.remove(gone)
            return
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
        kept = self.resize_backups.load(uuid)
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

    def check_room(self) -> None:
        """:raises InsufficientStorage: the file system of the guests has less left than the reserve"""
        self.reserve.check(self.directory)

    def room(self) -> int:
        """Bytes that guests which come may take at once."""
        return self.unused_bytes() if self._disks.room() else self.reserve.room(self.directory)

    def check_free(self) -> None:
        """:raises VirtError: the file system of the guests has less left than the reserve"""
        if self._disks.room():
            return
        try:
            self.check_room()
        except exception.InsufficientStorage:
            raise exception.VirtError(operation='take the guest', reason=(
                'less is free on the disk of this host than [image] free_disk_reserve')) from None

    @contextlib.contextmanager
    def snapshot_path(self, uuid: str, sources: Iterable[str] = ()) -> Iterator[str]:
        """Path of a file that a snapshot may be written to; it is gone afterwards.

        :param sources: paths of the files that are copied into it as they are
        :raises InsufficientStorage: there is no room for them
        """
        self.check_room()
        directory = tempfile.mkdtemp(prefix=SNAPSHOT, dir=self.path(uuid))
        path = os.path.join(directory, 'disk.qcow2')
        try:
            os.chmod(directory, DIRECTORY_MODE)
            with self.reserve.claimed(self.directory, sum(map(disk_space.used_bytes, sources)), path):
                yield path
        finally:
            shutil.rmtree(directory, ignore_errors=True)

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
        """The recorded Guest of every directory, also of hosts that share it. They are not to be changed: a record that
        is the same file as before is not read again.

        A record that cannot be read is logged and left out; ``unreadable`` has its directory.
        """
        known, found = dict(self._parsed), {}
        for name in sorted(os.listdir(self.directory)):
            if not records.UUID.match(name):
                continue
            stamp = records.stamp(self.path(name))
            if stamp is None:
                continue
            if name in known and known[name][0] == stamp:
                found[name] = known[name]
                continue
            guest = self.readable(self.path(name), self.load, name)
            if guest is not None:
                found[name] = stamp, guest
        self._parsed = found
        return [guest for _stamp, guest in found.values()]

    def readable(self, directory: str, load: Callable[[str], xml.Guest | None], uuid: str) -> xml.Guest | None:
        """What ``load`` gives for a guest; None, and an entry in ``unreadable``, if its record cannot be read."""
        try:
            guest = load(uuid)
        except exception.VirtError as error:
            self.unreadable.add(directory, error)
            return None
        self.unreadable.discard(directory)
        return guest

    def remove_unused_images(self) -> None:
        self.unreadable.discard_missing()
        guests = [*self.records(), *self.resize_backups.guests().values()]
        if self.unreadable:
            LOG.warning('Cached images stay: the records that cannot be read may use them.')
            return
        self.cache.remove_unused({disk.backing_file for guest in guests if guest for disk in rescued.files(guest)})
        self._disks.remove_unused()


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
