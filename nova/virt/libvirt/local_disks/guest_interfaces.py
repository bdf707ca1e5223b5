"""Network configuration of a guest with ifupdown, as text for /etc/network/interfaces. Pure functions.

https://manpages.debian.org/bookworm/ifupdown/interfaces.5.en.html describes the file.
"""
from __future__ import annotations

import ipaddress
from typing import Any

PATH = '/etc/network/interfaces'
HEADER = '# Written when this server was made; nothing keeps it up to date.\n\nauto lo\niface lo inet loopback\n'
_FAMILY = {4: 'inet', 6: 'inet6'}


def text(network_info: list[dict[str, Any]]) -> str:
    """Return the content of the file.

    :param network_info: VIFs (nova/objects/network_info.py), named eth0, eth1, … in the guest
    """
    return HEADER + ''.join(_interface(f'eth{number}', vif) for number, vif in enumerate(network_info))


def _interface(name: str, vif: dict[str, Any]) -> str:
    stanzas = [_stanza(name, subnet, ip['address']) for subnet in vif['network']['subnets'] for ip in subnet['ips']]
    return f'\nauto {name}\n' + ''.join(stanzas or [f'iface {name} inet manual\n'])


def _stanza(name: str, subnet: dict[str, Any], address: str) -> str:
    family = _FAMILY[subnet['version']]
    if not subnet.get('cidr'):
        return f'iface {name} {family} dhcp\n'
    cidr = ipaddress.ip_network(subnet['cidr'])
    lines = [f'iface {name} {family} static', f'    address {ipaddress.ip_address(address)}',
             f'    netmask {cidr.netmask if cidr.version == 4 else cidr.prefixlen}']
    if subnet.get('gateway'):
        lines.append(f'    gateway {ipaddress.ip_address(subnet["gateway"])}')
    servers = ' '.join(str(ipaddress.ip_address(server)) for server in subnet.get('dns') or ())
    if servers:
        lines.append(f'    dns-nameservers {servers}')
    for route in subnet.get('routes') or ():
        target, hop = ipaddress.ip_network(route['destination']), ipaddress.ip_address(route['nexthop'])
        lines.append(f'    up ip route add {target} via {hop} dev {name}')
    return '\n'.join(lines) + '\n'
