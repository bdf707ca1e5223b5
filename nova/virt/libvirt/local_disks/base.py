"""Interface of storage backends for local disks.

A unique path in the guest's directory names each disk, even if the backend stores no file there.

The classes are entry points of the group ``nova.libvirt.local_disks`` (backends.py); [libvirt] images_type selects one.
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
    """Storage backend. The methods that are implemented here are for disks in the guests' directories.

    cache     QEMU's cache mode for new disks
    pooled    whether the disks are outside of the guests' directories and hosts share them (SharedPlace)
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
        """Check libvirt; called after the connection to libvirt is open.

        :raises VirtError: libvirt cannot open disks of this backend
        """

    def prepare(self) -> None:
        """Prepare the backend; called at each startup, before other methods.

        :raises VirtError: disks cannot be created here
        """

    def from_image(self, path: str, image_id: str, image: image_cache.Base, size: int, target: str,
                   bus: str, report: progress.Report = progress.ignore) -> xml.Disk:
        """Create a disk of ``size`` bytes from a checked image; ``report`` gets the progress."""
        raise NotImplementedError

    def from_file(self, path: str, target: str, bus: str, readonly: bool = False) -> xml.Disk:
        """Create a disk from the raw file at the path of the disk. The file becomes the disk or is removed."""
        raise NotImplementedError

    def remove(self, path: str) -> None:
        """Remove a disk; no error when there is none."""
        raise NotImplementedError

    def erase(self, uuid: str, kept: Collection[str] = ()) -> None:
        """Remove a guest's data outside of its directory except the disks with the names ``kept``."""

    def size(self, disk: xml.Disk) -> int:
        """Return the virtual size of a disk in bytes."""
        raise NotImplementedError

    def grow(self, disk: xml.Disk, size: int) -> None:
        """Grow an unused disk to ``size`` bytes, if the disk is smaller."""
        raise NotImplementedError

    def renew(self, disk: xml.Disk, source: str) -> None:
        """Begin a resize: file-based backends copy ``source`` to the path of ``disk``; pools take a snapshot."""
        raise NotImplementedError

    def rebase(self, disk: xml.Disk) -> None:
        """Rebase a disk from another host on its recorded backing file; backends without files do nothing."""

    def copy(self, disk: xml.Disk, path: str) -> None:
        """Copy an unused disk, including its backing files, into a new qcow2 file."""
        raise NotImplementedError

    def restore(self, disk: xml.Disk) -> None:
        """Roll a disk back to the snapshot that ``renew`` has taken; file-based backends do nothing."""

    def release(self, disk: xml.Disk) -> None:
        """Delete the snapshot that ``renew`` has taken; file-based backends do nothing."""

    def source(self, path: str) -> DiskSource | None:
        """Return the source of a disk for xml.Disk; None if the disk is the file at the path."""
        return None

    def disks_of(self, uuid: str) -> list[str]:
        """Return the names of a guest's disks outside of its directory."""
        return []

    def check_new(self, uuid: str) -> None:
        """Check that a new server has no disks yet.

        :raises VirtError: there are disks with the server's id outside of its directory
        """

    def remove_unused(self) -> None:
        """Remove old, unused images from a pool."""

    def room(self) -> Room | None:
        """Return the total and free bytes of the backend, or None if disks are in the guests' directories."""
        return None


class SharedPlace(Place):
    """Storage backend that several hosts share. It stores which host owns the disks of a guest (owners.py)."""

    def note(self, uuid: str) -> str | None:
        """Return the stored owner record of a guest as text, or None."""
        raise NotImplementedError

    def put_note(self, uuid: str, text: str) -> None:
        """Store the owner record of a guest."""
        raise NotImplementedError

    def keep_moment(self, disk: xml.Disk) -> None:
        """Take a snapshot of a running guest's disk for ``copy_moment``, replacing an older snapshot."""
        raise NotImplementedError

    def copy_moment(self, disk: xml.Disk, path: str) -> None:
        """Copy the snapshot of ``keep_moment`` into a new qcow2 file while the guest uses the disk."""
        raise NotImplementedError

    def forget_moment(self, disk: xml.Disk) -> None:
        """Remove the snapshot of ``keep_moment``."""
        raise NotImplementedError

    def images_of(self, uuid: str) -> list[str]:
        """Return [pool/image] of a guest's disks in Ceph; an evacuation fences their clients."""
        raise NotImplementedError
