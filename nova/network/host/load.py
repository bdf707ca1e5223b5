"""Load the network state of one host from the database."""
from collections.abc import Callable, Collection, Iterable, Mapping

from nova.db.engine import Connection
from nova.db.networks import address_groups
from nova.db.networks import dns
from nova.db.networks import hosts
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import qos
from nova.db.networks import security_groups
from nova.db.networks import trunks as db_trunks
from nova.db.tables import network as t
from nova.db.tables import rows as db_rows
from nova.network import group_rules
from nova.network.host import overlays as host_overlays
from nova.network.host import routers as host_routers
from nova.network.host import state as host_state
from nova.objects import network_info


def load(conn: Connection, host: str, devname: Callable[[str], str], physical: dict[str, str] | None = None,
         tunnel: str = '', metadata_key: str = '', distributed: bool = False,
         move_key: Callable[[str], str] | None = None) -> host_state.HostState:
    """Load the HostState of a host in ten SELECTs; overlay networks, routers and trunks need further SELECTs.

    :param devname: function: port id -> name of the port's device; parents of trunks have other devices
    :param physical: {physical network: bridge of the operator}
    :param tunnel: this host's tunnel address
    :param metadata_key: signing key of the host's metadata relay
    :param move_key: function: name of a migration -> key shared by its two hosts. None: no conntrack entries are copied
    :param distributed: whether routers of the guests' networks have a distributed instance on this host
    """
    physical = physical or {}
    rows = ports.on_host(conn, host)
    idents = [row['id'] for row in rows]
    fixed = networks.addresses_of(conn, idents)
    groups = security_groups.of_ports(conn, idents)
    rules = _rules(conn, {group for of_port in groups.values() for group in of_port})
    flat = {row['id']: row for row in networks.page(
        conn, t.networks, (t.networks.c.bridge != '') & (t.networks.c.network_type == networks.FLAT),
        [('id', 'asc')], None, None)}
    routed = host_routers.load(conn, host, _guest_projects_by_network(rows, flat) if distributed else None)
    overlay_rows = {row['id']: row for row in networks.many(
        conn, t.networks, ({row['network_id'] for row in rows} | routed.network_ids) - flat.keys())}
    physical_bridges = {row['bridge']: physical[row['physical_network']] for row in flat.values()
                        if row['physical_network'] in physical}
    known = flat | overlay_rows
    trunks = _trunks(conn, rows, known)
    devices = {row['id']: devname(row['id']) for row in rows} | {
        trunk.port: network_info.trunk_devname(trunk.port) for trunk in trunks}
    qualities = qos.of_ports(conn, rows, known)
    subnets = _subnets(conn, flat)
    moves = _moves(conn, host, rows, move_key) if move_key else {}
    overlay_state = host_overlays.load(conn, overlay_rows, host, physical, routed.substitutes, routed.transit)
    return host_state.HostState(
        networks=[_network(row, subnets.get(ident, [])) for ident, row in flat.items()
                  if row['bridge'] not in physical_bridges],
        ports=[_port(row, host, devices[row['id']], known[row['network_id']]['bridge'], fixed, groups, qualities, moves)
               for row in rows if row['network_id'] in known],
        rules=rules,
        members=_members(conn, host_state.remote_groups(rules)),
        overlays=overlay_state.overlays,
        routers=[host_routers.with_neighbours(router, overlay_state.neighbours) for router in routed.routers],
        physical_bridges=physical_bridges,
        tunnel=tunnel,
        host=host,
        metadata_key=metadata_key,
        dns_names=_names(conn, known),
        trunks=trunks,
        stateless=security_groups.stateless(conn, rules),
    )


def _trunks(conn: Connection, rows: list[db_rows.PortsRow],
            known: Mapping[str, db_rows.NetworksRow]) -> list[host_state.Trunk]:
    """Load the trunks of a host's ports.

    Ports that the compute service created are skipped, because they cannot be parents of trunks.
    """
    ports = {row['id']: row for row in rows if row['network_id'] in known}
    trunks = db_trunks.of_ports(conn, [ident for ident, row in ports.items() if not row['created_by_compute']])
    subports = db_trunks.subports(conn, [trunk['id'] for trunk in trunks.values()])

    def place(ident: str) -> tuple[str, int]:
        network = known[ports[ident]['network_id']]
        return network['bridge'], network['mtu']

    def subport(each: db_trunks.Details, parent_mtu: int) -> host_state.Subport:
        bridge, mtu = place(each.port_id)
        # use the smaller MTU: the MTU of the parent's network may have been reduced since the trunk was created
        return host_state.Subport(each.port_id, each.segmentation_id, bridge, min(mtu, parent_mtu))
    return [host_state.Trunk(ident, *place(ident), [
        subport(each, place(ident)[1]) for each in subports[trunk['id']] if each.port_id in ports])
        for ident, trunk in sorted(trunks.items())]


def _names(conn: Connection, known: Mapping[str, db_rows.NetworksRow]) -> list[list[str]]:
    """Load ``dns_names`` of the HostState in one SELECT."""
    owners: dict[str, list[str]] = {}
    for ident, row in sorted(known.items()):
        if row['project_id']:
            owners.setdefault(row['project_id'], []).append(ident)
    return [[ident, address, name] for project, address, name in dns.resolved(conn, owners)
            for ident in (owners[project] if project else [''])]


def _subnets(conn: Connection, idents: Iterable[str]) -> dict[str, list[host_state.Subnet]]:
    """Return {network id: its subnets}."""
    found: dict[str, list[host_state.Subnet]] = {}
    for row in networks.many(conn, t.subnets, idents, 'network_id'):
        found.setdefault(row['network_id'], []).append(host_state.Subnet(
            row['cidr'], row['gateway_ip'], row['enable_dhcp'], row['dns_nameservers'], row['host_routes']))
    return found


def _network(row: db_rows.NetworksRow, subnets: list[host_state.Subnet]) -> host_state.Network:
    return host_state.Network(row['id'], row['bridge'], row['mtu'], row['is_default'] and not row['external'], subnets,
                   row['external'], row['dns_domain'].rstrip('.'))


def _port(row: db_rows.PortsRow, host: str, device: str, bridge: str, fixed: dict[str, list[dict[str, str]]],
          groups: dict[str, list[str]], qualities: qos.Qualities, moves: Mapping[str, list[str]]) -> host_state.Port:
    """
    :param fixed, groups: {port id: addresses of the port}, {port id: groups of the port}
    """
    ident = row['id']
    addresses = [entry['ip_address'] for entry in fixed.get(ident, [])] if row['admin_state_up'] else []
    pairs: list[host_state.AddressPair] = [
        {'ip_address': pair['ip_address'].removesuffix('/128' if ':' in pair['ip_address'] else '/32'),
         'mac_address': pair['mac_address']} for pair in row['allowed_address_pairs'] or ()]
    secured = row['port_security_enabled'] or not row['admin_state_up']      # without addresses, it drops all frames
    return host_state.Port(ident, device, row['mac_address'], bridge, addresses, groups.get(ident, []), pairs,
                secured, qualities.limits.get(ident, []), qualities.marks.get(ident),
                qualities.guaranteed.get(ident, 0), row['migrating_to'] == host, moves.get(ident, []))


def _moves(conn: Connection, host: str, rows: list[db_rows.PortsRow], key: Callable[[str], str]) -> dict[str,
           list[str]]:
    """Return {port id: ``Port.migration``} of migrating guests, in one SELECT."""
    moving = [row for row in rows if row['migrating_to'] and row['host'] and row['migrating_to'] != row['host']]
    places = {row['host']: row['address'] for row in hosts.every(conn)} if moving else {}
    found = {}
    for row in moving:
        other = row['host'] if row['migrating_to'] == host else row['migrating_to']
        if other in places:
            name = f"{row['id']} {row['revision']} {row['host']} {row['migrating_to']}"
            found[row['id']] = [places[other], key(name)]
    return found


def _guest_projects_by_network(rows: list[db_rows.PortsRow], flat: Collection[str]) -> dict[str, set[str]]:
    """Return {id of an overlay network: the projects of the guests' ports in it}."""
    found: dict[str, set[str]] = {}
    for row in rows:
        if row['network_id'] not in flat:
            found.setdefault(row['network_id'], set()).add(row['project_id'])
    return found


def filters(conn: Connection, host: str, known: set[str]) -> tuple[host_state.Rules, host_state.Members]:
    """Load (rules, members) of a host's HostState in two SELECTs.

    :param known: ids of groups; the agent has the members of these groups, so they are not loaded
    """
    rules = _rules(conn, security_groups.on_host(conn, host))
    return rules, _members(conn, host_state.remote_groups(rules) - known)


def _rules(conn: Connection, groups: set[str]) -> host_state.Rules:
    rules: dict[str, list[db_rows.SecurityGroupRulesRow]] = {group: [] for group in groups}
    found: list[db_rows.SecurityGroupRulesRow] = address_groups.expanded(
        conn, networks.many(conn, t.security_group_rules, groups, 'security_group_id'))
    for rule in sorted(found, key=lambda rule: rule['id']):
        rules[rule['security_group_id']].append(
            {**rule, 'protocol': group_rules.canonical_protocol(rule['protocol'], rule['ethertype'])})
    return rules


def _members(conn: Connection, groups: set[str]) -> host_state.Members:
    return {group: sorted(found) for group, found in (
        dict.fromkeys(groups, ()) | security_groups.members(conn, groups)).items()}
