"""Disks, and the controllers that they hang on."""
from typing import Any
from xml.etree import ElementTree as etree

from nova.virt.libvirt.domain.tree import add


def disks(devices: etree.Element, guest: Any) -> None:
    """
    :param guest: xml.Guest
    """
    for each in guest.disks:
        disk(devices, each)
    if any(each.bus == 'scsi' for each in guest.disks):
        add(devices, 'controller', type='scsi', index=0, model='virtio-scsi')


def disk(devices: etree.Element, disk: Any) -> etree.Element:
    """
    :param disk: xml.Disk
    """
    element = add(devices, 'disk', type='file', device='disk')
    add(element, 'driver', name='qemu', type=disk.format, cache=disk.cache, discard='unmap')
    add(element, 'source', file=disk.file)
    # The chain is named to its end: libvirt must not look into the files for more of it.
    backing = add(element, 'backingStore')
    if disk.backing_file:
        backing.set('type', 'file')
        add(backing, 'format', type=disk.backing_format)
        source = add(backing, 'source', file=disk.backing_file)
        # Else libvirt makes the image that many guests share the property of QEMU's user, who could then write it.
        add(source, 'seclabel', model='dac', relabel='no')
        add(backing, 'backingStore')
    add(element, 'target', dev=disk.target, bus=disk.bus)
    if disk.readonly:
        add(element, 'readonly')
    return element
