"""Read device addresses (bus and position on the bus) from the domain XML of a guest."""
from collections.abc import Iterator
from xml.etree import ElementTree as etree

from nova.objects import device_addresses

_DRIVES = {'ide': ('bus', 'unit')}
_DRIVE = ('controller', 'bus', 'target', 'unit')


def read(text: str) -> device_addresses.Addresses:
    """Return {key: [bus, address]} from a guest's XML. Keys: MACs of interfaces, device paths and serials of disks."""
    return dict(_found(etree.fromstring(text)))


def _found(domain: etree.Element) -> Iterator[tuple[str, list[str]]]:
    for device in domain.iterfind('./devices/*'):
        mac, target = device.find('mac'), device.find('target')
        address = device.find('address')
        if address is None or device.tag not in ('interface', 'disk'):
            continue
        place = _place(address, '' if target is None else target.get('bus', ''))
        if place is None:
            continue
        if mac is not None:
            yield mac.get('address', '').lower(), place
        elif target is not None:
            yield f'/dev/{target.get("dev")}', place
            if serial := device.findtext('serial'):
                yield serial, place


def _place(address: etree.Element, bus: str) -> list[str] | None:
    kind = address.get('type')
    if kind == 'pci':
        domain, number, slot, function = (int(address.get(part, '0'), 16) for part in (
            'domain', 'bus', 'slot', 'function'))
        return ['pci', f'{domain:04x}:{number:02x}:{slot:02x}.{function:x}']
    if kind == 'usb':
        return ['usb', f'{address.get("bus")}:{address.get("port")}']
    if kind == 'drive' and bus in device_addresses.BUSES:
        return [bus, ':'.join(address.get(part, '0') for part in _DRIVES.get(bus, _DRIVE))]
    return None
