"""A server's network information: VIFs, plain dicts that are stored in ``instances.network_info``."""
from typing import NotRequired, TypedDict, final

from nova.json_types import JsonObject

PREFIX = 'tap'
FloatingIp = dict[str, str | None]       # keys, as in the compute API: id, ip, pool, fixed_ip, instance_id


class Address(TypedDict):
    """Address of a port. ``type``: 'fixed' or 'floating'."""

    address: str
    type: NotRequired[str]
    floating_ips: NotRequired[list['Address']]


# Subnet, with the addresses that the port has in it. ``version``: 4 or 6; ``ipv6_address_mode``: 'slaac', 'dhcpv6-…'.
Subnet = TypedDict('Subnet', {
    'id': str, 'cidr': str, 'version': int, 'gateway': str | None, 'dns': list[str], 'ips': list[Address],
    'routes': list[dict[str, str]], 'dhcp_server': str | None, 'ipv6_address_mode': NotRequired[str | None]})
# Network of a port. ``dns_domain``: search domain or ''.
Network = TypedDict('Network', {
    'id': str, 'label': str, 'bridge': str, 'mtu': int | None, 'dns_domain': str, 'subnets': list[Subnet]})


class Vif(TypedDict):
    """A port of a server. ``id``: port id; ``address``: MAC; ``type``: 'bridge', 'ovs' or 'hw_veb'.

    The VIF of a trunk's parent port has the bridge of the trunk and the VIFs of the subports. ``vlan`` is a subport's
    VLAN id in the guest. Only Neutron sets ``pci_slot``, ``vnic_type`` and ``details``.
    """

    id: str
    address: str
    type: str
    devname: str
    active: bool
    tag: str | None
    network: Network
    vlan: NotRequired[int]
    subports: NotRequired[list['Vif']]
    pci_slot: NotRequired[str]
    vnic_type: NotRequired[str]
    details: NotRequired[JsonObject]


class PortRequest(TypedDict, total=False):
    """A request for one port of a server; None for values that are not requested."""

    network_id: str | None
    port_id: str | None
    fixed_ip: str | None
    tag: str | None
    granted: bool
    guaranteed: bool


class HostFunction(TypedDict):
    """SR-IOV virtual function of a port. ``name``: network interface, only for macvtap; ``vlan`` 0: untagged."""

    address: str
    vlan: int
    macvtap: bool
    name: NotRequired[str]


@final
class DeletedPort(TypedDict):
    """Device that a guest still has although its port was deleted."""

    id: str
    address: None
    pci_slot: str


def devname(port_id: str) -> str:
    """Return the name of the port's tap device: 14 characters, because Linux limits interface names to 15."""
    return PREFIX + port_id[:11]


def trunk_bridge(port_id: str) -> str:
    """Return the name of the bridge to which the tap device of a trunk's parent port is attached."""
    return 'tb' + port_id.replace('-', '')[:12]


def trunk_devname(port_id: str) -> str:
    """Return the name of the device that connects a trunk's parent port to the bridge of its network: 15 characters."""
    return PREFIX + 't' + port_id[:11]


def fixed_ips(vif: Vif) -> list[tuple[str, int]]:
    """Return [(address, version)] of one VIF."""
    return [
        (ip['address'], subnet['version']) for subnet in vif['network']['subnets'] for ip in subnet['ips']
    ]
