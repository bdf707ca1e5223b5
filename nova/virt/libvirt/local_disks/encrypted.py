"""Encrypted disks: qcow2 files with QEMU's LUKS layer, opened with the guest's key.

All files of a guest have the same passphrase. Each file has its own master key, which the passphrase encrypts in the
file's header. The backing image is not encrypted.
"""
from __future__ import annotations

from collections.abc import Callable
import os
from typing import TYPE_CHECKING

from nova import exception
from nova.disk_files import files
from nova.runtime import progress
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import image_cache

if TYPE_CHECKING:
    from nova.disk_files.qemu_img import Tool

PLAIN = 'disk.plain'                     # input of an encryption in progress, next to its disk
NO_COPY = 'its disks are encrypted, and the copy would not be'


class Encrypted(local_files.Files):
    """Storage backend of one guest's encrypted disks.

    :param cache: QEMU's cache mode for new disks
    :param secret: id of the libvirt secret of the guest
    :param key: function() -> the passphrase; raises VirtError
    """

    def __init__(self, directory: str, qemu_img: Tool, cache: str, secret: str, key: Callable[[], str]) -> None:
        super().__init__(directory, qemu_img)
        self.cache, self._secret, self._key = cache, secret, key

    def from_image(self, path: str, image_id: str, base: image_cache.Base, size: int, target: str,
                   bus: str, report: progress.Report = progress.ignore) -> xml.Disk:
        self.qemu_img.create(path, 'qcow2', size, base.path, base.format, key=self._key())
        files.give_to_guest(path)
        return xml.Disk(path, 'qcow2', target, bus, cache=self.cache, backing_file=base.path,
                        backing_format=base.format, secret=self._secret)

    def from_file(self, path: str, target: str, bus: str, readonly: bool = False) -> xml.Disk:
        key, plain = self._key(), os.path.join(os.path.dirname(path), PLAIN)
        os.rename(path, plain)
        try:
            self.qemu_img.convert(plain, 'raw', path, 'qcow2', key=key)
        finally:
            files.remove(plain)
        files.give_to_guest(path)
        return xml.Disk(path, 'qcow2', target, bus, readonly=readonly, cache=self.cache, secret=self._secret)

    def grow(self, disk: xml.Disk, size: int) -> None:
        if not disk.keeps_size and size > self.size(disk):
            self.qemu_img.resize(disk.file, disk.format, size, disk.backing_file, key=self._key())

    def rebase(self, disk: xml.Disk) -> None:
        if disk.backing_file and disk.backing_format:
            self.qemu_img.rebase(disk.file, disk.format, disk.backing_file, disk.backing_format, key=self._key())

    def copy(self, disk: xml.Disk, path: str) -> None:
        raise exception.VirtError(operation='make a snapshot', reason=NO_COPY)
