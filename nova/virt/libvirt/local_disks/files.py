"""File-based disks: raw files, or qcow2 overlays on cached images; overlays may be encrypted."""
from collections.abc import Callable
import os
import subprocess
import typing

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.disk_files import files
from nova.disk_files import reflink
from nova.disk_files.qemu_img import Tool
from nova.runtime import disk_space
from nova.runtime import progress
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import base
from nova.virt.libvirt.local_disks import image_cache

PLAIN = 'disk.plain'                     # name of the plain file from which an encrypted disk is created
NO_COPY = 'its disks are encrypted, and the copy would not be'


class Files(base.Place):
    """Base class of the file-based backends.

    :param directory: directory of all guests
    :param reserve: nova.runtime.disk_space.Reserve: free space that copies must leave
    :ivar secret: id of the libvirt secret of encrypted disks
    """

    secret: str | None = None

    def __init__(self, directory: str, qemu_img: Tool, reserve: disk_space.Reserve = disk_space.Reserve()) -> None:
        self.directory, self.qemu_img, self.reserve = directory, qemu_img, reserve

    @classmethod
    def configured(cls, conf: ConfigOpts, directory: str, qemu_img: Tool, host: str) -> typing.Self:
        return cls(directory, qemu_img, disk_space.reserve_of(conf))

    def key(self) -> str | None:
        """Return the passphrase of the disks, or None if they are not encrypted."""
        return None

    def prepare(self) -> None:
        self.cache = 'none' if _direct_io(self.directory) else 'writeback'

    def from_file(self, path: str, target: str, bus: str, readonly: bool = False) -> xml.Disk:
        files.give_to_guest(path)
        if readonly:
            return xml.Disk(path, 'raw', target, bus, readonly=True)
        return xml.Disk(path, 'raw', target, bus, cache=self.cache)

    def remove(self, path: str) -> None:
        files.remove(path)

    def size(self, disk: xml.Disk) -> int:
        """Return the virtual size in bytes, using the recorded format: the content could claim another format."""
        return size_of(disk.file, disk.format)

    def grow(self, disk: xml.Disk, size: int) -> None:
        if disk.keeps_size or size <= self.size(disk):
            return
        if disk.format == 'qcow2':
            self.qemu_img.resize(disk.file, disk.format, size, disk.backing_file, key=self.key())
        else:
            os.truncate(disk.file, size)

    def renew(self, disk: xml.Disk, source: str) -> None:
        copy(source, disk.file)

    def rebase(self, disk: xml.Disk) -> None:
        """Rebase a disk from another host on its recorded backing file."""
        if disk.backing_file and disk.backing_format:
            self.qemu_img.rebase(disk.file, disk.format, disk.backing_file, disk.backing_format, key=self.key())

    def copy(self, disk: xml.Disk, path: str) -> None:
        size = self.qemu_img.measure(disk.file, disk.format, disk.backing_file)
        with self.reserve.claimed(self.directory, size, path):
            self.qemu_img.convert(disk.file, disk.format, path, 'qcow2', disk.backing_file)


class Qcow2(Files):
    """Backend with root disks that are overlays on cached images."""

    def from_image(self, path: str, image_id: str, image: image_cache.Base, size: int, target: str,
                   bus: str, report: progress.Report = progress.ignore) -> xml.Disk:
        self.qemu_img.create(path, 'qcow2', size, image.path, image.format, key=self.key())
        files.give_to_guest(path)
        return xml.Disk(path, 'qcow2', target, bus, cache=self.cache, backing_file=image.path,
                        backing_format=image.format, secret=self.secret)


class Encrypted(Qcow2):
    """Storage backend of one guest's encrypted disks: qcow2 files with QEMU's LUKS layer.

    All files of a guest have the same passphrase. Each file has its own master key, which the passphrase encrypts in
    the file's header. The backing image is not encrypted.

    :param cache: QEMU's cache mode for new disks
    :param secret: id of the libvirt secret of the guest
    :param key: function() -> the passphrase; raises VirtError
    """

    def __init__(self, directory: str, qemu_img: Tool, cache: str, secret: str, key: Callable[[], str]) -> None:
        super().__init__(directory, qemu_img)
        self.cache, self.secret, self._key = cache, secret, key

    def key(self) -> str:
        return self._key()

    def from_file(self, path: str, target: str, bus: str, readonly: bool = False) -> xml.Disk:
        key, plain = self.key(), os.path.join(os.path.dirname(path), PLAIN)
        os.rename(path, plain)
        try:
            self.qemu_img.convert(plain, 'raw', path, 'qcow2', key=key)
        finally:
            files.remove(plain)
        files.give_to_guest(path)
        return xml.Disk(path, 'qcow2', target, bus, readonly=readonly, cache=self.cache, secret=self.secret)

    def copy(self, disk: xml.Disk, path: str) -> None:
        raise exception.VirtError(operation='make a snapshot', reason=NO_COPY)


class Raw(Files):
    """Backend with root disks that are copies of cached images, as reflinks if the file system supports them."""

    def from_image(self, path: str, image_id: str, image: image_cache.Base, size: int, target: str,
                   bus: str, report: progress.Report = progress.ignore) -> xml.Disk:
        if image.format != 'raw' or not reflink.clone(image.path, path):
            room = self.qemu_img.measure(image.path, image.format)
            with self.reserve.claimed(self.directory, room, path), progress.watched(path, [image.path], report):
                self.qemu_img.convert(image.path, image.format, path, 'raw')
        os.truncate(path, size)
        files.give_to_guest(path)
        return xml.Disk(path, 'raw', target, bus, cache=self.cache)


def copy(source: str, target: str) -> None:
    """Copy a file of a guest to another file of the same guest.

    :raises VirtError: there is no space for the copy
    """
    done = subprocess.run(['cp', '--reflink=auto', '--sparse=always', '--', source, target],
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise exception.VirtError(operation='copy a disk', reason='there is no room, or the disk cannot be read')
    files.give_to_guest(target)


def size_of(path: str, disk_format: str) -> int:
    """Return the virtual size in bytes of a disk with the recorded format."""
    return qcow2_size(path) if disk_format == 'qcow2' else os.path.getsize(path)


def qcow2_size(path: str) -> int:
    """Return the virtual size in the header of a qcow2 file. A guest's writes do not reach the header."""
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
