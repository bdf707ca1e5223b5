"""Ports that are a device of their host (SR-IOV): what they request of it, and what their bindings say of it."""
from __future__ import annotations

from typing import Any

from nova import exception
from nova.objects import pci

Document = dict[str, Any]

# type of the port -> of the device, which is tagged with the port's physical network ([pci] device_spec)
TYPES = {'direct': pci.VIRTUAL, 'macvtap': pci.VIRTUAL}
SLOT, VENDOR, PHYSICAL = 'pci_slot', 'pci_vendor_info', 'physical_network'
KEYS = (SLOT, VENDOR, PHYSICAL)               # of a binding's profile


def vnic_type(port: Document) -> str:
    return port.get('binding:vnic_type') or 'normal'


def request(port: Document, network: Document) -> pci.Request | None:
    """The device that a port needs, None of a port of another type.

    :param network: of the port, as administrators see it
    :raises NetworkRequestInvalid: the network is on no physical one
    """
    kind = TYPES.get(vnic_type(port))
    if kind is None:
        return None
    physical = network.get('provider:physical_network')
    if not physical:
        raise exception.NetworkRequestInvalid(
            reason=f'port {port["id"]} is of vnic_type {vnic_type(port)}, and its network is on no physical network, '
                   'whose devices it could have.')
    return pci.Request(1, ({'dev_type': kind, PHYSICAL: physical},), port.get('numa_affinity_policy') or 'legacy',
                       None, port['id'])


def profile(port: Document, devices: list[pci.Device], host: str) -> Document:
    """What the profile of a port's binding says of its device there; {} of a port of another type.

    :param devices: that the server has on its host
    :raises PortBindingFailed: none of them was claimed for the port
    """
    if vnic_type(port) not in TYPES:
        return {}
    for device in devices:
        if device.request_id == port['id']:
            return {SLOT: device.address, VENDOR: f'{device.vendor_id}:{device.product_id}',
                    PHYSICAL: device.tags.get(PHYSICAL)}
    raise exception.PortBindingFailed(
        reason=f'port {port["id"]} is of vnic_type {vnic_type(port)}, and no device of host {host} was claimed for it.')
