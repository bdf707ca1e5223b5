"""Storage backends of a host: one for new disks ([libvirt] images_type), one for files, and the Ceph pool if any."""
import dataclasses
import os
import typing
from collections.abc import Callable
from typing import NoReturn

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.disk_files.qemu_img import Tool
from nova.runtime import disk_space
from nova.runtime import entry_points
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import base
from nova.virt.libvirt.local_disks import files as local_files

GROUP = 'nova.libvirt.local_disks'       # group of entry points of backends


def configured(conf: ConfigOpts, directory: str, qemu_img: Tool, host: str) -> base.Place:
    """Return the storage backend (Place) that [libvirt] images_type names; other packages may add backends.

    :param directory: directory of all guests
    :raises InvalidOption: no installed backend has this name
    :raises VirtError: the configuration of the backend is unusable
    """
    found = entry_points.named('[libvirt] images_type', conf.libvirt.images_type, GROUP)
    return typing.cast('base.Place', found.configured(conf, directory, qemu_img, host))


def no_key(uuid: str) -> NoReturn:
    raise exception.VirtError(operation='open the disks', reason='this service has no access to the keys')


class Backends:
    """Select the backend of a disk, and report the space in the backend of new disks.

    :param directory: directory of all guests
    :param disks: Place of new disks; None: qcow2 files
    :param reserve: nova.runtime.disk_space.Reserve: space that files must leave free
    :param key: function(uuid of a guest) -> the passphrase of its disks; raises VirtError

    :ivar new: Place of new disks
    :ivar files: Place of disks that are files
    :ivar pool: SharedPlace of this host, or None
    """

    def __init__(self, directory: str, qemu_img: Tool, disks: base.Place | None, reserve: disk_space.Reserve,
                 key: Callable[[str], str]) -> None:
        self._directory, self._qemu_img, self._key = directory, qemu_img, key
        self.new: base.Place = disks or local_files.Qcow2(directory, qemu_img, reserve)
        self.pool = typing.cast(base.SharedPlace, disks) if self.new.pooled else None
        self.files = local_files.Qcow2(directory, qemu_img, reserve) if self.pool else self.new

    @property
    def encrypts(self) -> bool:
        """Return whether new disks can be encrypted."""
        return self.pool is None

    def of(self, disk: xml.Disk) -> base.Place:
        """Return the storage backend of a disk in a guest's record.

        :raises VirtError: this host cannot access the disk
        """
        if disk.secret:
            return self._encrypted(disk.secret)
        if disk.source is None:
            return self.files
        if self.pool is None:
            raise exception.VirtError(operation='reach the disks', reason='they are in a Ceph pool, and [libvirt] '
                                                                          'images_type of this host is not rbd')
        return self.pool

    def of_new(self, uuid: str, encrypted: bool) -> base.Place:
        """Return the storage backend of a new disk.

        :raises VirtError: this host cannot encrypt the disk
        """
        if not encrypted:
            return self.new
        if not self.encrypts:
            raise exception.VirtError(operation='encrypt the disks', reason=(
                '[libvirt] images_type of this host is rbd, and disks in Ceph are not encrypted here'))
        return self._encrypted(uuid)

    def _encrypted(self, uuid: str) -> base.Place:
        return local_files.Encrypted(self._directory, self._qemu_img, self.files.cache, uuid,
                                         lambda: self._key(uuid))

    def refresh(self, guest: xml.Guest) -> None:
        """Update the sources of a record's disks: Ceph's monitors may change."""
        for disk in guest.files():
            disk.source = self.of(disk).source(disk.file)

    def pooled(self, disk: xml.Disk, path: str) -> xml.Disk:
        """Convert a pool disk in a record from another host: set the path, source and cache mode of this host.

        :raises VirtError: this host has no pool
        """
        place = self.of(dataclasses.replace(disk, source={}))
        return dataclasses.replace(disk, file=path, format='raw', cache=place.cache, backing_file=None,
                                   backing_format=None, source=place.source(path))

    def images_of(self, uuid: str) -> list[str]:
        """Return [pool/image] of a guest's disks in Ceph; empty if disks are files."""
        return [] if self.pool is None else self.pool.images_of(uuid)

    def clear_pool(self, guest: xml.Guest) -> None:
        """Remove from the pool the disks of a guest that are not in the guest's record."""
        names = {os.path.basename(disk.file) for disk in guest.files() if disk.source}
        if self.pool is not None and names:
            self.pool.erase(guest.uuid, names)

    def release(self, guest: xml.Guest) -> None:
        """Delete the snapshots that a resize has taken of a guest's disks for a revert (Place.restore)."""
        for disk in guest.disks:
            self.of(disk).release(disk)

    def remove(self, path: str) -> None:
        """Remove a temporary disk by its path; no error if there is none."""
        for place in {self.files, self.new}:             # images_type may have changed since the disk was created
            place.remove(path)

    def total_bytes(self) -> int:
        room = self.new.room()
        if room:
            return int(room.total)
        status = os.statvfs(self._directory)
        return status.f_frsize * status.f_blocks

    def unused_bytes(self) -> int:
        """Return the free bytes; space that sparse disks of guests may still allocate is not subtracted."""
        room = self.new.room()
        if room:
            return int(room.unused)
        status = os.statvfs(self._directory)
        return status.f_frsize * status.f_bavail
