"""Mediated devices: virtual devices that the driver of a host device, such as a graphics card, creates for guests.

Each possible device is a row of a host's devices (objects.pci.Device of dev_type MEDIATED), so that it is counted and
claimed like a PCI device. https://libvirt.org/formatnode.html and
https://libvirt.org/formatdomain.html#host-device-assignment describe the elements. Pure functions.
"""
import collections
from collections.abc import Iterable, Sequence
import dataclasses
import uuid
from xml.etree import ElementTree as etree
import zlib

from nova import exception
from nova.objects import pci
from nova.virt.libvirt.domain.tree import add

TYPE = 'mdev_type'                       # tag with the type of a device
_IDS = uuid.UUID('3f1a0c52-98f0-4c1d-8d0e-6a4f3c8b7e21')     # arbitrary namespace for id_of()
_MAX_DEVICES = 256            # maximum devices of a type on one PCI device: the index is two hex digits of the address


def devices(parents: Sequence[tuple[pci.Device, etree.Element]], made: Iterable[etree.Element],
            types: Sequence[str]) -> list[pci.Device]:
    """Return [pci.Device] of the existing and possible mediated devices of the given types.

    :param parents: the host's PCI devices with libvirt's descriptions
    :param made: node devices (root elements) of mediated devices
    :raises InvalidInput: two of the types get the same device addresses
    """
    digits = {kind: f'{zlib.crc32(kind.encode()) % 256:02x}' for kind in types}
    if len(set(digits.values())) < len(digits):
        raise exception.InvalidInput('[devices] enabled_mdev_types: two of the types get the same device addresses; '
                                     'remove one of them.')
    there = collections.Counter((node.findtext('parent'), _type_of(node)) for node in made)
    found = []
    for parent, node in parents:
        for element in node.findall("./capability/capability[@type='mdev_types']/type"):
            kind = element.get('id', '')
            if kind in digits:
                number = int(element.findtext('availableInstances') or 0) + there[node.findtext('name'), kind]
                found += [_one(parent, kind, f'{digits[kind]}{index:02x}')
                          for index in range(min(number, _MAX_DEVICES))]
    return found


def _one(parent: pci.Device, kind: str, place: str) -> pci.Device:
    return dataclasses.replace(parent, address=parent.address + place, parent_addr=parent.address, devname=None,
                               dev_type=pci.MEDIATED, tags={TYPE: kind})


def _type_of(node: etree.Element) -> str | None:
    element = node.find("./capability[@type='mdev']/type")
    return None if element is None else element.get('id')


def id_of(guest: str, device: pci.Device) -> str:
    """Return the id of a guest's mediated device, which depends only on the guest and the device's address."""
    return str(uuid.uuid5(_IDS, f'{guest}/{device.address}'))


def hostdev(guest: str, device: pci.Device) -> etree.Element:
    """Return the hostdev element of the device."""
    root = etree.Element('hostdev', mode='subsystem', type='mdev', model='vfio-pci')
    add(add(root, 'source'), 'address', uuid=id_of(guest, device))
    return root


def request(guest: str, device: pci.Device) -> str:
    """Return the XML with which libvirt creates the device."""
    root = etree.Element('device')
    add(root, 'name', 'mdev_' + id_of(guest, device).replace('-', '_'))
    add(root, 'parent', 'pci_' + (device.parent_addr or '').replace(':', '_').replace('.', '_'))
    capability = add(root, 'capability', type='mdev')
    add(capability, 'type', id=device.tags[TYPE])
    add(capability, 'uuid', id_of(guest, device))
    return etree.tostring(root, encoding='unicode')


def id_made(node: etree.Element) -> str | None:
    """Return the id of a mediated device from libvirt's description."""
    return node.findtext("./capability[@type='mdev']/uuid")
