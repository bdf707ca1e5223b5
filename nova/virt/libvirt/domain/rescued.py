"""Rescue state of a guest: the disks of the rescue, and its own disks. Pure functions."""
import dataclasses
from typing import Any
from xml.etree import ElementTree as etree

from nova import utils
from nova.virt.libvirt.domain.volume_disks import Disk


@dataclasses.dataclass
class Rescued:
    """Rescue configuration.

    disks    [Disk], all disks during the rescue
    kernel, ramdisk, cmdline   of a rescue image with three parts
    target   name of the boot disk, if it is not the first one
    device   type of that disk: 'disk', 'cdrom' or 'floppy'
    hot_plugged  [Disk] that a running guest gets after its boot; a later start omits them
    """

    disks: list[Disk]
    kernel: str | None = None
    ramdisk: str | None = None
    cmdline: str | None = None
    target: str | None = None
    device: str = 'disk'
    hot_plugged: list[Disk] = dataclasses.field(default_factory=list)
    unknown_fields: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True, repr=False, compare=False)

    @property
    def first(self) -> str:
        """Return the name of the boot disk."""
        return self.target or str(self.disks[0].target)


def load(values: dict[str, Any] | None) -> Rescued | None:
    """Return the Rescued of a record, or None if the guest is not in rescue."""
    if not values:
        return None
    return utils.from_known(Rescued, {**values, **{
        name: [utils.from_known(Disk, each) for each in values.get(name, ())] for name in ('disks', 'hot_plugged')}})


def order(root: etree.Element, found: Rescued | None) -> None:
    """Boot a domain from the rescue disk, regardless of its position."""
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
