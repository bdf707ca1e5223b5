"""Directory of each guest: its disks and its record.

    <instances>/<uuid>/guest.json       the Guest (xml.py) with the disks' formats, written only by this service
                       disk             root: qcow2 overlay on a cached image, or raw
                       disk.ephemeral0, disk.swap      raw
                       disk.config      config drive
                       disk.plain       temporary input while a disk is encrypted: local_disks/files.py
                       root             root file system of a container, owned by user ids of the container
                       kernel, ramdisk  of AMI images
                       *.rescue, disk.configrescue     files of a rescue: features/rescue.py
                       frozen           exists while the file systems are frozen: features/agent.py
                       console.log
    <instances>/<uuid>_kept/            disks and record before a resize: features/resize.py
    <instances>/_base/                  the image cache

A guest may write any header into its disks. So the format is read from the record and never from a disk.
"""
import contextlib
import glob
import itertools
import logging
import os
import pathlib
import pwd
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from nova import exception
from nova.disk_files import files
from nova.disk_files import reflink
from nova.disk_files.qemu_img import Tool
from nova.runtime import disk_space
from nova.runtime import privileges
from nova.runtime import state_directory
from nova.runtime import versioned_records
from nova.virt.driver import ImageSource
from nova.virt.libvirt import xml
from nova.virt.libvirt.container_root import unpack
from nova.virt.libvirt.local_disks import backends
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import image_cache
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks.base import Place

LOG = logging.getLogger(__name__)

GIB = 1024 ** 3
BASE = '_base'                           # directory of the image cache
SNAPSHOT = 'snapshot-'                   # prefix of the temporary directory of a snapshot
BACKUP = '_kept'                         # suffix of the directory of a resize backup
DIRECTORY_MODE = 0o711                   # world-executable: QEMU runs as another user and opens files below


def instances_directory(state_path: str | None) -> str:
    """Return the directory of a deployment's guests.

    :param state_path: [DEFAULT] state-path; None means its default
    """
    default = '/var/lib/nova' if os.geteuid() == 0 else '~/.local/share/nova'
    return os.path.join(os.path.realpath(os.path.expanduser(state_path or default)), state_directory.INSTANCES)


def take_over(directory: str, user: pwd.struct_passwd) -> None:
    """Change the owner of files that root created, so that an ordinary user can run this service; called by root.

    The user becomes the owner of cached images and of the disks of stopped guests. Disks of running guests still belong
    to QEMU's user; the new user gets read access. A second call changes nothing.
    :param directory: directory of all guests; a link or a missing directory is ignored
    """
    if not os.path.isdir(directory):
        return
    for folder, below, names, descriptor in os.fwalk(directory):
        shared = os.path.basename(folder) == BASE
        if unpack.ROOT in below:         # the file system of a container keeps its owners
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


class Storage:
    """Files of all guests: their directories, records and backups, and the image cache.

    :param directory: directory of all guests of this deployment on this host
    :param inspect: see ImageCache
    :param disks: base.Place of new disks; None: qcow2 files
    :param max_age: seconds; see ImageCache
    :param reserve: nova.runtime.disk_space.Reserve: space that snapshots, images and arriving guests must leave free
    :param verify: see ImageCache
    :param host: name of this host, which may share the directory with others; None: the guests of all hosts are ours
    :param key: function(uuid of a guest) -> the passphrase of its disks; raises VirtError
    """

    def __init__(self, directory: str, images: ImageSource, qemu_img: Tool,
                 inspect: Callable[[str, str], None] | None = None, disks: Place | None = None, max_age: int = 86400,
                 reserve: disk_space.Reserve = disk_space.Reserve(), verify: Callable[..., Any] | None = None,
                 host: str | None = None, key: Callable[[str], str] = backends.no_key) -> None:
        self.directory, self.images, self.reserve, self.host = directory, images, reserve, host
        self._base = os.path.join(directory, BASE)
        self.cache = image_cache.ImageCache(self._base, images, qemu_img, inspect, max_age, verify, reserve)
        self.backends = backends.Backends(directory, qemu_img, disks, reserve, key)
        self.owners = owners.Owners(self.backends.pool, host)
        self.unreadable = versioned_records.UnreadableRecords()          # keyed by directory
        self._shares = False                     # whether files share blocks with their images
        self._parsed: dict[str, tuple[records.Stamp, xml.Guest]] = {}    # {uuid: record}, see records()

    def path(self, uuid: str, name: str = '') -> str:
        """Return the path of a guest's directory or of a file in it.

        :raises VirtError: the uuid is invalid
        """
        if not records.UUID.match(uuid):
            raise exception.VirtError(operation='find the disks', reason='the instance id is not a UUID')
        return os.path.join(self.directory, uuid, name) if name else os.path.join(self.directory, uuid)

    def exists(self, uuid: str) -> bool:
        return os.path.isdir(self.path(uuid))

    def load(self, uuid: str) -> xml.Guest | None:
        """Return the recorded Guest, or None if there is no record."""
        return records.read(self.path(uuid))

    def backup_path(self, uuid: str) -> str:
        """Return the directory of the resize backup of a guest."""
        return self.path(uuid) + BACKUP

    def load_backup(self, uuid: str) -> xml.Guest | None:
        """Return the record of a backup, or None. Its paths name the guest's directory, not the backup's."""
        return records.read(self.backup_path(uuid))

    def backups(self) -> dict[str, xml.Guest | None]:
        """Return {uuid: record, or None if it is missing} of this host's backups; unreadable records are omitted."""
        found = {}
        for name in sorted(os.listdir(self.directory)):
            uuid = name.removesuffix(BACKUP)
            if not name.endswith(BACKUP) or not records.UUID.match(uuid):
                continue
            guest = self.readable(self.backup_path(uuid), self.load_backup, uuid)
            if self.backup_path(uuid) not in self.unreadable and (guest is None or self.is_ours(guest)):
                found[uuid] = guest
        return found

    def is_ours(self, guest: xml.Guest) -> bool:
        """Return whether the record belongs to this host."""
        return self.host is None or guest.ownership.host in (None, self.host)

    def readable(self, directory: str, load: Callable[[str], xml.Guest | None], uuid: str) -> xml.Guest | None:
        """Return ``load(uuid)``. If the record is unreadable, add ``directory`` to ``unreadable`` and return None."""
        try:
            guest = load(uuid)
        except exception.VirtError as error:
            self.unreadable.add(directory, error)
            return None
        self.unreadable.discard(directory)
        return guest

    def make_directory(self, uuid: str, exist_ok: bool = False) -> str:
        """Create a guest's directory, in which QEMU's user can open files, and return its path."""
        path = self.path(uuid)
        os.makedirs(path, exist_ok=exist_ok)
        os.chmod(path, DIRECTORY_MODE)
        return path

    def prepare(self) -> None:
        """Create the directories, remove temporary files after a crash, and detect the file system's features."""
        missing = itertools.takewhile(lambda path: not path.exists(), pathlib.Path(self._base).parents)
        for directory in [*reversed(list(missing)), pathlib.Path(self.directory), pathlib.Path(self._base)]:
            directory.mkdir(exist_ok=True)
            directory.chmod(DIRECTORY_MODE)      # QEMU's user opens files below the directory
        others = {self.path(guest.uuid) for guest in self.records() if not self.is_ours(guest)}
        for path in glob.glob(os.path.join(glob.escape(self.directory), '*', SNAPSHOT + '*')):
            if self._may_clean(os.path.dirname(path), others):
                shutil.rmtree(path, ignore_errors=True)
        for path in glob.glob(os.path.join(glob.escape(self.directory), '*', local_files.PLAIN)):
            if self._may_clean(os.path.dirname(path), others):
                files.remove(path)
        self.cache.clean()
        self.cache.protect()
        for place in {self.backends.files, self.backends.new}:
            place.prepare()
        self._shares = reflink.possible(self.directory)

    def _may_clean(self, path: str, others: set[str]) -> bool:
        """Return whether, according to the records, no other host writes in a directory."""
        return path not in others and path not in self.unreadable

    def check_reach(self, uuid: str) -> None:
        """Check that a guest has a record if it has disks in the pool.

        :raises VirtError: neither the pool nor this host has a record
        """
        if self.load(uuid) is None and self.load_backup(uuid) is None and self.owners.read(uuid) is None:
            self.backends.new.check_new(uuid)

    def guests(self) -> list[xml.Guest]:
        """Return [Guest] of the records of this host."""
        return [guest for guest in self.records() if self.is_ours(guest)]

    def save(self, guest: xml.Guest) -> None:
        if self.host is not None:
            owner = guest.ownership
            if owner.host not in (None, self.host):
                owner.previous_host = owner.host
            owner.host = self.host
        self.owners.write(guest, self.path(guest.uuid))
        self.record(guest)

    def record(self, guest: xml.Guest) -> None:
        """Write the record of a guest. Unlike ``save``, this does not make this host the owner."""
        records.write(self.path(guest.uuid), guest)
        self._parsed.pop(guest.uuid, None)

    def has_lost(self, uuid: str) -> bool:
        """Return whether another host owns the pool disks of a guest, although the local record names this host."""
        guest = self.load(uuid)
        return (guest is not None and guest.ownership.host == self.host and any(disk.source for disk in guest.disks)
                and self.owners.are_others(uuid, self.path(uuid)))

    def forget(self, uuid: str) -> None:
        """Remove a guest's directory, but not its disks outside of the directory."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(uuid))

    def remove(self, uuid: str, again: bool = False, kept: Collection[str] = ()) -> None:
        """Remove a guest's directory and its disks elsewhere; no error if there are none.

        :param again: the guest will be recreated: also remove another host's disks in a pool
        :param kept: names of files to preserve; the directory is then preserved too
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
            if os.path.lexists(path):    # a file was removed concurrently: retry once
                shutil.rmtree(path)

    def _erase(self, uuid: str, guest: xml.Guest | None, again: bool) -> None:
        """Remove a guest's data outside of its directory.

        Without a directory nothing is removed: a host that shares only the pool may have the guest.
        """
        if guest is None and not self.exists(uuid):
            return
        kept = self.load_backup(uuid)
        names = {os.path.basename(disk.file) for disk in kept.disks} if kept else set()
        places_of = {self.backends.of(disk) for disk in guest.files()} if guest else {self.backends.new}
        pool = self.backends.pool
        if kept is None and not again and pool in places_of and self.owners.are_others(uuid, self.path(uuid)):
            places_of.discard(pool)
        for place in places_of:
            place.erase(uuid, names)
        self.owners.forget(uuid)

    def check_room(self) -> None:
        """Check the reserve of the guests' file system.

        :raises InsufficientStorage: less than the reserve is free
        """
        self.reserve.check(self.directory)

    def room(self) -> int:
        """Return the bytes that arriving guests may use now."""
        return self.backends.unused_bytes() if self.backends.new.room() else self.reserve.room(self.directory)

    def check_free(self) -> None:
        """Check the reserve of the guests' file system, unless new disks are in a pool.

        :raises VirtError: less than the reserve is free
        """
        if self.backends.new.room():
            return
        try:
            self.check_room()
        except exception.InsufficientStorage:
            raise exception.VirtError(operation='take the guest', reason=(
                'the disk of this host has less free space than [image] free_disk_reserve')) from None

    @contextlib.contextmanager
    def snapshot_path(self, uuid: str, sources: Iterable[str] = ()) -> Iterator[str]:
        """Yield the path of a temporary file for a snapshot.

        :param sources: paths of the files that are copied into it unchanged
        :raises InsufficientStorage: there is no space for the copies
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

    def free_bytes(self) -> int:
        """Return the free bytes minus the bytes that sparse disks of guests may still allocate.

        For a pool, all free bytes are returned, because a host does not know how far disks of other hosts will grow.
        """
        if room := self.backends.new.room():
            return int(room.unused)
        promised = sum(max(0, _promised(disk, self._shares)) for guest in self.records() for disk in guest.files())
        return self.backends.unused_bytes() - promised

    def records(self) -> list[xml.Guest]:
        """Return the recorded Guest of every directory, also of other hosts. Callers must not change the objects.

        An unchanged file is not read again. An unreadable record is logged and omitted; ``unreadable`` has its
        directory.
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

    def remove_unused_images(self) -> None:
        self.unreadable.discard_missing()
        guests = [*self.records(), *self.backups().values()]
        if self.unreadable:
            LOG.warning('Unused cached images are not removed: guest records that cannot be read may need them.')
            return
        self.cache.remove_unused({disk.backing_file for guest in guests if guest for disk in guest.files()})
        self.backends.new.remove_unused()


def _promised(disk: xml.Disk, shares: bool) -> int:
    """Return the bytes that a disk may still allocate. With ``shares``, count also blocks shared with the image."""
    try:
        unallocated = local_files.size_of(disk.file, disk.format) - os.stat(disk.file).st_blocks * 512
        return unallocated + (reflink.shared_bytes(disk.file) if shares else 0)
    except OSError:
        return 0
