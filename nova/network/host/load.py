"""Load the network state of one host from the database."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from nova.db.engine import Connection
from nova.db.networks import dns
from nova.db.networks import hosts
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import qos
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.network import group_rules
from nova.network.host import overlays as host_overlays
from nova.network.host import routers as host_routers
from nova.network.host.state import AddressPair
from nova.network.host.state import HostState
from nova.network.host.state import Members
from nova.network.host.state import Network
from nova.network.host.state import Port
from nova.network.host.state import remote_groups
from nova.network.host.state import Rules
from nova.network.host.state import Subnet

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworksRow, PortsRow, SecurityGroupRulesRow


def load(conn: Connection, host: str, devname: Callable[[str], str], physical: dict[str, str] | None = None,
         tunnel: str = '', metadata_key: str = '', distributed: bool = False,
         move_key: Callable[[str], str] | None = None) -> HostState:
    """Load the HostState of a host in nine statements, more if overlay networks or routers exist.

    :param devname: function: port id -> name of its device
    :param physical: {physical network: bridge of the operator}
    :param tunnel: this host's tunnel address
    :param metadata_key: signing key of the host's metadata relay
    :param move_key: function: name of a migration -> key shared by its two hosts. None: connections are not handed over
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
    qualities = qos.of_ports(conn, rows, known)
    subnets = _subnets(conn, flat)
    moves = _moves(conn, host, rows, move_key) if move_key else {}
    overlay_state = host_overlays.load(conn, overlay_rows, host, physical, routed.substitutes, routed.transit)
    return HostState(
        networks=[_network(row, subnets.get(ident, [])) for ident, row in flat.items()
                  if row['bridge'] not in physical_bridges],
        ports=[_port(row, host, devname(row['id']), known[row['network_id']]['bridge'], fixed, groups, qualities, moves)
               for row in rows if row['network_id'] in known],
        rules=rules,
        members=_members(conn, remote_groups(rules)),
        overlays=overlay_state.overlays,
        routers=[host_routers.with_neighbours(router, overlay_state.neighbours) for router in routed.routers],
        physical_bridges=physical_bridges,
        tunnel=tunnel,
        host=host,
        metadata_key=metadata_key,
        names=_names(conn, known),
    )


def _names(conn: Connection, known: Mapping[str, NetworksRow]) -> list[list[str]]:
    """Load ``names`` of the HostState in one statement."""
    owners: dict[str, list[str]] = {}
    for ident, row in sorted(known.items()):
        if row['project_id']:
            owners.setdefault(row['project_id'], []).append(ident)
    return [[ident, address, name] for project, address, name in dns.resolved(conn, owners)
            for ident in (owners[project] if project else [''])]


def _subnets(conn: Connection, idents: Iterable[str]) -> dict[str, list[Subnet]]:
    """Return {network id: its subnets}."""
    found: dict[str, list[Subnet]] = {}
    for row in networks.many(conn, t.subnets, idents, 'network_id'):
        found.setdefault(row['network_id'], []).append(Subnet(
            row['cidr'], row['gateway_ip'], row['enable_dhcp'], row['dns_nameservers'], row['host_routes']))
    return found


def _network(row: NetworksRow, subnets: list[Subnet]) -> Network:
    return Network(row['id'], row['bridge'], row['mtu'], row['is_default'] and not row['external'], subnets,
                   row['external'], row['dns_domain'].rstrip('.'))


def _port(row: PortsRow, host: str, device: str, bridge: str, fixed: dict[str, list[dict[str, str]]],
          groups: dict[str, list[str]], qualities: qos.Qualities, moves: Mapping[str, list[str]]) -> Port:
    """
    :param fixed, groups: {id of a port: its addresses, its groups}
    """
    ident = row['id']
    addresses = [entry['ip_address'] for entry in fixed.get(ident, [])] if row['admin_state_up'] else []
    pairs: list[AddressPair] = [
        {'ip_address': pair['ip_address'].removesuffix('/128' if ':' in pair['ip_address'] else '/32'),
         'mac_address': pair['mac_address']} for pair in row['allowed_address_pairs'] or ()]
    return Port(ident, device, row['mac_address'], bridge, addresses, groups.get(ident, []), pairs,
                row['port_security_enabled'], qualities.limits.get(ident, []), qualities.marks.get(ident),
                row['migrating_to'] == host, moves.get(ident, []))


def _moves(conn: Connection, host: str, rows: list[PortsRow], key: Callable[[str], str]) -> dict[str, list[str]]:
    """Return {port id: its ``move``} for migrating guests, in one statement."""
    moving = [row for row in rows if row['migrating_to'] and row['host'] and row['migrating_to'] != row['host']]
    places = {row['host']: row['address'] for row in hosts.every(conn)} if moving else {}
    found = {}
    for row in moving:
        other = row['host'] if row['migrating_to'] == host else row['migrating_to']
        if other in places:
            name = f"{row['id']} {row['revision']} {row['host']} {row['migrating_to']}"
            found[row['id']] = [places[other], key(name)]
    return found


def _guest_projects_by_network(rows: list[PortsRow], flat: Collection[str]) -> dict[str, set[str]]:
    """Return {id of an overlay network: the projects of the guests' ports in it}."""
    found: dict[str, set[str]] = {}
    for row in rows:
        if row['network_id'] not in flat:
            found.setdefault(row['network_id'], set()).add(row['project_id'])
    return found


def filters(conn: Connection, host: str, known: set[str]) -> tuple[Rules, Members]:
    """Load (rules, members) of a host's HostState in two statements.

    :param known: ids of groups; their members are neither read nor returned
    """
    rules = _rules(conn, security_groups.on_host(conn, host))
    return rules, _members(conn, remote_groups(rules) - known)


def _rules(conn: Connection, groups: set[str]) -> Rules:
    rules: dict[str, list[SecurityGroupRulesRow]] = {group: [] for group in groups}
    for rule in sorted(networks.many(conn, t.security_group_rules, groups, 'security_group_id'),
                       key=lambda rule: rule['id']):
        rules[rule['security_group_id']].append(
            {**rule, 'protocol': group_rules.canonical_protocol(rule['protocol'], rule['ethertype'])})
    return rules


def _members(conn: Connection, groups: set[str]) -> Members:
    return {group: sorted(found) for group, found in (
        dict.fromkeys(groups, ()) | security_groups.members(conn, groups)).items()}
