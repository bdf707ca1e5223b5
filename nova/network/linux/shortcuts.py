"""Shortcuts past the bridge for connections that the rules have let pass, as a table of nft by itself (ADR 0130).

What a connection's packets meet otherwise are the bridge, br_netfilter, the tracking of connections and two chains of
rules. A packet that has passed all of these and leaves by a device of a guest, or to another host, has the generation
of the rules as its mark: the connection gets into a set of that device for SHORT_S. A packet of it that arrives
meanwhile goes from its sender's device to the receiver's at once. What begins or ends a connection of TCP never does.
Connections are those of TCP and UDP, and the requests and replies of ping: of these alone the tracking of connections
knows all that rules look at.

Each change of the filters removes this table in the same transaction; it is made again after it. So no packet passes
here by rules that are not there any more: one still on its way has the mark of other rules, and teaches nothing.
"""
from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from nova.network.linux import frames

if TYPE_CHECKING:
    from nova.network.host.state import HostState, Overlay, Port

SHORT_S = 10            # then one packet goes the long way, by which the connection and the bridge's table stay known
MOST = 16384            # connections of a device; others go the long way
# (protocols of IPv4 and of IPv6, end of the names of sets, packets that may be short, what its connections differ in)
_PROTOCOLS = (
    (('tcp', 'tcp'), '', 'meta l4proto tcp tcp flags & (fin | syn | rst) == 0', 'tcp sport . tcp dport'),
    (('udp', 'udp'), 'u', 'meta l4proto udp', 'udp sport . udp dport'),
    (('icmp', None), 'p', 'meta l4proto icmp icmp type { echo-request, echo-reply } icmp code 0',
     'icmp type . icmp id'),
    ((None, 'ipv6-icmp'), 'p', 'meta l4proto ipv6-icmp icmpv6 type { echo-request, echo-reply } icmpv6 code 0',
     'icmpv6 type . icmpv6 id'))
# whole, and without options: what follows is the header of the protocol
_FAMILIES = {4: ('ip', '', '@nh,0,8 0x45 @nh,48,16 & 0xbfff == 0 ip protocol'), 6: ('ip6', '6', 'ip6 nexthdr')}
# Packets that went past the tracking of connections are missing there: a later one is in no window that it knows of.
SETTINGS = ('nf_conntrack_tcp_be_liberal', 'nf_conntrack_tcp_ignore_invalid_rst')


def possible(state: HostState) -> bool:
    """Whether there is a network between hosts here, and no port with ranges, whose packets have marks of their own."""
    return bool(state.overlays) and not any(frames.wide(port) for port in state.ports)


def eligible(port: Port) -> bool:
    """What a port sends and gets is not limited, and by its one MAC and its addresses known as its own."""
    return port.secured and not port.pairs and not port.limits and bool(port.addresses)


def script(table: str, state: HostState, devices: Collection[str], generation: int) -> str:
    """Text for ``nft -f -`` that replaces the table.

    :param devices: names of those that are there: a chain of this family hangs on a device
    :param generation: of the rules, see rules.generation
    """
    body = []
    for overlay in state.overlays:
        ports = [port for port in state.ports
                 if port.bridge == overlay.bridge and port.device in devices and eligible(port)]
        if frames.tunnel_name(overlay) in devices:
            moving = {mac for mac, _host in overlay.moving} | {
                port.mac for port in state.ports if port.bridge == overlay.bridge and (port.move or port.arriving)}
            body += _network(overlay, ports, moving, generation)
    return remove(table) + '\n'.join([f'table netdev {table} {{', *body, '}']) + '\n'


def remove(table: str) -> str:
    """Text that removes the table, there or not."""
    return f'table netdev {table}\ndelete table netdev {table}\n'


def probe(table: str) -> str:
    """Text for ``nft --check -f -`` that a host takes where there can be shortcuts."""
    return '\n'.join([f'table netdev {table}_probe {{', *_receiver('lo'), *_base('ingress', 'lo', ['goto to_lo']),
                      *_base('egress', 'lo', ['goto learn_lo']), '}']) + '\n'


def _network(overlay: Overlay, ports: list[Port], moving: set[str], generation: int) -> list[str]:
    tunnel, name = frames.tunnel_name(overlay), overlay.bridge
    if overlay.vlan is not None:
        return _base('egress', tunnel, ['meta mark set 0'])
    here = {port.mac: port.device for port in ports}
    # a guest that moves is at two places for a while: the bridge says at which one, also where it is about to arrive
    remote = {mac for mac, _host in overlay.remotes}
    places = {**dict.fromkeys(sorted(remote - here.keys() - moving), tunnel),
              **{mac: device for mac, device in here.items() if mac not in remote | moving}}
    body = [line for device in [*here.values(), tunnel] for line in _receiver(device)]
    elements = ', '.join(f'{mac} : goto to_{device}' for mac, device in places.items())
    body += [f'map places_{name} {{', 'type ether_addr : verdict',
             *([f'elements = {{ {elements} }}'] if elements else []), '}']
    body += [f'chain short_{name} {{',
             *(f'{data} ether daddr vmap @places_{name}' for _names, _end, data, _key in _PROTOCOLS), '}']
    for port in ports:               # ether type: what has a tag is of another one
        own = [f'ether saddr {port.mac} ether type {family} {family} saddr {frames.joined(addresses)} '
               f'{"" if port.mark is None else f"{family} dscp set {port.mark} "}goto short_{name}'
               for version, (family, _end, _whole) in _FAMILIES.items()
               if (addresses := frames.of_version(port.addresses, version))]
        body += _base('ingress', port.device, own)
        body += _base('egress', port.device, [
            f'meta mark {generation:#x} ether daddr {port.mac} goto learn_{port.device}'])
    return [*body, *_base('ingress', tunnel, [f'goto short_{name}']), *_base('egress', tunnel, [
        f'meta mark {generation:#x} jump learn_{tunnel}', 'meta mark != 0 meta mark set 0'])]


def _receiver(device: str) -> list[str]:
    """What leads to a device, and what it learns."""
    sets, short, learn = [], [], []
    for protocols, kind, data, differs in _PROTOCOLS:
        for (family, end, whole), protocol in zip(_FAMILIES.values(), protocols, strict=True):
            if protocol is not None:
                flows, key = f'flows{kind}{end}_{device}', f'{family} saddr . {family} daddr . {differs}'
                sets += [f'set {flows} {{', f'typeof {key}', f'size {MOST}', 'flags dynamic,timeout',
                         f'timeout {SHORT_S}s', '}']
                match = f'meta protocol {family} {whole} {protocol}'
                short.append(f'{match} {key} @{flows} fwd to "{device}"')
                learn.append(f'{match} {data} add @{flows} {{ {key} }}')
    return [*sets, f'chain to_{device} {{', *short, '}',
            f'chain learn_{device} {{', *learn, '}']


def _base(hook: str, device: str, rules: list[str]) -> list[str]:
    return [f'chain {hook}_{device} {{', f'type filter hook {hook} device "{device}" priority 0; policy accept;',
            *rules, '}']
