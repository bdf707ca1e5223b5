"""The filters of one host as an nftables script: a pure function of its ports, groups and rules.

Two tables. The ``bridge`` table looks at frames where they enter from and leave to a guest's device: a guest can send
only with its own MAC and addresses, cannot play DHCP server, and gets only what is meant for it. What it says about the
sender can be relied on, so the ``inet`` table knows guests by address: it filters by security groups, with connection
tracking, keeps networks apart, protects the host, redirects metadata and translates addresses on the way out.

The ``inet`` hooks see bridged packets through the kernel's br_netfilter, switched on for our bridges alone. The bridge
family's own connection tracking (nf_conntrack_bridge) would not do: many kernels lack it, and routed traffic of guests
never meets it.

Replies pass because of a tracked connection. Its first direction is held against the rules, so that a rule that is
removed ends running connections, too; for the same reason no flowtable carries them past the rules. Where networks are
between hosts, a connection that the rules have let pass has their generation as its mark, and its packets are let pass
until the rules are others (ADR 0110). What most packets meet are as many rules however many networks the host has.
"""
from __future__ import annotations

from collections.abc import Collection
import hashlib
import re
from typing import Any, TYPE_CHECKING

from nova.network import relay
from nova.network import group_rules
from nova.network.linux import address_ranges
from nova.network.linux import anycast
from nova.network.linux import frames
from nova.network.linux import overlay as plumbing

if TYPE_CHECKING:
    from nova.network.host.state import HostState, Network, Overlay, Port

    Owners = list[tuple[str, list[Port], list[tuple[str, str]]]]              # see _owners

METADATA = relay.ADDRESS
_PASSED = {'egress': 'goto sent', 'ingress': 'goto seen'}       # what becomes of what a group lets pass between hosts
_SIX = {4: '', 6: '6'}            # ends of the names of sets and maps


def table_name(bridge: str) -> str:
    """The tables of a cloud, by the name of its default bridge."""
    return 'nova_' + re.sub(r'[^A-Za-z0-9]', '_', bridge)


def _hex(ident: str) -> str:
    return re.sub(r'[^A-Za-z0-9]', '', ident)


def _quote(name: str) -> str:
    return '"%s"' % name


def _set(values: Any) -> str:
    return '{ %s }' % ', '.join(values)


def script(table: str, state: HostState, metadata: dict[str, tuple[str, int]], host_ports: tuple[Any, ...] = (),
           strays: Collection[Any] = (), *, shortcuts: bool = False) -> str:
    """Text for ``nft -f -`` that replaces both tables at once.

    :param table: table_name(…)
    :param state: HostState
    :param metadata: {bridge: (address, port)} of who answers its guests' requests for metadata
    :param host_ports: TCP ports of the host that guests may reach
    :param strays: devices on our bridges that belong to no port (any more): nothing passes there
    :param shortcuts: packets of connections that the rules have let pass get their generation as mark, see shortcuts.py
    """
    served = [network for network in state.networks if network.subnets]
    lines = [f'table {family} {table}\ndelete table {family} {table}' for family in ('bridge', 'inet')]
    wide = address_ranges.numbers(state.ports)
    lines += _table('bridge', table, _bridge_body(state, served, strays, wide))
    lines += _table('inet', table, _inet_body(state, served, metadata, host_ports, wide, shortcuts))
    return '\n'.join(lines) + '\n'


def generation(text: str) -> int | None:
    """What a script gives connections as mark that it has let pass; None where it marks none."""
    found = re.search(r'^    chain seen \{\n.* ct mark set (0x[0-9a-f]+)$', text, re.MULTILINE)
    return int(found[1], 16) if found else None


def changes(table: str, old: str, new: str) -> str | None:
    """Text for ``nft -f -`` that makes one script's tables of another one's, where only rules of chains without a hook
    and elements of sets are others; None where more is.

    In one transaction, as the whole: no packet meets a chain half filled.
    """
    before, after = _blocks(old), _blocks(new)
    if before is None or after is None or before.keys() != after.keys():
        return None
    lines = []
    for key, body in after.items():
        if body == before[key]:
            continue
        family, kind, name = key
        if kind == 'chain' and not any(line.startswith('type ') for line in (*body, *before[key])):
            lines.append(f'flush chain {family} {table} {name}')
            lines += [f'add rule {family} {table} {name} {rule}' for rule in body]
        elif kind == 'set' and body[:1] == before[key][:1]:
            lines.append(f'flush set {family} {table} {name}')
            lines += [f'add element {family} {table} {name} {each.removeprefix("elements = ")}' for each in body[1:]]
        else:
            return None
    return '\n'.join(lines) + '\n' if lines else ''


def _blocks(text: str) -> dict[tuple[str, str, str], list[str]] | None:
    """{(family, kind, name): [line]} of the chains, sets and maps of a script; None where it is another one."""
    found: dict[tuple[str, str, str], list[str]] = {}
    family, body = '', None
    for line in map(str.strip, text.splitlines()):
        words = line.split()
        if words[0] in ('chain', 'set', 'map') and words[-1] == '{':
            body = found.setdefault((family, words[0], words[1]), [])
        elif words[0] == 'table' and words[-1] == '{':
            family = words[1]
        elif line == '}':
            body = None
        elif body is not None:
            body.append(line)
        elif words[0] not in ('table', 'delete'):
            return None
    return found


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


def _addresses(name: str, kind: str, known: list[str]) -> list[str]:
    """A named set."""
    elements = [f'    elements = {_set(known)}'] if known else []
    return [f'set {name} {{', f'    type {kind}', *elements, '}']


def _map(name: str, key: str, pairs: list[tuple[str, str]]) -> list[str]:
    elements = [f'    elements = {_set(f"{left} : goto {chain}" for left, chain in pairs)}'] if pairs else []
    return [f'map {name} {{', f'    type {key} : verdict', *elements, '}']


# ---- frames ---------------------------------------------------------------------

def _bridge_body(state: HostState, served: list[Network], strays: Collection[Any], wide: dict[str, int]) -> list[str]:
    servers = {network.bridge: [s.gateway for s in network.subnets if s.gateway] for network in served}
    servers |= {overlay.bridge: [s.dhcp for s in overlay.subnets if s.dhcp] for overlay in state.overlays}
    body = []
    for port in state.ports:
        body += _chain('from_' + port.device, frames.from_guest(port, wide.get(port.device, 0)))
        body += _chain('to_' + port.device, frames.to_guest(port, servers.get(port.bridge, [])))
    tunnels = [(frames.tunnel_name(overlay), frames.to_tunnel(
        anycast.to_others(state, overlay.bridge) + frames.to_others(overlay))) for overlay in state.overlays]
    for name, rules in tunnels:
        body += _chain('to_' + name, [*([address_ranges.CLEARED] if wide else []), *rules])
    body += _chain('stray', ['drop'])
    for side in ('from', 'to'):
        body += _map(f'{side}_guest', 'ifname', [
            *[(_quote(port.device), f'{side}_{port.device}') for port in state.ports],
            *[(_quote(device), 'stray') for device in strays],
            *[(_quote(name), 'to_' + name) for name, _rules in tunnels if side == 'to']])
    body += _chain('prerouting', ['iifname vmap @from_guest'], ('filter', 'prerouting', -300))
    for name, rules, hook in address_ranges.frame_chains(state.ports, wide):
        body += _chain(name, rules, hook)
    for name, kind, elements in anycast.sets(state):
        body += _addresses(name, kind, elements)
    for name, rules in anycast.chains(state):
        body += _chain(name, rules)
    if rules := anycast.rules(state):                        # behind what a guest may send
        body += _chain('gateways', rules, ('filter', 'prerouting', -200))
    body += _chain('postrouting', ['oifname vmap @to_guest'], ('filter', 'postrouting', -300))
    if state.overlays:                # the host itself is no part of them: it answers no ARP there, and takes nothing
        bridges = {overlay.bridge for overlay in state.overlays}
        devices = [*(name for name, _rules in tunnels), *(frames.service_name(overlay) for overlay in state.overlays),
                   *(port.device for port in state.ports if port.bridge in bridges),
                   *(frames.router_name(leg) for router in state.routers for leg in router.inside)]
        body += _chain('input', [f'iifname {_set(map(_quote, devices))} drop'], ('filter', 'input', -300))
    return body


# ---- packets ----------------------------------------------------------------------

def _inet_body(state: HostState, served: list[Network], metadata: dict[str, tuple[str, int]],
               host_ports: tuple[Any, ...], wide: dict[str, int], shortcuts: bool) -> list[str]:
    owners = _owners(state.ports)
    verdicts = _PASSED if state.overlays else dict.fromkeys(_PASSED, 'accept')
    body = [*_group_bodies(state, verdicts), *_port_bodies(owners, verdicts)]
    if state.overlays:
        body += _zone_bodies(state, owners, wide)
    if served or state.overlays:
        body += _hook_bodies(state, served, metadata, host_ports)
    return body + _check_bodies(state.overlays, _generation(body), wide, shortcuts)


def _generation(body: list[str]) -> int:
    """An odd number of 32 bits, and another one for other rules, members or ports."""
    return int.from_bytes(hashlib.sha256('\n'.join(body).encode()).digest()[:4], 'big') | 1


def _group_bodies(state: HostState, verdicts: dict[str, str]) -> list[str]:
    """A set of the members of each security group, by version of IP, and a chain of its rules, by direction."""
    body = []
    for group, addresses in sorted(state.members.items()):
        for version in (4, 6):
            body += _addresses(f'members{_SIX[version]}_{_hex(group)}', f'ipv{version}_addr',
                               frames.of_version(addresses, version))
    for group, rows in sorted(state.rules.items()):
        for direction, verdict in verdicts.items():
            body += _chain(f'{direction}_{_hex(group)}',
                           [text for row in rows if row['direction'] == direction and (text := rule(row, verdict))])
    return body


def _port_bodies(owners: Owners, verdicts: dict[str, str]) -> list[str]:
    """A chain of the groups of each port, and the maps that find it by bridge and address."""
    body = []
    for direction, verdict in verdicts.items():
        for name, owned, _keys in owners:
            body += _chain(f'{direction}_{name}', _groups(direction, owned, verdict))
        for version in (4, 6):
            body += _map(direction + _SIX[version], f'ifname . ipv{version}_addr', [
                (f'{_quote(bridge)} . {address}', f'{direction}_{name}')
                for name, _ports, keys in owners for bridge, address in keys if frames.of_version([address], version)])
    return body


def _zone_bodies(state: HostState, owners: Owners, wide: dict[str, int]) -> list[str]:
    """Two networks may have the same addresses: each has a table of connections of its own.

    With a router on each host, one direction alone of what passes between guests of other hosts may come by here: only
    connections of guests that are here are followed. Frames between hosts are not followed as such.
    """
    numbers = {overlay.bridge: overlay.number for overlay in state.overlays}
    bridges = _set(map(_quote, numbers))
    known = [key for _name, _ports, keys in owners for key in keys if key[0] in numbers]
    body = []
    for name, number in numbers.items():
        body += _chain('zone_' + name, [f'ct zone set {number}'])
    for name, number in address_ranges.zones(numbers).items() if wide else ():
        body += _chain('wide_' + name, [f'ct zone set {number}'])
    for version in (4, 6):
        body += _map('guests' + _SIX[version], f'ifname . ipv{version}_addr', [
            (f'{_quote(name)} . {address}', 'zone_' + name)
            for name, address in known if frames.of_version([address], version)])
    arriving = []
    if state.tunnel:
        body += _chain('tunnels', [f'udp dport {plumbing.PORT} ip saddr {state.tunnel} notrack'],
                       ('filter', 'output', -300))
        arriving = [f'udp dport {plumbing.PORT} ip daddr {state.tunnel} iifname != {bridges} notrack accept']
    return body + _chain('zones', [
        *arriving,
        *(['meta mark != 0 iifname vmap ' + _set(f'{_quote(name)} : goto wide_{name}' for name in numbers)]
          if wide else []),
        *(f'iifname . {family} {end} vmap @guests{_SIX[version]}'
          for family, version in (('ip', 4), ('ip6', 6)) for end in ('saddr', 'daddr')),
        f'iifname {bridges} notrack'], ('filter', 'prerouting', -300))


_MARKED = ('meta l4proto { tcp, udp }', 'icmp type echo-request', 'icmpv6 type echo-request')


def _check_bodies(overlays: list[Overlay], generation: int, wide: dict[str, int], shortcuts: bool) -> list[str]:
    """An accept ends one base chain: each packet passes a chain for its sender and one for its receiver.

    TCP, UDP and ping alone are marked: what the rules see of others may not be all by which their connections differ.
    The first of two marks says that the sender's rules are passed. A packet that meets those before a change and its
    receiver's behind it would otherwise give its connection a mark that the new rules refuse.

    :param wide: numbers of ports with ranges, whose packets no connection of another sender stands for
    """
    tracked = ['ct direction reply ct state established accept', 'ct state invalid drop', 'ct state related accept',
               *_basics(overlays)]
    if not overlays:
        return [line for direction in _PASSED for line in _chain(direction + '_check', [*tracked, *_found(direction)])]
    sent, seen, names = generation ^ 1, generation, _set(_quote(overlay.bridge) for overlay in overlays)
    own = 'meta mark 0 ' if wide else ''
    tracked.insert(0, f'{own}ct mark {seen:#x} {f"meta mark set {seen:#x} " if shortcuts else ""}accept')
    return [
        *_chain('basics', _basic_bodies(overlays)),
        *_chain('sent', [*(f'{own}{those} iifname {names} ct direction original ct mark set {sent:#x}'
                           for those in _MARKED), 'accept']),
        *_chain('seen', [f'{own}ct mark {sent:#x} ct mark set {seen:#x}', 'accept']),
        *(line for direction, verdict in _PASSED.items()
          for line in _chain(direction + '_check', [
              *tracked, *address_ranges.check(direction, wide), *_found(direction), verdict]))]


def _found(direction: str) -> list[str]:
    """Rules that lead on to the groups of a guest of this host."""
    side, end = ('iifname', 'saddr') if direction == 'egress' else ('oifname', 'daddr')
    return [f'{side} . {family} {end} vmap @{direction}{_SIX[version]}' for family, version in (('ip', 4), ('ip6', 6))]


def _hook_bodies(state: HostState, served: list[Network], metadata: dict[str, tuple[str, int]],
                 host_ports: tuple[Any, ...]) -> list[str]:
    """The base chains: what comes to the host, what it forwards, what it sends."""
    flat = [_quote(network.bridge) for network in served]
    overlays = [_quote(overlay.bridge) for overlay in state.overlays]
    names = _set(flat + overlays)
    to_host = [f'iifname {_set(flat)} jump to_host'] if flat else []
    dropped = [f'iifname {_set(overlays)} drop'] if overlays else []
    return [
        *_chain('input', [*to_host, *dropped], ('filter', 'input', -10)),
        *_chain('to_host', _to_host(metadata, host_ports)),
        *_chain('forward_egress', [*_apart(served, overlays),
                                   *([f'iifname {_set(flat)} jump egress_check'] if flat else [])],
                ('filter', 'forward', -20)),
        *_chain('forward_ingress', [f'oifname {names} jump ingress_check'], ('filter', 'forward', -10)),
        *_chain('from_host', ['udp sport 67 udp dport 68 accept', 'goto ingress_check']),
        *_chain('output', [f'oifname {names} jump from_host'], ('filter', 'output', -10)),
        *(_nat(served, names, metadata) if flat else [])]


def _apart(served: list[Network], overlays: list[str]) -> list[str]:
    """Rules that keep networks apart from each other; what stays in one of the overlays goes on to its check.

    :param overlays: names of their bridges, quoted
    """
    inner = [_quote(network.bridge) for network in served if not network.external]
    rules = [f'iifname {bridge} oifname {_set(other for other in inner if other != bridge)} drop'
             for bridge in inner if len(inner) > 1]
    if overlays:                         # three rules, however many there are
        same = _set(f'{bridge} . {bridge} : goto egress_check' for bridge in overlays)
        rules = [f'iifname . oifname vmap {same}',
                 *(f'{name} {_set(overlays)} drop' for name in ('iifname', 'oifname')), *rules]
    if served:
        # a cloud may itself be a guest of a cloud, whose metadata service is not for our guests
        flat = _set(_quote(network.bridge) for network in served)
        rules.append(f'iifname {flat} ip daddr 169.254.0.0/16 drop')
    return rules


def _owners(ports: list[Port]) -> Owners:
    """[(name of chains, the ports that share them, the (bridge, address) by which packets are known as theirs)].

    One a port, and one for each further address that ports may send with: several may.
    """
    found: list[Any] = []
    shared: dict[Any, Any] = {}
    own = {(port.bridge, address) for port in ports for address in [*port.addresses, frames.link_local(port.mac)]}
    for port in ports:
        local = [frames.link_local(port.mac)] if frames.of_version(port.addresses, 6) else []
        found.append((port.device, [port], [(port.bridge, address) for address in [*local, *port.addresses]]))
        for pair in [each for each in port.pairs if '/' not in each['ip_address']] if port.addresses else ():
            shared.setdefault((port.bridge, pair['ip_address']), []).append(port)
    return found + [(f'pair{number}', several, [key]) for number, (key, several) in enumerate(sorted(
        shared.items(), key=lambda item: item[0])) if key not in own]


def _groups(direction: str, ports: list[Port], verdict: str) -> list[str]:
    if not all(port.secured for port in ports):
        return [verdict]
    return [*dict.fromkeys(f'jump {direction}_{_hex(group)}' for port in ports for group in port.groups), 'drop']


def _basics(overlays: list[Overlay]) -> list[str]:
    """What makes a guest's addresses work, whatever its groups say: who may send it was seen to frame by frame."""
    if not overlays:
        return []
    names = _set(_quote(overlay.bridge) for overlay in overlays)
    return [f'iifname {names} meta l4proto {{ udp, ipv6-icmp }} jump basics',
            f'iifname {names} ip daddr {METADATA} tcp dport {relay.PORT} accept']


def _basic_bodies(overlays: list[Overlay]) -> list[str]:
    """The rules of _basics that most packets do not meet: however many networks there are, they are as many."""
    served = [f'{_quote(overlay.bridge)} . {address}' for overlay in overlays
              for address in frames.of_version([s.dhcp for s in overlay.subnets if s.dhcp], 4)]
    return [*([f'udp sport 67 udp dport 68 iifname . ip saddr {_set(served)} accept'] if served else []),
            'udp sport 68 udp dport 67 accept',
            'udp sport { 546, 547 } udp dport { 546, 547 } accept',
            'icmpv6 type { 130, 131, 132, 133, 134, 135, 136, 143 } accept']


def _to_host(metadata: dict[str, tuple[str, int]], host_ports: tuple[Any, ...]) -> list[str]:
    """What guests may ask of the host itself: DHCP, metadata, and as their groups allow ping, DNS, chosen
    ports."""
    rules = ['udp sport 68 udp dport 67 accept', 'ct direction reply ct state established accept']
    rules += [f'iifname {names} ip daddr {address} tcp dport {port} accept'
              for (address, port), names in _answering(metadata)]
    tcp = _set(str(port) for port in (53, *host_ports))
    return rules + [
        'ip protocol != { icmp, udp, tcp } drop',
        'ip protocol udp udp dport != 53 drop',
        f'ip protocol tcp tcp dport != {tcp} drop',
        'jump egress_check']


def _answering(metadata: dict[str, tuple[str, int]]) -> list[tuple[tuple[str, int], str]]:
    """[(who answers, the bridges whose guests it answers)]"""
    return [(target, _set(_quote(bridge) for bridge in sorted(metadata) if metadata[bridge] == target))
            for target in sorted(set(metadata.values()))]


def _nat(served: list[Network], names: str, metadata: dict[str, tuple[str, int]]) -> list[str]:
    """:param names: set of all bridges: what crosses one of them is seen here, too, and is not on its way out"""
    redirect = [f'iifname {bridges} ip daddr {METADATA} tcp dport 80 dnat ip to {address}:{port}'
                for (address, port), bridges in _answering(metadata)]
    out = [f'ip saddr {subnet.cidr} ip daddr != {subnet.cidr} oifname != {names} masquerade'
           for network in served for subnet in network.subnets]
    return (_chain('prerouting_nat', redirect, ('nat', 'prerouting', -100))
            + _chain('postrouting_nat', out, ('nat', 'postrouting', 100)))


# ---- rules of groups ------------------------------------------------------------------

def rule(row: dict[str, Any], verdict: str = 'accept') -> str | None:
    """One security group rule as an nftables statement, or None where no packet can match it.

    :param verdict: what becomes of packets that match
    """
    if row['ethertype'] == 'IPv4' and row['protocol'] == 'icmpv6':
        return None
    family, six = ('ip', '') if row['ethertype'] == 'IPv4' else ('ip6', '6')
    words = []
    far = 'saddr' if row['direction'] == 'ingress' else 'daddr'
    if row['remote_ip_prefix']:
        words.append(f'{family} {far} {group_rules.normalized(row["remote_ip_prefix"])}')
    elif row['remote_group_id']:
        words.append(f'{family} {far} @members{six}_{_hex(row["remote_group_id"])}')
    elif six or row['protocol'] is None:
        words.append('meta nfproto ' + ('ipv6' if six else 'ipv4'))
    words += _protocol(row, six)
    return ' '.join([*words, verdict])


def _protocol(row: dict[str, Any], six: str) -> list[str]:
    protocol, low, high = row['protocol'], row['port_range_min'], row['port_range_max']
    if protocol is None:
        return []
    if protocol == 'icmp' and six:
        protocol = 'icmpv6'                     # as clients mean it in rules for IPv6
    number = group_rules.PROTOCOLS.get(protocol, protocol)
    match = f'meta l4proto {number}' if six else f'ip protocol {number}'
    if low is None:
        return [match]
    if protocol in group_rules.ICMP:
        return [f'{match} {protocol} type {low}', *([f'{protocol} code {high}'] if high is not None else [])]
    ports = str(low) if low == high else f'{low}-{high}'
    return [f'{match} {protocol} dport {ports}']
