"""Disks and their controllers."""
from collections.abc import Mapping
from xml.etree import ElementTree as etree

from nova.virt.libvirt.domain import volume_disks as volumes
from nova.virt.libvirt.domain.devices import VIRTIO_SCSI
from nova.virt.libvirt.domain.tree import add

MAX_QUEUES = 16                          # maximum queues of a controller: QEMU uses at most 16 for a disk


def controller(devices: etree.Element, settings: Mapping[str, str], vcpus: int) -> None:
    """If the domain has SCSI disks or volumes, add their controller."""
    if devices.find("disk/target[@bus='scsi']") is not None:
        made = add(devices, 'controller', type='scsi', index=0, model=settings.get('scsi_model', VIRTIO_SCSI))
        if made.get('model') == VIRTIO_SCSI:
            add(made, 'driver', queues=min(vcpus, MAX_QUEUES))


def local(devices: etree.Element, each: volumes.Disk, settings: Mapping[str, str]) -> None:
    """Add a local disk with the I/O limits of the flavor."""
    element = disk(devices, each)
    volumes.limit(element, limits(settings))


def limits(settings: Mapping[str, str]) -> dict[str, int]:
    """Return the flavor's I/O limits for each local disk: {name of volumes.LIMITS: number}. 0 means unlimited."""
    return {name: int(settings.get(f'quota_disk_{name}', 0)) for name in volumes.LIMITS}


def disk(devices: etree.Element, disk: volumes.Disk) -> etree.Element:
    """Add the element of a local disk."""
    element = add(devices, 'disk', type=disk.source['type'] if disk.source else 'file', device=disk.device)
    add(element, 'driver', **volumes.driver(disk.format, disk, disk.device != 'disk'))
    source = disk.source or {'type': 'file', 'path': disk.file, **({'luks': disk.secret} if disk.secret else {})}
    element.append(volumes.source_element(source))
    # The XML has the complete backing chain, so that libvirt does not detect backing files from the data
    backing = add(element, 'backingStore')
    if disk.backing_file:
        backing.set('type', 'file')
        add(backing, 'format', type=disk.backing_format)
        image = add(backing, 'source', file=disk.backing_file)
        # without relabel='no', libvirt makes QEMU's user the owner of the image, and QEMU could write to it
        add(image, 'seclabel', model='dac', relabel='no')
        add(backing, 'backingStore')
    add(element, 'target', dev=disk.target, bus=disk.bus)
    if disk.keeps_size:
        add(element, 'readonly')
    return element
