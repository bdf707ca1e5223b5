"""PCI devices of fake hosts and guests."""
from __future__ import annotations

import json
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.objects import pci

if TYPE_CHECKING:
    from nova.objects.instance import Instance

_KEYS = ('address', 'vendor_id', 'product_id', 'dev_type', 'numa_node', 'parent_addr', 'devname')


def devices(values: list[Any], host: str) -> list[Any]:
    """Return [pci.Device] of a host as described by [fake] pci_devices.

    :raises InvalidInput: the description is malformed
    """
    try:
        decoded = [json.loads(value) for value in values]
        items = [item for value in decoded for item in (value if isinstance(value, list) else [value])]
        return [pci.Device(**{name: item[name] for name in _KEYS if name in item})
                for item in items if item.get('host', host) == host]
    except (ValueError, TypeError, AttributeError) as error:
        raise exception.InvalidInput(f'[fake] pci_devices: {error}') from None


def given(instance: Instance, guests: dict[str, dict[str, Any]]) -> list[Any]:
    """Return the addresses of the instance's devices, or of the guest's devices if the instance has not loaded them.

    :param guests: {uuid: guest} of the host: a device belongs to one guest
    :raises VirtError: another guest has one of the devices
    """
    if not instance.obj_attr_is_set('pci_devices'):
        return guests.get(instance.uuid, {}).get('pci_devices', [])
    addresses = [device.address for device in instance.devices()]
    for uuid, guest in guests.items():
        both = set(guest.get('pci_devices') or ()) & set(addresses)
        if both and uuid != instance.uuid:
            raise exception.VirtError(operation='give the guest its devices',
                                      reason=f'guest {uuid} has {", ".join(sorted(both))}')
    return addresses
