"""The form of a server's network information: plain dicts that are stored in ``instances.network_info``.

    vif = {'id': port uuid, 'address': MAC, 'type': 'bridge', 'devname': 'tap' + 11 characters, 'active': bool,
           'tag': str or None, 'network': network}
    network = {'id', 'label', 'bridge', 'mtu', 'dns_domain': search domain or '', 'subnets': [subnet]}
    subnet = {'id', 'cidr', 'version': 4 or 6, 'gateway': address or None, 'dns': [address],
              'ips': [{'address', 'type': 'fixed', 'floating_ips': []}], 'routes': [], 'dhcp_server': address,
              'ipv6_address_mode': 'slaac', 'dhcpv6-stateless', 'dhcpv6-stateful' or None}

The VIF of a trunk's parent port has the bridge of the trunk, and 'subports': the VIFs of the subports, each with
'vlan', its VLAN id in the guest.
"""
from typing import Any

PREFIX = 'tap'


def devname(port_id: str) -> str:
    """Return the name of the port's tap device: 14 characters, as Linux limits interface names to 15."""
    return PREFIX + port_id[:11]


def trunk_bridge(port_id: str) -> str:
    """Return the name of the bridge to which the tap device of a trunk's parent port is attached."""
    return 'tb' + port_id.replace('-', '')[:12]


def trunk_devname(port_id: str) -> str:
    """Return the device of a trunk's parent port in the bridge of its network: 15 characters."""
    return PREFIX + 't' + port_id[:11]


def fixed_ips(vif: dict[str, Any]) -> list[tuple[str, int]]:
    """Return [(address, version)] of one VIF."""
    return [
        (ip['address'], subnet['version']) for subnet in vif['network']['subnets'] for ip in subnet['ips']
    ]
