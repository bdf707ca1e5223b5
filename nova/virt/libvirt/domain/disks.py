"""Disks, and the controllers that they hang on."""
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as etree

from nova.virt.libvirt.domain import virtio
from nova.virt.libvirt.domain import volume_disks as volumes
from nova.virt.libvirt.domain.tree import add

MOST_QUEUES = 16             # of a controller: QEMU makes no more use of them on one disk


def disks(devices: etree.Element, guest: Any) -> None:
    """
    :param guest: xml.Guest
    """
    for each in guest.disks:
        local(devices, each, guest)


def controller(devices: etree.Element, guest: Any) -> None:
    """What SCSI disks hang on, local ones and volumes."""
    if devices.find("disk/target[@bus='scsi']") is not None:
        made = add(devices, 'controller', type='scsi', index=0, model=guest.settings.get('scsi_model', virtio.SCSI))
        if made.get('model') == virtio.SCSI:
            add(made, 'driver', queues=min(guest.vcpus, MOST_QUEUES))


def local(devices: etree.Element, each: Any, guest: Any) -> None:
    """Add a local disk with the bounds of the flavor."""
    element = disk(devices, each)
    volumes.limit(element, limits(guest.settings))


def limits(settings: Mapping[str, str]) -> dict[str, int]:
    """What the flavor bounds each local disk to: {name of volumes.LIMITS: number}, 0 where it does not."""
    return {name: int(settings.get(f'quota_disk_{name}', 0)) for name in volumes.LIMITS}


def disk(devices: etree.Element, disk: Any) -> etree.Element:
    """
    :param disk: xml.Disk
    """
    element = add(devices, 'disk', type=disk.source['type'] if disk.source else 'file', device=disk.device)
    add(element, 'driver', **volumes.driver(disk.format, disk, disk.device != 'disk'))
    source = {'type': 'file', 'path': disk.file, 'luks': disk.secret} if disk.source is None else disk.source
    element.append(volumes.source_element(source))
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
    if disk.keeps_size:
        add(element, 'readonly')
    return element
