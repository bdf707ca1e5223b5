"""Common attributes of a guest's virtio devices, added in one pass over the finished devices."""
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree as etree

from nova.hardware import guest_options

SCSI = 'virtio-scsi'
# device tag: path of the element that indicates virtio, its attribute, the values
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


def attributes(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of the element ``driver``; empty if the guest requests none."""
    found = {}
    if settings.get('virtio_packed_ring') == guest_options.TRUE:
        found['packed'] = 'on'
    if settings.get('mem_encryption') == guest_options.TRUE:
        found['iommu'] = 'on'                # the host sees only memory that the guest maps
    return found


def complete(devices: Iterable[etree.Element], settings: Mapping[str, str]) -> None:
    """Add the virtio attributes to these devices of a guest."""
    found = attributes(settings)
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
