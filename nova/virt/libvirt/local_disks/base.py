"""Interface of storage backends for local disks.

Regardless of the storage, the name of a disk is a path below the directory of its guest, so names are unique.

The classes are entry points of the group ``nova.libvirt.local_disks`` (backends.py), named by [libvirt] images_type.
A file-based class inherits files.Files and creates its disks as raw or qcow2 files at their paths. All other code
(moves, snapshots, resizes) reads the format from the guest's record.
"""
from __future__ import annotations

import collections
import typing
from collections.abc import Callable, Collection

from oslo_config.cfg import ConfigOpts

from nova.disk_files.qemu_img import Tool
from nova.runtime import progress
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain.volume_disks import DiskSource
from nova.virt.libvirt.local_disks import image_cache

Room = collections.namedtuple('Room', 'total unused')        # bytes


class Hypervisor(typing.Protocol):
    """The method of host.Host that storage backends call."""

    def run(self, operation: str, function: Callable[..., bool], argument: str, /) -> bool: ...


class Place:
    """Storage backend. The default of a method is that of a backend with its disks in the guests' directories.

    cache     QEMU's cache mode for new disks
    pooled    whether the disks are outside of the directory and shared by hosts; such a backend is a SharedPlace
    """

    cache: str = 'writeback'
    pooled: typing.ClassVar[bool] = False

    @classmethod
    def configured(cls, conf: ConfigOpts, directory: str, qemu_img: Tool, host: str) -> Place:
        """Return the backend configured on a host.

        :param directory: directory of all guests
        :raises VirtError: a required option is missing
        """
        raise NotImplementedError

    def check_hypervisor(self, hypervisor: Hypervisor) -> None:
        """Check libvirt once it is connected.

        :raises VirtError: libvirt cannot open disks of this backend
        """

    def prepare(self) -> None:
        """Prepare the backend; called first at each startup.

        :raises VirtError: disks cannot be created here
        """

    def from_image(self, path: str, image_id: str, image: image_cache.Base, size: int, target: str,
                   bus: str, report: progress.Report = progress.ignore) -> xml.Disk:
        """Create a disk of ``size`` bytes from a checked image; ``report`` gets the progress."""
        raise NotImplementedError

    def from_file(self, path: str, target: str, bus: str, readonly: bool = False) -> xml.Disk:
        """Create a disk from the raw file at its path, which becomes the disk or is removed."""
        raise NotImplementedError

    def remove(self, path: str) -> None:
        """Remove a disk; no error when there is none."""
        raise NotImplementedError

    def erase(self, uuid: str, kept: Collection[str] = ()) -> None:
        """Remove a guest's data outside of its directory except the disks with the names ``kept``."""

    def size(self, disk: xml.Disk) -> int:
        """Return the guest-visible bytes of a disk."""
        raise NotImplementedError

    def grow(self, disk: xml.Disk, size: int) -> None:
        """Grow an unused disk to ``size`` bytes, if it is smaller."""
        raise NotImplementedError

    def renew(self, disk: xml.Disk, source: str) -> None:
        """Reset a disk to the content of the one that a resize has set aside at the path ``source``."""
        raise NotImplementedError

    def rebase(self, disk: xml.Disk) -> None:
        """Rebase a disk from another host on its recorded backing file; backends without files do nothing."""

    def copy(self, disk: xml.Disk, path: str) -> None:
        """Copy an unused disk, including its backing files, into a new qcow2 file."""
        raise NotImplementedError

    def restore(self, disk: xml.Disk) -> None:
        """Undo all changes since ``renew``; file-based backends do nothing."""

    def release(self, disk: xml.Disk) -> None:
        """Release the data of a disk that a resize has set aside; file-based backends do nothing."""

    def source(self, path: str) -> DiskSource | None:
        """Return QEMU's source of the disk, as in an xml.Disk; None if it is the file at its path."""
        return None

    def disks_of(self, uuid: str) -> list[str]:
        """Return the names of a guest's disks outside of its directory."""
        return []

    def check_new(self, uuid: str) -> None:
        """Check that a server id is unused.

        :raises VirtError: a server of this id has disks outside of its directory
        """

    def remove_unused(self) -> None:
        """Remove unused, old images outside of the directory."""

    def room(self) -> Room | None:
        """Return the total and free bytes of the backend, or None if its disks are in the directory."""
        return None


class SharedPlace(Place):
    """Storage backend with disks shared by several hosts, and with records of their owners."""

    def note(self, uuid: str) -> str | None:
        """Return the note of a guest, or None."""
        raise NotImplementedError

    def put_note(self, uuid: str, text: str) -> None:
        """Store a note on the owner of a guest's disks."""
        raise NotImplementedError

    def keep_moment(self, disk: xml.Disk) -> None:
        """Take a snapshot of a running guest's disk for ``copy_moment``, replacing an older snapshot."""
        raise NotImplementedError

    def copy_moment(self, disk: xml.Disk, path: str) -> None:
        """Copy the snapshot of ``keep_moment``, as ``copy`` does, while the guest uses the disk."""
        raise NotImplementedError

    def forget_moment(self, disk: xml.Disk) -> None:
        """Remove the snapshot of ``keep_moment``."""
        raise NotImplementedError

    def images_of(self, uuid: str) -> list[str]:
        """Return [pool/image] of a guest's disks in Ceph; an evacuation fences their clients."""
        raise NotImplementedError
