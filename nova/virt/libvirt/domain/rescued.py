"""A rescued guest as data: the disks that it runs with meanwhile, and those that it goes back to. Pure functions."""
from __future__ import annotations

import dataclasses
from typing import Any
from xml.etree import ElementTree as etree

from nova import utils


@dataclasses.dataclass
class Rescued:
    """
    disks    [xml.Disk], all that it has meanwhile
    kernel, ramdisk, cmdline   of a rescue image that comes in three parts
    target   name of the disk that it boots from, where its place in the list does not say so
    device   kind of that disk: 'disk', 'cdrom' or 'floppy'
    late     [xml.Disk] that a running guest gets when it has booted; a later start is without them
    """

    disks: list[Any]
    kernel: str | None = None
    ramdisk: str | None = None
    cmdline: str | None = None
    target: str | None = None
    device: str = 'disk'
    late: list[Any] = dataclasses.field(default_factory=list)
    unknown_fields: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True, repr=False, compare=False)

    @property
    def first(self) -> str:
        """The name of the disk that it boots from."""
        return self.target or str(self.disks[0].target)


def load(values: dict[str, Any] | None, disk: type[Any]) -> Rescued | None:
    """The Rescued of a record, or None without one; ``disk`` is xml.Disk."""
    if not values:
        return None
    return utils.from_known(Rescued, {**values, **{
        name: [utils.from_known(disk, each) for each in values.get(name, ())] for name in ('disks', 'late')}})


def booted(guest: Any) -> Any:
    """The xml.Guest that runs: with the rescue's disks while it is rescued."""
    found = guest.rescued
    return guest if found is None else dataclasses.replace(
        guest, disks=found.disks, kernel=found.kernel, ramdisk=found.ramdisk, cmdline=found.cmdline,
        volumes=guest.volumes if found.target else [])


def files(guest: Any) -> list[Any]:
    """[xml.Disk] of all the files that an xml.Guest has on the host, each once."""
    disks = {disk.file: disk for disk in [*guest.disks, *(guest.rescued.disks if guest.rescued else ())]}
    return list(disks.values())


def order(root: etree.Element, guest: Any) -> None:
    """Let a domain boot from the rescue disk, wherever it stands among the others."""
    found = guest.rescued
    if found is None or found.target is None:
        return
    for parent in root.findall('./os[boot]') + root.findall('./devices/disk[boot]'):
        for element in parent.findall('boot'):
            parent.remove(element)
    for disk in root.findall('./devices/disk'):
        target = disk.find('target')
        if target is not None and target.get('dev') == found.target:
            disk.set('device', found.device)
            if found.kernel is None:
                etree.SubElement(disk, 'boot', order='1')
