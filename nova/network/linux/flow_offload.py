"""Flow offload: forward packets of accepted connections past the bridge, in a separate nft table (ADR 0019).

A packet normally passes the bridge, br_netfilter, conntrack and two chains of rules. The chains mark accepted packets
with the generation, a hash of the rules. If a marked packet leaves by a guest's device or a tunnel, its connection is
added to a set of this device for OFFLOAD_TIMEOUT_S. Until this entry expires, packets of the connection are forwarded
directly from the sender's device to the receiver's. TCP packets that open or close a connection are never offloaded.
Protocols other than TCP, UDP and ping are not offloaded, because rules can match fields unknown to conntrack.

The transaction of a filter change also removes this table, which is loaded again afterwards. So no packet
bypasses new rules: a packet in flight has the old generation as mark, which the new table does not match.
"""
from collections.abc import Collection

from nova.network.host import state as host_state
from nova.network.linux import frames
from nova.objects import network_info

OFFLOAD_TIMEOUT_S = 10  # seconds; then a packet takes the normal path and refreshes conntrack and the bridge's FDB
MAX_CONNECTIONS = 16384            # maximum offloaded connections of a device; further connections take the normal path
# (protocol in IPv4 and IPv6, suffix of set names, match of packets that may be offloaded, key of a connection)
_PROTOCOLS = (
    (('tcp', 'tcp'), '', 'meta l4proto tcp tcp flags & (fin | syn | rst) == 0', 'tcp sport . tcp dport'),
    (('udp', 'udp'), 'u', 'meta l4proto udp', 'udp sport . udp dport'),
    (('icmp', None), 'p', 'meta l4proto icmp icmp type { echo-request, echo-reply } icmp code 0',
     'icmp type . icmp id'),
    ((None, 'ipv6-icmp'), 'p', 'meta l4proto ipv6-icmp icmpv6 type { echo-request, echo-reply } icmpv6 code 0',
     'icmpv6 type . icmpv6 id'))
# match unfragmented packets without IP options: the TCP, UDP or ICMP header follows
_FAMILIES = {4: ('ip', '', '@nh,0,8 0x45 @nh,48,16 & 0xbfff == 0 ip protocol'), 6: ('ip6', '6', 'ip6 nexthdr')}
# Conntrack does not see offloaded packets, so it must accept later packets outside its TCP windows.
SETTINGS = ('nf_conntrack_tcp_be_liberal', 'nf_conntrack_tcp_ignore_invalid_rst')


def is_possible(state: host_state.HostState) -> bool:
    """Return whether offload is possible: this host has overlays, but no ports with ranges, which use packet marks."""
    return bool(state.overlays) and not any(frames.ranges_by_mac(port) for port in state.ports)


def is_eligible(port: host_state.Port) -> bool:
    """Return whether a port can be offloaded: it has port security, but no pairs, limits, guarantees or trunk."""
    if port.device == network_info.trunk_devname(port.id):
        return False
    return port.port_security and not port.pairs and not port.limits and not port.guaranteed_kbps and bool(
        port.addresses)


def script(table: str, state: host_state.HostState, devices: Collection[str], generation: int) -> str:
    """Return the nft script that replaces the table.

    :param devices: existing devices: nft rejects a netdev chain without its device
    :param generation: generation of the rules, see rules.generation
    """
    body = []
    for overlay in state.overlays:
        ports = [port for port in state.ports
                 if port.bridge == overlay.bridge and port.device in devices and is_eligible(port)]
        if frames.tunnel_name(overlay) in devices:
            moving = {mac for mac, _host in overlay.migrating} | {
                port.mac for port in state.ports if port.bridge == overlay.bridge and (port.migration or port.incoming)}
            body += _network(overlay, ports, moving, generation)
    return frames.removal('netdev', table) + '\n'.join([f'table netdev {table} {{', *body, '}']) + '\n'


def probe(table: str) -> str:
    """Return an nft script; ``nft --check`` accepts it if the host supports flow offload."""
    return '\n'.join([f'table netdev {table}_probe {{', *_receiver('lo'), *_base('ingress', 'lo', ['goto to_lo']),
                      *_base('egress', 'lo', ['goto learn_lo']), '}']) + '\n'


def _network(overlay: host_state.Overlay, ports: list[host_state.Port], moving: set[str], generation: int) -> list[str]:
    tunnel, name = frames.tunnel_name(overlay), overlay.bridge
    if overlay.vlan is not None:
        return _base('egress', tunnel, ['meta mark set 0'])
    here = {port.mac: port.device for port in ports}
    # frames to a migrating guest take the normal path: the bridge selects the source or target host
    remote = {mac for mac, _host in overlay.remotes}
    places = {**dict.fromkeys(sorted(remote - here.keys() - moving), tunnel),
              **{mac: device for mac, device in here.items() if mac not in remote | moving}}
    body = [line for device in [*here.values(), tunnel] for line in _receiver(device)]
    elements = ', '.join(f'{mac} : goto to_{device}' for mac, device in places.items())
    body += [f'map places_{name} {{', 'type ether_addr : verdict',
             *([f'elements = {{ {elements} }}'] if elements else []), '}']
    body += [f'chain short_{name} {{',
             *(f'{data} ether daddr vmap @places_{name}' for _names, _end, data, _key in _PROTOCOLS), '}']
    for port in ports:               # matching the ether type excludes frames with VLAN tags
        own = [f'ether saddr {port.mac} ether type {family} {family} saddr {frames.anonymous_set(addresses)} '
               f'{"" if port.dscp_mark is None else f"{family} dscp set {port.dscp_mark} "}goto short_{name}'
               for version, (family, _end, _whole) in _FAMILIES.items()
               if (addresses := frames.of_version(port.addresses, version))]
        body += _base('ingress', port.device, own)
        body += _base('egress', port.device, [
            f'meta mark {generation:#x} ether daddr {port.mac} goto learn_{port.device}'])
    return [*body, *_base('ingress', tunnel, [f'goto short_{name}']), *_base('egress', tunnel, [
        f'meta mark {generation:#x} jump learn_{tunnel}', 'meta mark != 0 meta mark set 0'])]


def _receiver(device: str) -> list[str]:
    """Return the chains that forward packets to a device and learn its connections."""
    sets, short, learn = [], [], []
    for protocols, kind, data, differs in _PROTOCOLS:
        for (family, end, whole), protocol in zip(_FAMILIES.values(), protocols, strict=True):
            if protocol is not None:
                flows, key = f'flows{kind}{end}_{device}', f'{family} saddr . {family} daddr . {differs}'
                sets += [f'set {flows} {{', f'typeof {key}', f'size {MAX_CONNECTIONS}', 'flags dynamic,timeout',
                         f'timeout {OFFLOAD_TIMEOUT_S}s', '}']
                match = f'meta protocol {family} {whole} {protocol}'
                short.append(f'{match} {key} @{flows} fwd to "{device}"')
                learn.append(f'{match} {data} add @{flows} {{ {key} }}')
    return [*sets, f'chain to_{device} {{', *short, '}',
            f'chain learn_{device} {{', *learn, '}']


def _base(hook: str, device: str, rules: list[str]) -> list[str]:
    return [f'chain {hook}_{device} {{', f'type filter hook {hook} device "{device}" priority 0; policy accept;',
            *rules, '}']
