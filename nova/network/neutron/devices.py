"""SR-IOV ports: device requests and binding profiles."""

from nova import exception
from nova.network.neutron.documents import Network
from nova.network.neutron.documents import Port
from nova.objects import pci

# {vnic_type: type of the PCI device}; [pci] device_spec tags devices with their physical network
TYPES = {'direct': pci.VIRTUAL, 'macvtap': pci.VIRTUAL}
SLOT, VENDOR, PHYSICAL = 'pci_slot', 'pci_vendor_info', 'physical_network'
KEYS = (SLOT, VENDOR, PHYSICAL)               # keys of the binding profile that describe the device


def vnic_type(port: Port) -> str:
    return port.get('binding:vnic_type') or 'normal'


def request(port: Port, network: Network) -> pci.Request | None:
    """Return the device request of a port, or None if its vnic_type needs no device.

    :param network: network of the port, as administrators see it
    :raises NetworkRequestInvalid: the network has no physical network
    """
    kind = TYPES.get(vnic_type(port))
    if kind is None:
        return None
    physical = network.get('provider:physical_network')
    if not physical:
        raise exception.NetworkRequestInvalid(
            reason=f'port {port["id"]} is of vnic_type {vnic_type(port)}, which needs a device on a physical network, '
                   'but its network has none.')
    return pci.Request(1, ({'dev_type': kind, PHYSICAL: physical},), port.get('numa_affinity_policy') or 'legacy',
                       None, port['id'])


def profile(port: Port, devices: list[pci.Device], host: str) -> dict[str, str | None]:
    """Return the binding profile keys of a port's device, or {} if its vnic_type needs no device.

    :param devices: the server's devices on its host
    :raises PortBindingFailed: no device was claimed for the port
    """
    if vnic_type(port) not in TYPES:
        return {}
    for device in devices:
        if device.request_id == port['id']:
            return {SLOT: device.address, VENDOR: f'{device.vendor_id}:{device.product_id}',
                    PHYSICAL: device.tags.get(PHYSICAL)}
    raise exception.PortBindingFailed(
        reason=f'port {port["id"]} is of vnic_type {vnic_type(port)}, and no device of host {host} was claimed for it.')
