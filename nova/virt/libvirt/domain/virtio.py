"""What all virtio devices of a guest have: one pass over the devices that others have made."""
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as etree

from nova.hardware import guest_options

SCSI = 'virtio-scsi'
# tag of a device: path of what says that it is virtio, its attribute, the values
_VIRTIO = {
    'disk': ('target', 'bus', ('virtio',)),
    'interface': ('model', 'type', ('virtio',)),
    'controller': ('.', 'model', (SCSI, 'virtio')),
    'input': ('.', 'bus', ('virtio',)),
    'video': ('model', 'type', ('virtio',)),
    'sound': ('.', 'model', ('virtio',)),
    'rng': ('.', 'model', ('virtio',)),
    'memballoon': ('.', 'model', ('virtio',)),
}


def attributes(guest: Any) -> dict[str, str]:
    """Of the element ``driver``; empty where the guest asks for nothing.

    :param guest: xml.Guest
    """
    found = {}
    if guest.settings.get('virtio_packed_ring') == guest_options.TRUE:
        found['packed'] = 'on'
    if guest.settings.get('mem_encryption') == guest_options.TRUE:
        found['iommu'] = 'on'                # the host sees only what the guest shows it
    return found


def complete(devices: Iterable[etree.Element], guest: Any) -> None:
    """Give these devices of a guest what its virtio devices have."""
    found = attributes(guest)
    for device in devices if found else ():
        if is_virtio(device):
            driver = device.find('driver')
            if driver is None:
                driver = etree.Element('driver')
                device.insert(0, driver)
            driver.attrib.update(found)


def is_virtio(device: etree.Element) -> bool:
    path, name, values = _VIRTIO.get(device.tag, ('.', '', ()))
    said = device.find(path)
    return device.get('type') == 'virtio-serial' or said is not None and said.get(name) in values
