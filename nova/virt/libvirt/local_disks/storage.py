"""Directory of each guest: its disks and its record.

    <instances>/<uuid>/guest.json       the Guest (xml.py) with the disks' formats, written only by this service
                       disk             root: qcow2 overlay on a cached image, or raw
                       disk.ephemeral0, disk.swap      raw
                       disk.config      config drive
                       disk.plain       temporary input of an encrypted disk: local_disks/encrypted.py
                       root             file system of a container, owned by its users
                       kernel, ramdisk  of images with three parts
                       *.rescue, disk.configrescue     files of a rescue: features/rescue.py
                       frozen           exists while its file systems are frozen: features/agent.py
                       console.log
    <instances>/_base/                  the image cache

A guest may write any header into its disks. So the format is read from the record and never from a disk.
"""
from __future__ import annotations

import contextlib
import functools
import glob
import itertools
import logging
import os
import pathlib
import pwd
import shutil
import tempfile
import typing
from collections.abc import Iterable, Iterator

from nova.disk_files import files
from nova.disk_files import reflink
from nova import exception
from nova.runtime import disk_space
from nova.runtime import privileges
from nova.virt.libvirt import xml
from nova.virt.libvirt.container_root import unpack
from nova.virt.libvirt.local_disks import encrypted as encrypted_disks
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import guest_files
from nova.virt.libvirt.local_disks import records
from nova.virt.libvirt.local_disks.guest_files import BASE, DIRECTORY_MODE
from nova.virt.libvirt.local_disks.new_disks import NewDisks
from nova.virt.libvirt.local_disks.resize_backups import ResizeBackups

LOG = logging.getLogger(__name__)

GIB = 1024 ** 3
SNAPSHOT = 'snapshot-'                   # prefix of the temporary directory of a snapshot


def instances_directory(state_path: str | None) -> str:
    """Return the directory of a deployment's guests.

    :param state_path: [DEFAULT] state-path; None means its default
    """
    default = '/var/lib/nova' if os.geteuid() == 0 else '~/.local/share/nova'
    return os.path.join(os.path.realpath(os.path.expanduser(state_path or default)), 'instances')


def take_over(directory: str, user: pwd.struct_passwd) -> None:
    """Change the ownership of root's guests, so that an ordinary user can run this service; called by root.

    The user becomes the owner of shared images and of the disks of stopped guests. Disks of running guests still belong
    to QEMU's user and become readable for this user. A second call changes nothing.
    :param directory: directory of all guests; a link or a missing directory is ignored
    """
    if not os.path.isdir(directory):
        return
    for folder, below, names, descriptor in os.fwalk(directory):
        shared = os.path.basename(folder) == BASE
        if unpack.ROOT in below:         # files of a container's users, which keep their owners
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


class Storage(guest_files.GuestFiles):
    """Files of all guests, their backups and new disks; parameters as in GuestFiles."""

    @functools.cached_property
    def resize_backups(self) -> ResizeBackups:
        return ResizeBackups(self, self._pool, self.host)

    @functools.cached_property
    def new_disks(self) -> NewDisks:
        return NewDisks(self, self._images)

    def prepare(self) -> None:
        """Create the directories, remove orphans of a crash, and detect the file system's features."""
        missing = itertools.takewhile(lambda path: not path.exists(), pathlib.Path(self._base).parents)
        for directory in [*reversed(list(missing)), pathlib.Path(self.directory), pathlib.Path(self._base)]:
            directory.mkdir(exist_ok=True)
            directory.chmod(DIRECTORY_MODE)      # QEMU's user must reach its files below
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
        """Return whether the records show that no other host writes in a directory."""
        return path not in others and path not in self.unreadable

    def check_reach(self, uuid: str) -> None:
        """Check that a guest with disks in the pool has a record.

        :raises VirtError: neither the pool nor this host has a record
        """
        if self.load(uuid) is None and self.resize_backups.load(uuid) is None and self.owners.read(uuid) is None:
            self._disks.check_new(uuid)

    def guests(self) -> list[xml.Guest]:
        """Return [Guest] of the records of this host."""
        return [guest for guest in self.records() if self.is_ours(guest)]

    def save(self, guest: xml.Guest) -> None:
        if self.host is not None:
            owner = guest.ownership
            if owner.host not in (None, self.host):
                owner.taken_from = owner.host
            owner.host = self.host
        self.owners.write(guest, self.path(guest.uuid))
        self.record(guest)

    def record(self, guest: xml.Guest) -> None:
        """Save a guest as ``save`` does, but keep the recorded owner host."""
        records.write(self.path(guest.uuid), guest)
        self._parsed.pop(guest.uuid, None)

    def has_lost(self, uuid: str) -> bool:
        """Return whether another host has taken over a guest in the pool that the local record assigns to this host."""
        guest = self.load(uuid)
        return (guest is not None and guest.ownership.host == self.host and any(disk.source for disk in guest.disks)
                and self.owners.are_others(uuid, self.path(uuid)))

    def pool_images(self, uuid: str) -> list[str]:
        """Return [pool/image] of a guest's disks in Ceph; empty if disks are files."""
        return [] if self._pool is None else self._pool.images_of(uuid)

    def release(self, guest: xml.Guest) -> None:
        """Delete the earlier state of a guest's disks that was kept for a restore."""
        for disk in guest.disks:
            self.of(disk).release(disk)

    def forget(self, uuid: str) -> None:
        """Remove a guest's directory but no disk outside of it."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path(uuid))

    def remove(self, uuid: str, again: bool = False, kept: typing.Collection[str] = ()) -> None:
        """Remove a guest's directory with its content and its disks elsewhere; no error if there is none.

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
            if os.path.lexists(path):    # a concurrent removal of a file: retry once
                shutil.rmtree(path)

    def _erase(self, uuid: str, guest: xml.Guest | None, again: bool) -> None:
        """Remove a guest's data outside of its directory.

        Without a directory, the guest may belong to a host that shares the pool but not the record.
        """
        if guest is None and not self.exists(uuid):
            return
        kept = self.resize_backups.load(uuid)
        names = {os.path.basename(disk.file) for disk in kept.disks} if kept else set()
        places_of = {self.of(disk) for disk in guest.files()} if guest else {self._disks}
        if kept is None and not again and self._pool in places_of and self.owners.are_others(uuid, self.path(uuid)):
            places_of.discard(self._pool)
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
        return self.unused_bytes() if self._disks.room() else self.reserve.room(self.directory)

    def check_free(self) -> None:
        """Check the reserve of the guests' file system.

        :raises VirtError: less than the reserve is free
        """
        if self._disks.room():
            return
        try:
            self.check_room()
        except exception.InsufficientStorage:
            raise exception.VirtError(operation='take the guest', reason=(
                'less is free on the disk of this host than [image] free_disk_reserve')) from None

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

    def unused_bytes(self) -> int:
        """Return the free bytes, including those promised to guests."""
        room = self._disks.room()
        if room:
            return room.unused
        status = os.statvfs(self.directory)
        return status.f_frsize * status.f_bavail

    def free_bytes(self) -> int:
        """Return the free bytes not promised to a guest: disks are sparse and will grow.

        For a pool, return its free bytes, because hosts do not know what was promised to other users of the pool.
        """
        room = self._disks.room()
        if room:
            return room.unused
        status = os.statvfs(self.directory)
        promised = 0
        for guest in self.records():
            for disk in guest.files():
                promised += max(0, _promised(disk, self._shares))
        return status.f_frsize * status.f_bavail - promised

    def records(self) -> list[xml.Guest]:
        """Return the recorded Guest of every directory, also of hosts that share it; callers must not change them.

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
        guests = [*self.records(), *self.resize_backups.guests().values()]
        if self.unreadable:
            LOG.warning('Unused cached images are not removed: guest records that cannot be read may need them.')
            return
        self.cache.remove_unused({disk.backing_file for guest in guests if guest for disk in guest.files()})
        self._disks.remove_unused()


def _promised(disk: xml.Disk, shares: bool) -> int:
    """Return the bytes that a disk may still allocate; ``shares`` includes blocks shared with the image."""
    try:
        status = os.stat(disk.file)
        size = status.st_size
        if disk.format == 'qcow2':
            size = local_files.qcow2_size(disk.file)
        return size - status.st_blocks * 512 + (reflink.shared_bytes(disk.file) if shares else 0)
    except OSError:
        return 0
