"""The machine: what it boots, and its clock."""
from typing import Any
from xml.etree import ElementTree as etree

from nova.virt.libvirt.domain.tree import add


def boot(root: etree.Element, guest: Any) -> None:
    """
    :param guest: xml.Guest
    """
    os_ = add(root, 'os')
    add(os_, 'type', 'hvm', machine=guest.machine)
    if guest.kernel:
        add(os_, 'kernel', guest.kernel)
        if guest.ramdisk:
            add(os_, 'initrd', guest.ramdisk)
        add(os_, 'cmdline', guest.cmdline)
    else:
        add(os_, 'boot', dev='hd')
    add(os_, 'smbios', mode='sysinfo')


def features(root: etree.Element, guest: Any) -> None:
    element = add(root, 'features')
    add(element, 'acpi')
    add(element, 'apic')


def clock(root: etree.Element, guest: Any) -> None:
    element = add(root, 'clock', offset='utc')
    if guest.virt_type == 'kvm':
        add(element, 'timer', name='pit', tickpolicy='delay')
        add(element, 'timer', name='rtc', tickpolicy='catchup')
        add(element, 'timer', name='hpet', present='no')
