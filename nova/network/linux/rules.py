"""Filters of one host as an nftables script: a pure function of its ports, groups and rules.

The ``bridge`` table filters frames at guests' devices. A guest can send only with its own MAC and addresses, cannot act
as DHCP server, and gets only frames for itself. So the sender address of a packet is reliable, and the ``inet`` table
identifies guests by address. It applies security groups with connection tracking, isolates networks, protects the host,
redirects metadata requests and does NAT.

The ``inet`` hooks see bridged packets through br_netfilter, enabled only on this cloud's bridges. The bridge family's
connection tracking (nf_conntrack_bridge) is not used, because many kernels lack it and it does not see routed traffic.

Replies pass because conntrack knows their connection. The original direction is always checked against the rules, so
that removing a rule ends running connections. Flowtables are not used, because they bypass this check. In overlay
networks, an accepted connection is marked with a hash of the rules (generation), and its packets pass until the rules
change (ADR 0019). For most packets, the number of traversed rules does not depend on the number of networks.
"""
from collections.abc import Callable, Collection
import hashlib
import re

from nova.network import relay
from nova.network import group_rules
from nova.network.host import state as host_state
from nova.network.linux import address_ranges
from nova.network.linux import anycast
from nova.network.linux import frames
from nova.network.linux import overlay as plumbing
from nova.network.linux import trunks

Owners = list[tuple[str, list[host_state.Port], list[tuple[str, str]]]]       # see _owners

METADATA = relay.ADDRESS
# {direction: verdict for packets that a group accepts in overlay networks}
_PASSED = {'egress': 'goto sent', 'ingress': 'goto seen'}
_SIX = {4: '', 6: '6'}            # {IP version: suffix of the names of sets and maps}
_set = frames.anonymous_set


def table_name(bridge: str) -> str:
    """Return the table name of a cloud, derived from its default bridge."""
    return 'nova_' + re.sub(r'[^A-Za-z0-9]', '_', bridge)


def _hex(ident: str) -> str:
    return re.sub(r'[^A-Za-z0-9]', '', ident)


def _quote(name: str) -> str:
    return '"%s"' % name


def script(table: str, state: host_state.HostState, metadata: dict[str, tuple[str, int]],
           host_ports: tuple[int, ...] = (), orphans: Collection[str] = (), *, offload: bool = False) -> str:
    """Return the nft script that replaces the bridge and inet tables atomically.

    :param table: table_name(…)
    :param state: HostState
    :param metadata: {bridge: (address, port)} of the metadata service for its guests
    :param host_ports: TCP ports of the host that guests may reach
    :param orphans: devices on this cloud's bridges without a port; their traffic is dropped
    :param offload: mark packets of accepted connections with the generation, see flow_offload.py
    """
    served = [network for network in state.networks if network.subnets]
    wide = address_ranges.numbers(state.ports)
    lines = _table('bridge', table, _bridge_body(state, served, orphans, wide))
    lines += _table('inet', table, _inet_body(state, served, metadata, host_ports, wide, offload))
    return remove(table) + '\n'.join(lines) + '\n'


def generation(text: str) -> int | None:
    """Return the connection mark that a script sets, or None if it sets none."""
    found = re.search(r'^    chain seen \{\n.* ct mark set (0x[0-9a-f]+)$', text, re.MULTILINE)
    return int(found[1], 16) if found else None


def changes(table: str, old: str, new: str) -> str | None:
    """Return the nft script that changes the tables of script ``old`` to those of script ``new`` in one transaction.

    Return None unless the scripts differ only in rules of chains without a hook and in elements of sets.
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
    """Return {(family, kind, name): [line]} of chains, sets and maps, or None for an unknown format."""
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


def remove(table: str) -> str:
    """Return nft commands that remove the bridge and inet tables if they exist."""
    return ''.join(frames.removal(family, table) for family in ('bridge', 'inet'))


def _table(family: str, name: str, body: list[str]) -> list[str]:
    return [f'table {family} {name} {{', *['    ' + line for line in body], '}']


def _chain(name: str, rules: list[str], hook: tuple[str, str, int] | None = None) -> list[str]:
    """Return the lines of a chain.

    :param hook: (type, hook, priority) of a base chain; its policy is accept
    """
    head = [f'type {hook[0]} hook {hook[1]} priority {hook[2]}; policy accept;'] if hook else []
    return [f'chain {name} {{', *['    ' + rule for rule in head + rules], '}']


def _addresses(name: str, kind: str, known: list[str]) -> list[str]:
    """Return the lines of a named set."""
    elements = [f'    elements = {_set(known)}'] if known else []
    return [f'set {name} {{', f'    type {kind}', *elements, '}']


def _map(name: str, key: str, pairs: list[tuple[str, str]]) -> list[str]:
    elements = [f'    elements = {_set(f"{left} : goto {chain}" for left, chain in pairs)}'] if pairs else []
    return [f'map {name} {{', f'    type {key} : verdict', *elements, '}']


# ---- frames ---------------------------------------------------------------------

def _bridge_body(state: host_state.HostState, served: list[host_state.Network], orphans: Collection[str],
                 wide: dict[str, int]) -> list[str]:
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
    body += _chain('orphan', ['drop'])
    for side in ('from', 'to'):
        body += _map(f'{side}_guest', 'ifname', [
            *[(_quote(port.device), f'{side}_{port.device}') for port in state.ports],
            *[(_quote(device), 'orphan') for device in orphans],
            *[(_quote(name), 'to_' + name) for name, _rules in tunnels if side == 'to']])
    body += _chain('prerouting', ['iifname vmap @from_guest'], ('filter', 'prerouting', -300))
    for name, rules, hook in address_ranges.frame_chains(state.ports, wide):
        body += _chain(name, rules, hook)
    for name, kind, elements in anycast.sets(state):
        body += _addresses(name, kind, elements)
    for name, rules in anycast.chains(state):
        body += _chain(name, rules)
    if rules := anycast.rules(state):                        # this chain runs after the check of the senders
        body += _chain('gateways', rules, ('filter', 'prerouting', -200))
    body += _chain('postrouting', ['oifname vmap @to_guest'], ('filter', 'postrouting', -300))
    if state.overlays or state.trunks:  # drop frames to the host from devices of overlays and trunks
        bridges = {overlay.bridge for overlay in state.overlays}
        devices = [*(name for name, _rules in tunnels), *(frames.service_name(overlay) for overlay in state.overlays),
                   *(port.device for port in state.ports if port.bridge in bridges),
                   *(frames.router_name(leg) for router in state.routers for leg in router.internal),
                   *(device for trunk in state.trunks for device in trunks.guest_devices(trunk))]
        body += _chain('input', [f'iifname {_set(map(_quote, devices))} drop'], ('filter', 'input', -300))
    return body


# ---- packets ----------------------------------------------------------------------

def _inet_body(state: host_state.HostState, served: list[host_state.Network], metadata: dict[str, tuple[str, int]],
               host_ports: tuple[int, ...], wide: dict[str, int], offload: bool) -> list[str]:
    owners = _owners(state.ports)
    verdicts = _PASSED if state.overlays else dict.fromkeys(_PASSED, 'accept')
    body = [*_group_bodies(state, verdicts), *_port_bodies(owners, verdicts)]
    stateless = [key for _name, ports, keys in owners for key in keys if all(map(_is_stateless(state), ports))]
    for version in (4, 6) if stateless else ():
        body += _addresses('stateless' + _SIX[version], f'ifname . ipv{version}_addr', [
            f'{_quote(bridge)} . {address}' for bridge, address in stateless if frames.of_version([address], version)])
    if state.overlays:
        body += _zone_bodies(state, owners, wide)
    if state.trunks:            # no tracking on trunk bridges: the bridges of the networks track the same packets
        names = _set(_quote(trunks.bridge(trunk)) for trunk in state.trunks)
        body += _chain('trunks', [f'iifname {names} notrack'], ('filter', 'prerouting', -300))
    if served or state.overlays:
        body += _hook_bodies(state, served, metadata, host_ports)
    return body + _check_bodies(state.overlays, _generation(body), wide, offload, bool(stateless))


def _is_stateless(state: host_state.HostState) -> Callable[[host_state.Port], bool]:
    """Return a predicate: whether all security groups of a port are stateless."""
    known = set(state.stateless)
    return lambda port: port.port_security and bool(port.groups) and known.issuperset(port.groups)


def _generation(body: list[str]) -> int:
    """Return a 32-bit hash of rules, members and ports. It is odd: the even number below it is the first mark."""
    return int.from_bytes(hashlib.sha256('\n'.join(body).encode()).digest()[:4], 'big') | 1


def _group_bodies(state: host_state.HostState, verdicts: dict[str, str]) -> list[str]:
    """Return a set of members for each group and IP version, and a rule chain for each direction."""
    body = []
    for group, addresses in sorted(state.members.items()):
        for version in (4, 6):
            body += _addresses(f'members{_SIX[version]}_{_hex(group)}', f'ipv{version}_addr',
                               frames.of_version(addresses, version))
    for group, rows in sorted(state.rules.items()):
        for direction, verdict in verdicts.items():
            passed = 'accept' if group in state.stateless else verdict  # without a mark, which would accept all replies
            body += _chain(f'{direction}_{_hex(group)}',
                           [text for row in rows if row['direction'] == direction and (text := rule(row, passed))])
    return body


def _port_bodies(owners: Owners, verdicts: dict[str, str]) -> list[str]:
    """Return a chain with the groups of each port, and maps from bridge and address to these chains."""
    body = []
    for direction, verdict in verdicts.items():
        for name, owned, _keys in owners:
            body += _chain(f'{direction}_{name}', _groups(direction, owned, verdict))
        for version in (4, 6):
            body += _map(direction + _SIX[version], f'ifname . ipv{version}_addr', [
                (f'{_quote(bridge)} . {address}', f'{direction}_{name}')
                for name, _ports, keys in owners for bridge, address in keys if frames.of_version([address], version)])
    return body


def _zone_bodies(state: host_state.HostState, owners: Owners, wide: dict[str, int]) -> list[str]:
    """Return chains that set a separate conntrack zone for each overlay: networks may have the same addresses.

    With distributed routers, this host may see only one direction of a connection between remote guests. So only
    connections of local guests are tracked. Tunnel packets are not tracked.
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


def _check_bodies(overlays: list[host_state.Overlay], generation: int, wide: dict[str, int],
                  offload: bool, stateless: bool) -> list[str]:
    """Return the chains that check senders and receivers. A packet accepted by one chain is still checked by the other.

    Only connections of TCP, UDP and ping are marked. In other protocols, rules can match fields that differ between
    packets of a connection. The sender's rules set the first of two marks. With a single mark, a packet could pass the
    sender's old rules and the receiver's new rules. This would mark a connection that the new rules reject.

    :param wide: numbers of ports with ranges. If there are any, connection marks do not apply to packets of ranges
    :param stateless: whether there are ports with stateless groups. Their packets are checked before conntrack's state
    """
    before: dict[str, list[str]] = {direction: [
        f'{place} @stateless{_SIX[version]} goto {direction}_stateless'
        for place, version in _places(direction) if stateless] for direction in _PASSED}
    alone = [line for direction in _PASSED if stateless for line in _chain(
        direction + '_stateless', [*_basics(overlays), *_found(direction)])]
    tracked = ['ct direction reply ct state established accept', 'ct state invalid drop', 'ct state related accept',
               *_basics(overlays)]
    if not overlays:
        return alone + [line for direction in _PASSED for line in _chain(
            direction + '_check', [*before[direction], *tracked, *_found(direction)])]
    sent, seen, names = generation ^ 1, generation, _set(_quote(overlay.bridge) for overlay in overlays)
    own = 'meta mark 0 ' if wide else ''
    tracked.insert(0, f'{own}ct mark {seen:#x} {f"meta mark set {seen:#x} " if offload else ""}accept')
    return [
        *_chain('basics', _basic_bodies(overlays)),
        *_chain('sent', [*(f'{own}{those} iifname {names} ct direction original ct mark set {sent:#x}'
                           for those in _MARKED), 'accept']),
        *_chain('seen', [f'{own}ct mark {sent:#x} ct mark set {seen:#x}', 'accept']),
        *alone,
        *(line for direction, verdict in _PASSED.items()
          for line in _chain(direction + '_check', [
              *before[direction], *tracked, *address_ranges.check(direction, wide), *_found(direction), verdict]))]


def _found(direction: str) -> list[str]:
    """Return rules that send packets from (egress) or to (ingress) a local guest to the chain of its groups."""
    return [f'{place} vmap @{direction}{_SIX[version]}' for place, version in _places(direction)]


def _places(direction: str) -> list[tuple[str, int]]:
    """Return [(nft expression of a guest's bridge and address, IP version)]."""
    side, end = ('iifname', 'saddr') if direction == 'egress' else ('oifname', 'daddr')
    return [(f'{side} . {family} {end}', version) for family, version in (('ip', 4), ('ip6', 6))]


def _hook_bodies(state: host_state.HostState, served: list[host_state.Network], metadata: dict[str, tuple[str, int]],
                 host_ports: tuple[int, ...]) -> list[str]:
    """Return the base chains: input, forward and output of the host."""
    flat = [_quote(network.bridge) for network in served]
    overlays = [_quote(overlay.bridge) for overlay in state.overlays]
    names = _set(flat + overlays)
    to_host = [f'iifname {_set(flat)} jump to_host'] if flat else []
    dropped = [f'iifname {_set(overlays)} drop'] if overlays else []
    return [
        *_chain('input', [*to_host, *dropped], ('filter', 'input', -10)),
        *_chain('to_host', _to_host(metadata, host_ports)),
        *_chain('forward_egress', [*_isolation(served, overlays),
                                   *([f'iifname {_set(flat)} jump egress_check'] if flat else [])],
                ('filter', 'forward', -20)),
        *_chain('forward_ingress', [f'oifname {names} jump ingress_check'], ('filter', 'forward', -10)),
        *_chain('from_host', ['udp sport 67 udp dport 68 accept', 'goto ingress_check']),
        *_chain('output', [f'oifname {names} jump from_host'], ('filter', 'output', -10)),
        *(_nat(served, names, metadata) if flat else [])]


def _isolation(served: list[host_state.Network], overlays: list[str]) -> list[str]:
    """Return rules that isolate networks; traffic inside an overlay continues with the chain egress_check.

    :param overlays: quoted names of the overlays' bridges
    """
    inner = [_quote(network.bridge) for network in served if not network.external]
    rules = [f'iifname {bridge} oifname {_set(other for other in inner if other != bridge)} drop'
             for bridge in inner if len(inner) > 1]
    if overlays:                         # the number of rules does not grow with the number of overlays
        same = _set(f'{bridge} . {bridge} : goto egress_check' for bridge in overlays)
        rules = [f'iifname . oifname vmap {same}',
                 *(f'{name} {_set(overlays)} drop' for name in ('iifname', 'oifname')), *rules]
    if served:
        # if this host is a guest of another cloud, its guests must not reach that cloud's metadata service
        flat = _set(_quote(network.bridge) for network in served)
        rules.append(f'iifname {flat} ip daddr 169.254.0.0/16 drop')
    return rules


def _owners(ports: list[host_state.Port]) -> Owners:
    """Return [(chain name, ports that share the chain, (bridge, address) pairs of these ports)].

    Each port has an entry. Each address of an address pair has an entry too, because several ports may use it.
    """
    found: Owners = []
    shared: dict[tuple[str, str], list[host_state.Port]] = {}
    own = {(port.bridge, address) for port in ports for address in [*port.addresses, frames.link_local(port.mac)]}
    for port in ports:
        local = [frames.link_local(port.mac)] if frames.of_version(port.addresses, 6) else []
        found.append((port.device, [port], [(port.bridge, address) for address in [*local, *port.addresses]]))
        for pair in [each for each in port.pairs if '/' not in each['ip_address']] if port.addresses else ():
            shared.setdefault((port.bridge, pair['ip_address']), []).append(port)
    return found + [(f'pair{number}', several, [key]) for number, (key, several) in enumerate(sorted(
        shared.items(), key=lambda item: item[0])) if key not in own]


def _groups(direction: str, ports: list[host_state.Port], verdict: str) -> list[str]:
    if not all(port.port_security for port in ports):
        return [verdict]
    return [*dict.fromkeys(f'jump {direction}_{_hex(group)}' for port in ports for group in port.groups), 'drop']


def _basics(overlays: list[host_state.Overlay]) -> list[str]:
    """Return rules that accept address configuration and metadata requests, whatever the groups of a port allow."""
    if not overlays:
        return []
    names = _set(_quote(overlay.bridge) for overlay in overlays)
    return [f'iifname {names} meta l4proto {{ udp, ipv6-icmp }} jump basics',
            f'iifname {names} ip daddr {METADATA} tcp dport {relay.PORT} accept']


def _basic_bodies(overlays: list[host_state.Overlay]) -> list[str]:
    """Return the chain ``basics``, which few packets traverse; the number of its rules is constant."""
    served = [f'{_quote(overlay.bridge)} . {address}' for overlay in overlays
              for address in frames.of_version([s.dhcp for s in overlay.subnets if s.dhcp], 4)]
    return [*([f'udp sport 67 udp dport 68 iifname . ip saddr {_set(served)} accept'] if served else []),
            'udp sport 68 udp dport 67 accept',
            'udp sport { 546, 547 } udp dport { 546, 547 } accept',
            'icmpv6 type { 130, 131, 132, 133, 134, 135, 136, 143 } accept']


def _to_host(metadata: dict[str, tuple[str, int]], host_ports: tuple[int, ...]) -> list[str]:
    """Allow guests to use DHCP and metadata on the host, and ping, DNS and ``host_ports`` if their groups do."""
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
    """Return [((address, port) for metadata requests, nft set of the bridges that use it)]."""
    return [(target, _set(_quote(bridge) for bridge in sorted(metadata) if metadata[bridge] == target))
            for target in sorted(set(metadata.values()))]


def _nat(served: list[host_state.Network], names: str, metadata: dict[str, tuple[str, int]]) -> list[str]:
    """Return the NAT chains.

    :param names: set of all bridges; packets inside one bridge also pass these chains, but are not masqueraded
    """
    redirect = [f'iifname {bridges} ip daddr {METADATA} tcp dport 80 dnat ip to {address}:{port}'
                for (address, port), bridges in _answering(metadata)]
    out = [f'ip saddr {subnet.cidr} ip daddr != {subnet.cidr} oifname != {names} masquerade'
           for network in served for subnet in network.subnets]
    return (_chain('prerouting_nat', redirect, ('nat', 'prerouting', -100))
            + _chain('postrouting_nat', out, ('nat', 'postrouting', 100)))


# ---- rules of groups ------------------------------------------------------------------

def rule(row: group_rules.Rule, verdict: str = 'accept') -> str | None:
    """Return a security group rule as nftables statement, or None if no packet can match it.

    :param verdict: verdict for matching packets
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


def _protocol(row: group_rules.Rule, six: str) -> list[str]:
    protocol, low, high = row['protocol'], row['port_range_min'], row['port_range_max']
    if protocol is None:
        return []
    if protocol == 'icmp' and six:
        protocol = 'icmpv6'                     # clients also write icmp for ICMPv6
    number = group_rules.PROTOCOLS.get(protocol, protocol)
    match = f'meta l4proto {number}' if six else f'ip protocol {number}'
    if low is None:
        return [match]
    if protocol in group_rules.ICMP:
        return [f'{match} {protocol} type {low}', *([f'{protocol} code {high}'] if high is not None else [])]
    ports = str(low) if low == high else f'{low}-{high}'
    return [f'{match} {protocol} dport {ports}']
