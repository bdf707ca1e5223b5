"""The filters of one host as an nftables script: a pure function of its ports, groups and rules.

Two tables. The ``bridge`` table looks at frames where they enter from and leave to a guest's device: a guest
can send
only with its own MAC and addresses, cannot play DHCP server, and gets only what is meant for it. What it
says about
the sender can be relied on, so the ``inet`` table knows guests by address: it filters by security groups,
with
connection tracking, keeps networks apart, protects the host, redirects metadata and translates addresses on
the way out.

The ``inet`` hooks see bridged packets through the kernel's br_netfilter, switched on for our bridges alone.
The
bridge family's own connection tracking (nf_conntrack_bridge) would not do: many kernels lack it, and routed
traffic
of guests never meets it.

Only replies pass because of a tracked connection. Its first direction is held against the rules packet by
packet,
so that a rule that is removed ends running connections, too.
"""
from __future__ import annotations

from collections.abc import Collection
import re
from typing import Any, TYPE_CHECKING

from nova.network import security

if TYPE_CHECKING:
    from nova.network.host_state import HostState, Network, Port

METADATA = '169.254.169.254'


def table_name(bridge: str) -> str:
    """The tables of a cloud, by the name of its default bridge."""
    return 'nova_' + re.sub(r'[^A-Za-z0-9]', '_', bridge)


def _hex(ident: str) -> str:
    return re.sub(r'[^A-Za-z0-9]', '', ident)


def _quote(name: str) -> str:
    return '"%s"' % name


def _set(values: Any) -> str:
    return '{ %s }' % ', '.join(values)


def script(table: str, state: HostState, metadata: tuple[str, int] | None, host_ports: tuple[Any, ...] = (),
           strays: Collection[Any] = ()) -> str:
    """Text for ``nft -f -`` that replaces both tables at once.

    :param table: table_name(…)
    :param state: HostState
    :param metadata: (address, port) of the metadata server, or None
    :param host_ports: TCP ports of the host that guests may reach
    :param strays: devices on our bridges that belong to no port (any more): nothing passes there
    """
    served = [network for network in state.networks if network.subnets]
    lines = [f'table {family} {table}\ndelete table {family} {table}' for family in ('bridge', 'inet')]
    lines += _table('bridge', table, _bridge_body(state, served, strays))
    lines += _table('inet', table, _inet_body(state, served, metadata, host_ports))
    return '\n'.join(lines) + '\n'


def remove(table: Any) -> Any:
    """Text that removes both tables, there or not."""
    return ''.join(
        f'table {family} {table}\ndelete table {family} {table}\n' for family in ('bridge', 'inet')
    )


def _table(family: str, name: str, body: list[str]) -> list[str]:
    return [f'table {family} {name} {{', *['    ' + line for line in body], '}']


def _chain(name: str, rules: list[str], hook: tuple[str, str, int] | None = None) -> list[str]:
    """:param hook: (type, hook, priority) of a base chain; its policy is accept"""
    head = [f'type {hook[0]} hook {hook[1]} priority {hook[2]}; policy accept;'] if hook else []
    return [f'chain {name} {{', *['    ' + rule for rule in head + rules], '}']


def _map(name: str, key: str, pairs: list[tuple[str, str]]) -> list[str]:
    elements = [f'    elements = {_set(f"{left} : goto {chain}" for left, chain in pairs)}'] if pairs else []
    return [f'map {name} {{', f'    type {key} : verdict', *elements, '}']


# ---- frames ---------------------------------------------------------------------

def _bridge_body(state: HostState, served: list[Network], strays: list[str] | tuple[Any, ...]) -> list[str]:
    gateways = {network.bridge: [s.gateway for s in network.subnets if s.gateway] for network in served}
    body = []
    for port in state.ports:
        body += _chain('from_' + port.device, _from_guest(port))
        body += _chain('to_' + port.device, _to_guest(port, gateways.get(port.bridge, [])))
    body += _chain('stray', ['drop'])
    for side in ('from', 'to'):
        body += _map(f'{side}_guest', 'ifname', [
            *[(_quote(port.device), f'{side}_{port.device}') for port in state.ports],
            *[(_quote(device), 'stray') for device in strays]])
    body += _chain('prerouting', ['iifname vmap @from_guest'], ('filter', 'prerouting', -300))
    body += _chain('postrouting', ['oifname vmap @to_guest'], ('filter', 'postrouting', -300))
    return body


def _from_guest(port: Port) -> list[str]:
    """ARP and IPv4 with its own addresses, and the question for one; nothing else, tagged frames included."""
    rules = [f'ether saddr != {port.mac} drop']
    if port.addresses:
        known = _set(port.addresses)
        senders = _set(['0.0.0.0', *port.addresses])          # 0.0.0.0: a probe for a duplicate
        rules += [
            f'ether type arp arp saddr ether {port.mac} arp saddr ip {senders} accept',
            'ether type ip ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept',
            'ether type ip udp sport 67 drop',
            f'ether type ip ip saddr {known} accept',
        ]
    return rules + ['drop']


def _to_guest(port: Port, gateways: list[str]) -> list[str]:
    rules = []
    if port.addresses:
        rules += ['ether type arp accept', f'ether type ip ip daddr {_set(port.addresses)} accept']
        if gateways:
            rules.append(f'ether type ip ip saddr {_set(gateways)} udp sport 67 udp dport 68 accept')
    return rules + ['drop']


# ---- packets ----------------------------------------------------------------------

def _inet_body(state: HostState, served: list[Network], metadata: tuple[str, int] | None,
               host_ports: tuple[Any, ...]) -> list[str]:
    bridges = [network.bridge for network in served]
    body = []
    for group, addresses in sorted(state.members.items()):
        elements = [f'    elements = {_set(addresses)}'] if addresses else []
        body += [f'set members_{_hex(group)} {{', '    type ipv4_addr', *elements, '}']
    for group, rows in sorted(state.rules.items()):
        for direction in ('egress', 'ingress'):
            body += _chain(f'{direction}_{_hex(group)}',
                           [text for row in rows if row['direction'] == direction and (text := rule(row))])
    for port in state.ports:
        for direction in ('egress', 'ingress'):
            body += _chain(f'{direction}_{port.device}',
                           [f'jump {direction}_{_hex(group)}' for group in port.groups] + ['drop'])
    for direction in ('egress', 'ingress'):
        body += _map(direction, 'ipv4_addr', [
            (address, f'{direction}_{port.device}') for port in state.ports for address in port.addresses])
    # an accept ends one base chain: each packet passes a chain for its sender and one for its receiver
    body += _chain('egress_check', ['ct state invalid drop', 'ct direction reply ct state established accept',
                                    'ct state related accept', 'ip saddr vmap @egress'])
    body += _chain(
        'ingress_check',
        [
            'ct state invalid drop',
            'ct direction reply ct state established accept',
            'ct state related accept',
            'ip daddr vmap @ingress',
        ],
    )
    if not bridges:
        return body
    names = _set(map(_quote, bridges))
    body += _chain('input', [f'iifname {names} jump to_host'], ('filter', 'input', -10))
    body += _chain('to_host', _to_host(metadata, host_ports))
    apart = [
        f'iifname {_quote(bridge)} oifname {_set(_quote(other) for other in bridges if other != bridge)} drop'
        for bridge in bridges
        if len(bridges) > 1
    ]
    # a cloud may itself be a guest of a cloud, whose metadata service is not for our guests
    apart.append(f'iifname {names} ip daddr 169.254.0.0/16 drop')
    body += _chain('forward_apart', apart, ('filter', 'forward', -30))
    body += _chain('forward_egress', [f'iifname {names} jump egress_check'], ('filter', 'forward', -20))
    body += _chain('forward_ingress', [f'oifname {names} jump ingress_check'], ('filter', 'forward', -10))
    body += _chain('output', [f'oifname {names} udp sport 67 udp dport 68 accept',
                              f'oifname {names} jump ingress_check'], ('filter', 'output', -10))
    body += _nat(served, names, metadata)
    return body


def _to_host(metadata: tuple[str, int] | None, host_ports: tuple[Any, ...]) -> list[str]:
    """What guests may ask of the host itself: DHCP, metadata, and as their groups allow ping, DNS, chosen
    ports."""
    rules = ['udp sport 68 udp dport 67 accept', 'ct direction reply ct state established accept']
    if metadata:
        rules.append(f'ip daddr {metadata[0]} tcp dport {metadata[1]} accept')
    tcp = _set(str(port) for port in (53, *host_ports))
    return rules + [
        'ip protocol != { icmp, udp, tcp } drop',
        'ip protocol udp udp dport != 53 drop',
        f'ip protocol tcp tcp dport != {tcp} drop',
        'jump egress_check']


def _nat(served: list[Network], names: str, metadata: tuple[str, int] | None) -> list[str]:
    redirect = [f'iifname {names} ip daddr {METADATA} tcp dport 80 dnat ip to {metadata[0]}:{metadata[1]}'
                ] if metadata else []
    out = [f'ip saddr {subnet.cidr} ip daddr != {subnet.cidr} oifname != {names} masquerade'
           for network in served for subnet in network.subnets]
    return (_chain('prerouting_nat', redirect, ('nat', 'prerouting', -100))
            + _chain('postrouting_nat', out, ('nat', 'postrouting', 100)))


# ---- rules of groups ------------------------------------------------------------------

def rule(row: dict[str, Any]) -> str | None:
    """One security group rule as an nftables statement, or None where no packet of ours could match it."""
    if row['ethertype'] != 'IPv4':
        return None
    words = []
    far = 'saddr' if row['direction'] == 'ingress' else 'daddr'
    if row['remote_ip_prefix']:
        words.append(f'ip {far} {security.normalized(row["remote_ip_prefix"])}')
    elif row['remote_group_id']:
        words.append(f'ip {far} @members_{_hex(row["remote_group_id"])}')
    words += _protocol(row)
    return ' '.join([*words, 'accept'])


def _protocol(row: dict[str, Any]) -> list[str]:
    protocol, low, high = row['protocol'], row['port_range_min'], row['port_range_max']
    if protocol is None:
        return []
    number = security.PROTOCOLS.get(protocol, protocol)
    if low is None:
        return [f'ip protocol {number}']
    if protocol == 'icmp':
        return [f'ip protocol 1 icmp type {low}', *([f'icmp code {high}'] if high is not None else [])]
    ports = str(low) if low == high else f'{low}-{high}'
    return [f'ip protocol {number} {protocol} dport {ports}']

