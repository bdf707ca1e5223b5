"""Places of guests' files: directories, records, and the storage backend of each disk."""
from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Callable
from typing import Any, NoReturn, TYPE_CHECKING

from nova import exception
from nova.runtime import disk_space
from nova.runtime import versioned_records
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import encrypted as encrypted_disks
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import image_cache
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.local_disks import records

if TYPE_CHECKING:
    from nova.disk_files.qemu_img import Tool
    from nova.virt.driver import ImageSource
    from nova.virt.libvirt.local_disks.base import Place
    from nova.virt.libvirt.local_disks.base import Pool

BASE = '_base'
# QEMU runs as another user, who must pass through these directories to reach its own files.
DIRECTORY_MODE = 0o711


def _no_key(uuid: str) -> NoReturn:
    raise exception.VirtError(operation='open the disks', reason='this service was given no keys')


class GuestFiles:
    """Locations of the files of all guests.

    :param directory: directory of all guests of this deployment on this host
    :param inspect: see ImageCache
    :param disks: local_disks.base.Place of new disks; None: qcow2 files
    :param max_age: seconds; see ImageCache
    :param reserve: nova.runtime.disk_space.Reserve: space that snapshots, images and arriving guests must leave free
    :param verify: see ImageCache
    :param host: owner of the guests saved and listed here; others may share the directory. None: all owners
    :param key: function(uuid of a guest) -> the passphrase of its disks; raises VirtError
    """

    def __init__(self, directory: str, images: ImageSource, qemu_img: Tool,
                 inspect: Callable[[str, str], None] | None = None, disks: Place | None = None, max_age: int = 86400,
                 reserve: disk_space.Reserve = disk_space.Reserve(), verify: Callable[..., Any] | None = None,
                 host: str | None = None, key: Callable[[str], str] = _no_key) -> None:
        self.directory, self.reserve, self.host = directory, reserve, host
        self._images, self._qemu_img, self._key = images, qemu_img, key
        self._base = os.path.join(directory, BASE)
        self.cache = image_cache.ImageCache(self._base, images, qemu_img, inspect, max_age, verify, reserve)
        self._shares = False                     # whether files share blocks with their images
        self._parsed: dict[str, tuple[records.Stamp, xml.Guest]] = {}    # {uuid: record}, see Storage.records()
        self.unreadable = versioned_records.UnreadableRecords()          # keyed by directory
        self._disks: Place = disks or local_files.Qcow2(directory, qemu_img, reserve)         # backend of new disks
        pooled = self._disks.pooled
        self._files = local_files.Qcow2(directory, qemu_img, reserve) if pooled else self._disks
        self._pool = typing.cast('Pool', disks) if pooled else None
        self.owners = owners.Owners(self._pool, host)

    @property
    def disk_cache(self) -> str:
        """Return QEMU's cache mode for files here."""
        return self._files.cache

    def of(self, disk: xml.Disk) -> Place:
        """Return the Place of a recorded Disk.

        :raises VirtError: this host cannot access the disk
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
        """Return the Place of a new disk.

        :raises VirtError: this host cannot encrypt the disk
        """
        if not encrypted:
            return self._disks
        if not self.encrypts:
            raise exception.VirtError(operation='encrypt the disks', reason=(
                '[libvirt] images_type of this host is rbd, and disks in Ceph are not encrypted here'))
        return self._encrypted(uuid)

    @property
    def encrypts(self) -> bool:
        """Return whether new disks can be encrypted."""
        return self._pool is None

    def refresh(self, guest: xml.Guest) -> None:
        """Update the sources of a record's disks: Ceph's monitors may change."""
        for disk in guest.files():
            disk.source = self.of(disk).source(disk.file)

    def pooled(self, disk: xml.Disk, path: str) -> xml.Disk:
        """Return another host's Disk in the pool with this host's source.

        :raises VirtError: this host has no pool, or the pool has no record
        """
        place = self.of(dataclasses.replace(disk, source={}))
        return dataclasses.replace(disk, file=path, format='raw', cache=place.cache, backing_file=None,
                                   backing_format=None, source=place.source(path))

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

    def is_ours(self, guest: xml.Guest) -> bool:
        """Return whether the record belongs to this host."""
        return self.host is None or guest.ownership.host in (None, self.host)

    def readable(self, directory: str, load: Callable[[str], xml.Guest | None], uuid: str) -> xml.Guest | None:
        """Return the result of ``load`` for a guest; None, and an entry in ``unreadable``, if its record is unreadable.
        """
        try:
            guest = load(uuid)
        except exception.VirtError as error:
            self.unreadable.add(directory, error)
            return None
        self.unreadable.discard(directory)
        return guest

    def clear_pool(self, guest: xml.Guest) -> None:
        """Remove a guest's disks in the pool that its record does not name."""
        names = {os.path.basename(disk.file) for disk in guest.files() if disk.source}
        if self._pool is not None and names:
            self._pool.erase(guest.uuid, names)

    def make_directory(self, uuid: str) -> None:
        """Create a guest's directory.

        :raises VirtError: the pool has disks of a guest with this uuid
        """
        self._disks.check_new(uuid)
        os.makedirs(self.path(uuid), exist_ok=True)          # exists in a rebuild that keeps some files
        os.chmod(self.path(uuid), DIRECTORY_MODE)

    def remove_disk(self, uuid: str, name: str) -> None:
        """Remove a temporary disk of a guest; no error if there is none."""
        for place in {self._files, self._disks}:         # images_type may have changed since
            place.remove(self.path(uuid, name))

    def total_bytes(self) -> int:
        room = self._disks.room()
        if room:
            return room.total
        status = os.statvfs(self.directory)
        return status.f_frsize * status.f_blocks
