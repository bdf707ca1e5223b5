"""Load the routers of one host: those placed on it, and local instances of distributed routers placed elsewhere."""
from collections.abc import Mapping
import dataclasses
import ipaddress
from typing import Any

from nova.db.engine import Connection
from nova.db.networks import address_scopes
from nova.db.networks import networks
from nova.db.networks import ports as db_ports
from nova.db.networks import qos
from nova.db.networks import routers as db
from nova.db.tables import network as t
from nova.db.tables import rows as db_rows
from nova.network.host import state as host_state

Addresses = dict[str, list[dict[str, str]]]               # {port id: [{'subnet_id', 'ip_address'}]}


@dataclasses.dataclass
class HostRouters:
    """Routers of a host.

    network_ids   networks that the routers are connected to
    transit       networks in ``network_ids`` without guests on this host; only distributed routers need them
    substitutes   {port id of a distributed router: MAC for its FDB entries; None: the router has no gateway host}
    """

    routers: list[host_state.Router]
    network_ids: set[str]
    transit: set[str] = dataclasses.field(default_factory=set)
    substitutes: dict[str, str | None] = dataclasses.field(default_factory=dict)


def load(conn: Connection, host: str, guest_projects: dict[str, set[str]] | None = None) -> HostRouters:
    """Load the routers of a host, in eight SELECTs, or in one if there are no routers.

    :param guest_projects: {network id: projects of the guests' ports in it}. Distributed routers of these networks have
        an instance on this host; loading the instances takes two more SELECTs. None: no router is distributed
    """
    rows = db.of_host(conn, host)
    ports = _ports(conn, rows)
    parts = db.elsewhere(conn, guest_projects, set().union(*guest_projects.values()), host) if guest_projects else []
    if not rows and not parts:
        return HostRouters([], set())
    if parts:
        ports += [port for port in _ports(conn, parts) if port['device_owner'] == db_ports.INTERFACE]
    return _routed(conn, rows, parts, ports, None if guest_projects is None else set(guest_projects))


def _ports(conn: Connection, rows: list[db_rows.RoutersRow]) -> list[db_rows.PortsRow]:
    return [port for port in networks.many(conn, t.ports, [row['id'] for row in rows], 'device_id')
            if port['device_owner'] in (db_ports.GATEWAY, db_ports.INTERFACE)]


def _routed(conn: Connection, rows: list[db_rows.RoutersRow], parts: list[db_rows.RoutersRow],
            ports: list[db_rows.PortsRow], guest_projects: set[str] | None) -> HostRouters:
    nets = {row['id']: row for row in networks.many(conn, t.networks, {port['network_id'] for port in ports})}
    scopes = address_scopes.of_networks(conn, nets)
    joined = {port['device_id'] for port in ports
              if port['network_id'] in (guest_projects or ()) and _can_be_distributed(nets[port['network_id']])}
    away = {row['id']: row['host'] for row in parts if row['id'] in joined}
    here = {row['id'] for row in rows}
    ports = [port for port in ports if port['device_id'] in here
             or port['device_id'] in away and _can_be_distributed(nets[port['network_id']])]
    found = _routers(conn, rows + [row for row in parts if row['id'] in away], ports, nets, guest_projects is not None,
                     away, scopes)
    reached = {port['network_id'] for port in ports}
    if guest_projects is None:
        return HostRouters(found, reached)
    served = guest_projects | {port['network_id'] for port in ports if port['device_id'] in here}
    return HostRouters(found, reached, reached - served, {
        port['id']: host_state.gateway_mac(port['mac_address']) if away[port['device_id']] else None
        for port in ports if port['device_id'] in away})


def _can_be_distributed(network: db_rows.NetworksRow) -> bool:
    """Return whether routers of a network can be distributed.

    Routers of a VLAN cannot be distributed, because a physical switch would learn the shared MAC from each host.
    """
    return network['network_type'] == networks.OVERLAY


def _routers(conn: Connection, rows: list[db_rows.RoutersRow], ports: list[db_rows.PortsRow],
             nets: dict[str, db_rows.NetworksRow], distributed: bool, away: dict[str, str],
             scopes: Mapping[tuple[str, int], str | None]) -> list[host_state.Router]:
    """
    :param scopes: {(network id, IP version): address scope}
    """
    def interface(port: db_rows.PortsRow, more: list[str] | None = None,
                  distributed: bool = False) -> host_state.RouterInterface:
        network, held = nets[port['network_id']], fixed.get(port['id'], [])
        on = [subnets[entry['subnet_id']] for entry in held]
        return host_state.RouterInterface(
            port=port['id'], mac=port['mac_address'], bridge=network['bridge'], mtu=network['mtu'],
            addresses=[f"{entry['ip_address']}/{ipaddress.ip_network(subnet['cidr']).prefixlen}"
                       for entry, subnet in zip(held, on, strict=True)] + [f'{each}/32' for each in sorted(more or ())],
            modes=[[subnet['cidr'], mode] for entry, subnet in zip(held, on, strict=True)
                   if (mode := subnet['ipv6_ra_mode']) and subnet['gateway_ip'] == entry['ip_address']],
            distributed=distributed,
            scopes=[scopes.get((network['id'], version)) or '' for version in (4, 6)])

    fixed = networks.addresses_of(conn, [port['id'] for port in ports])
    subnets = {row['id']: row for row in networks.many(
        conn, t.subnets, {entry['subnet_id'] for held in fixed.values() for entry in held})}
    floating = networks.many(conn, t.floating_ips, [row['id'] for row in rows if row['id'] not in away], 'router_id')
    forwarded = db.forwardings(conn, [row['id'] for row in floating])
    qualities = qos.of_policies(conn, {row['id']: row['qos_policy_id'] for row in rows if row['id'] not in away})
    helpers = db.helpers(conn, [row['id'] for row in rows if row['id'] not in away])
    found = []
    for row in rows:
        own = sorted((port for port in ports if port['device_id'] == row['id']), key=lambda port: port['id'])
        internal = [port for port in own if port['device_owner'] == db_ports.INTERFACE]
        outside = next((port for port in own if port['device_owner'] == db_ports.GATEWAY), None)
        mine = [each for each in floating if each['router_id'] == row['id']]
        found.append(host_state.Router(
            id=row['id'], up=row['admin_state_up'],
            internal=[interface(port, distributed=distributed and _can_be_distributed(nets[port['network_id']]))
                      for port in internal],
            external=outside and interface(outside, [each['floating_ip_address'] for each in mine]),
            gateway=_gateway(outside, subnets, fixed), snat=row['enable_snat'], routes=row['routes'],
            floating_ips=sorted([each['floating_ip_address'], each['fixed_ip_address']]
                                for each in mine if each['fixed_ip_address']),
            port_forwardings=_forwarded(mine, forwarded), port_ranges=_ranges(mine, forwarded),
            role=_role(row, distributed, away),
            limits=qualities.limits.get(row['id'], []), dscp_mark=qualities.marks.get(row['id']),
            helpers=[[each['helper'], each['protocol'], each['port']] for each in helpers.get(row['id'], ())]))
    return found


def _role(row: db_rows.RoutersRow, distributed: bool, away: dict[str, str]) -> str:
    if row['id'] in away:
        return host_state.DVR_LOCAL if row['host'] else host_state.DVR_ISOLATED
    return host_state.DVR_GATEWAY if distributed else host_state.CENTRAL


def with_neighbours(router: host_state.Router, neighbours: dict[str, list[list[str]]]) -> host_state.Router:
    """Return the router with neighbours added to its distributed interfaces.

    :param neighbours: see overlays.OverlayState
    """
    def interface(each: host_state.RouterInterface) -> host_state.RouterInterface:
        ranges = [ipaddress.ip_interface(address).network for address in each.addresses]
        return dataclasses.replace(each, neighbours=[
            known for known in neighbours.get(each.bridge, ())
            if any(ipaddress.ip_address(known[0]) in cidr for cidr in ranges)])
    return dataclasses.replace(router, internal=[
        interface(each) if each.distributed else each for each in router.internal])


def _gateway(outside: db_rows.PortsRow | None, subnets: dict[str, db_rows.SubnetsRow], fixed: Addresses) -> str | None:
    for entry in fixed.get(outside['id'], ()) if outside else ():
        if gateway := subnets[entry['subnet_id']]['gateway_ip']:
            return gateway
    return None


def _forwarded(floating: list[db_rows.FloatingIpsRow], rows: list[db_rows.PortForwardingsRow]) -> list[list[Any]]:
    outside = {each['id']: each['floating_ip_address'] for each in floating}
    return [[outside[row['floating_ip_id']], row['protocol'], row['external_port'], row['internal_ip_address'],
             row['internal_port']] for row in rows if row['floating_ip_id'] in outside and row['ports'] == 1]


def _ranges(floating: list[db_rows.FloatingIpsRow], rows: list[db_rows.PortForwardingsRow]) -> list[list[Any]]:
    outside = {each['id']: each['floating_ip_address'] for each in floating}
    return [[outside[row['floating_ip_id']], row['protocol'], row['external_port'],
             row['external_port'] + row['ports'] - 1, row['internal_ip_address'], row['internal_port']]
            for row in rows if row['floating_ip_id'] in outside and row['ports'] > 1]
