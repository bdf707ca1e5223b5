"""Record of a guest in rescue: which disks it has and from which disk it boots. Pure functions."""
import dataclasses
from typing import Any
from xml.etree import ElementTree as etree

from nova import utils
from nova.virt.libvirt.domain.volume_disks import Disk


@dataclasses.dataclass
class Rescued:
    """Devices and boot settings of a guest in rescue.

    disks    [Disk], all disks during the rescue
    kernel, ramdisk, cmdline   boot files and kernel command line of a rescue image with separate kernel and ramdisk
    target   target name of the boot disk, or None if the guest boots from the first disk
    device   type of the boot disk: 'disk', 'cdrom' or 'floppy'
    hot_plugged  [Disk] that were attached after the boot of the rescue system; the next start omits them
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
        """Return the target name of the boot disk."""
        return self.target or str(self.disks[0].target)


def load(values: dict[str, Any] | None) -> Rescued | None:
    """Create a Rescued from a stored record, or return None if the guest is not in rescue."""
    if not values:
        return None
    return utils.from_known(Rescued, {**values, **{
        name: [utils.from_known(Disk, each) for each in values.get(name, ())] for name in ('disks', 'hot_plugged')}})


def order(root: etree.Element, found: Rescued | None) -> None:
    """Let a domain boot from the rescue disk, although another disk is its first disk."""
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
