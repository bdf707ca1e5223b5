"""What a place for the disks of guests can do.

A disk has a path for its name, below the directory of its guest, wherever its bytes lie: so names are unique.

The classes are entry points of the group ``nova.libvirt.local_disks`` (configured.py), each under the name that
[libvirt] images_type has for it. One whose disks are files has files.Files for its base, and makes the disks that it
returns as raw or qcow2 files at their paths; all else (moves, snapshots, resizes) reads their form from the guest's
record.
"""
from __future__ import annotations

import collections
import typing

from nova.runtime import progress
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import image_cache

Room = collections.namedtuple('Room', 'total unused')        # bytes


class Place(typing.Protocol):
    """
    cache     QEMU's cache mode for new disks
    pooled    whether its disks lie outside of the directory, where hosts share them; it is a Pool then
    """

    cache: str
    pooled: typing.ClassVar[bool]

    @classmethod
    def configured(cls, conf: typing.Any, directory: str, qemu_img: typing.Any, host: str) -> Place:
        """The one of a host, as its configuration says.

        :param directory: of all guests
        :param qemu_img: a qemu_img.Tool
        :raises VirtError: what it needs is not configured
        """
        raise NotImplementedError

    def check_hypervisor(self, hypervisor: typing.Any) -> None:
        """Once libvirt is connected.

        :param hypervisor: hosts.Host
        :raises VirtError: it cannot open such disks
        """

    def prepare(self) -> None:
        """At each start, before anything else.

        :raises VirtError: disks cannot be made here
        """

    def from_image(self, path: str, image_id: str, base: image_cache.Base, size: int, target: str,
                   bus: str, report: progress.Report = progress.ignore) -> xml.Disk:
        """A new disk of ``size`` bytes that begins with what a checked image has; ``report`` gets how far it is."""

    def from_file(self, path: str, target: str, bus: str, readonly: bool = False) -> xml.Disk:
        """A new disk with the content of the raw file at its path, which is the disk or is gone afterwards."""

    def remove(self, path: str) -> None:
        """Remove a disk; no error when there is none."""

    def erase(self, uuid: str, kept: typing.Collection[str] = ()) -> None:
        """Remove all that a guest has outside of its directory, but the disks with the names ``kept``."""

    def size(self, disk: xml.Disk, path: str | None = None) -> int:
        """Bytes that a guest sees of a disk; ``path``: where it is by now."""

    def grow(self, disk: xml.Disk, size: int) -> None:
        """Make a disk that no guest uses ``size`` bytes large, when it is smaller."""

    def renew(self, disk: xml.Disk, source: str) -> None:
        """Let a disk begin with the content of the one that a resize has put aside at the path ``source``."""

    def rebase(self, disk: xml.Disk) -> None:
        """Let a disk that came from another host stand on the file that its record names; nothing where there are no
        files."""

    def copy(self, disk: xml.Disk, path: str) -> None:
        """Copy a disk that no guest uses, with all that is below it, into a new qcow2 file."""

    def restore(self, disk: xml.Disk) -> None:
        """Undo all since ``renew``; nothing where what was put aside is a file."""

    def release(self, disk: xml.Disk) -> None:
        """What was put aside of a disk is not needed any more; as ``restore``."""

    def source(self, path: str) -> dict[str, typing.Any] | None:
        """Where QEMU finds the disk, as an xml.Disk has it; None: at its path."""

    def disks_of(self, uuid: str) -> list[str]:
        """Names of what a guest has outside of its directory."""

    def check_new(self, uuid: str) -> None:
        """:raises VirtError: a server of this id has disks outside of its directory"""

    def remove_unused(self) -> None:
        """Remove the images outside of the directory that no disk stands on and that are old enough."""

    def room(self) -> Room | None:
        """Of its own; None: it is the directory's."""


class Pool(Place, typing.Protocol):
    """A Place whose disks lie where several hosts share them, and that can say whose they are."""

    def note(self, uuid: str) -> str | None:
        """What was noted of a guest; None: nothing."""

    def put_note(self, uuid: str, text: str) -> None:
        """Note whose a guest's disks are."""

    def keep_moment(self, disk: xml.Disk) -> None:
        """Keep what a disk has at this moment for ``copy_moment``; its guest goes on. An older moment goes."""

    def copy_moment(self, disk: xml.Disk, path: str) -> None:
        """As ``copy``, of a disk that a guest uses: what it had when ``keep_moment`` was called."""

    def forget_moment(self, disk: xml.Disk) -> None:
        """Undo ``keep_moment``."""

    def images_of(self, uuid: str) -> list[str]:
        """[pool/image] of a guest's disks in Ceph, whose clients an evacuation shuts out."""
