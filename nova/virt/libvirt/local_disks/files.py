"""File-based disks: qcow2 overlays on cached images, or raw."""
from __future__ import annotations

import os
import subprocess
import typing

from nova import exception
from nova.disk_files import files
from nova.disk_files import reflink
from nova.runtime import disk_space
from nova.runtime import progress
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import image_cache

if typing.TYPE_CHECKING:
    from nova.disk_files.qemu_img import Tool
    from nova.virt.libvirt.local_disks.ceph_login import Hypervisor
    from oslo_config.cfg import ConfigOpts


class Files:
    """Common part of the file-based backends.

    :param directory: directory of all guests
    :param reserve: nova.runtime.disk_space.Reserve: free space that copies must leave
    """

    pooled: typing.ClassVar[bool] = False

    def __init__(self, directory: str, qemu_img: Tool,
                 reserve: disk_space.Reserve = disk_space.Reserve()) -> None:
        self._directory, self.qemu_img, self._reserve = directory, qemu_img, reserve
        self.cache = 'writeback'

    @classmethod
    def configured(cls, conf: ConfigOpts, directory: str, qemu_img: Tool, host: str) -> typing.Self:
        return cls(directory, qemu_img, disk_space.reserve_of(conf))

    def check_hypervisor(self, hypervisor: Hypervisor) -> None:
        """Do nothing: QEMU opens files without libvirt."""

    def prepare(self) -> None:
        self.cache = 'none' if _direct_io(self._directory) else 'writeback'

    def from_file(self, path: str, target: str, bus: str, readonly: bool = False) -> xml.Disk:
        files.give_to_guest(path)
        if readonly:
            return xml.Disk(path, 'raw', target, bus, readonly=True)
        return xml.Disk(path, 'raw', target, bus, cache=self.cache)

    def remove(self, path: str) -> None:
        files.remove(path)

    def erase(self, uuid: str, kept: typing.Collection[str] = ()) -> None:
        """Do nothing: all data is in the directory."""

    def size(self, disk: xml.Disk, path: str | None = None) -> int:
        """Return the guest-visible bytes, read with the recorded format, which is never detected from the content."""
        path = path or disk.file
        return qcow2_size(path) if disk.format == 'qcow2' else os.path.getsize(path)

    def grow(self, disk: xml.Disk, size: int) -> None:
        if disk.keeps_size or size <= self.size(disk):
            return
        if disk.format == 'qcow2':
            self.qemu_img.resize(disk.file, disk.format, size, disk.backing_file)
        else:
            os.truncate(disk.file, size)

    def renew(self, disk: xml.Disk, source: str) -> None:
        copy(source, disk.file)

    def rebase(self, disk: xml.Disk) -> None:
        """Rebase a disk from another host on its recorded backing file."""
        if disk.backing_file and disk.backing_format:
            self.qemu_img.rebase(disk.file, disk.format, disk.backing_file, disk.backing_format)

    def copy(self, disk: xml.Disk, path: str) -> None:
        size = self.qemu_img.measure(disk.file, disk.format, disk.backing_file)
        with self._reserve.claimed(self._directory, size, path):
            self.qemu_img.convert(disk.file, disk.format, path, 'qcow2', disk.backing_file)

    def restore(self, disk: xml.Disk) -> None:
        """Do nothing: the rename of the directory restores the file."""

    def release(self, disk: xml.Disk) -> None:
        """Do nothing: the file is removed with its directory."""

    def source(self, path: str) -> None:
        return None

    def disks_of(self, uuid: str) -> list[str]:
        return []

    def check_new(self, uuid: str) -> None:
        """Do nothing: creating an existing directory fails."""

    def remove_unused(self) -> None:
        """Do nothing: all images are in the directory."""

    def room(self) -> None:
        return None


class Qcow2(Files):
    """Backend with root disks that are overlays on cached images."""

    def from_image(self, path: str, image_id: str, base: image_cache.Base, size: int, target: str,
                   bus: str, report: progress.Report = progress.ignore) -> xml.Disk:
        self.qemu_img.create(path, 'qcow2', size, base.path, base.format)
        files.give_to_guest(path)
        return xml.Disk(path, 'qcow2', target, bus, cache=self.cache, backing_file=base.path,
                        backing_format=base.format)


class Raw(Files):
    """Backend with root disks that are copies of cached images, as reflinks if the file system supports them."""

    def from_image(self, path: str, image_id: str, base: image_cache.Base, size: int, target: str,
                   bus: str, report: progress.Report = progress.ignore) -> xml.Disk:
        if base.format != 'raw' or not reflink.clone(base.path, path):
            room = self.qemu_img.measure(base.path, base.format)
            with self._reserve.claimed(self._directory, room, path), progress.watched(path, [base.path], report):
                self.qemu_img.convert(base.path, base.format, path, 'raw')
        os.truncate(path, size)
        files.give_to_guest(path)
        return xml.Disk(path, 'raw', target, bus, cache=self.cache)


def copy(source: str, target: str) -> None:
    """Copy a file of a guest for the same guest.

    :raises VirtError: there is no space for the copy
    """
    done = subprocess.run(['cp', '--reflink=auto', '--sparse=always', '--', source, target],
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise exception.VirtError(operation='copy a disk', reason='there is no room, or the disk cannot be read')
    files.give_to_guest(target)


def qcow2_size(path: str) -> int:
    """Return the disk bytes of a qcow2 file with a trusted header; a guest can write only after the header."""
    with open(path, 'rb') as file:
        return int.from_bytes(file.read(32)[24:32])


def _direct_io(directory: str) -> bool:
    """Return whether the file system supports direct I/O."""
    path = os.path.join(directory, '.direct-io')
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o600))
        return True
    except OSError:
        return False
    finally:
        files.remove(path)
