"""Load the routers of one host: those placed on it, and distributed instances of routers on other hosts."""
from __future__ import annotations

import dataclasses
import ipaddress
from typing import Any, TYPE_CHECKING

from nova.db.engine import Connection
from nova.db.networks import networks
from nova.db.networks import ports as db_ports
from nova.db.networks import routers as db
from nova.db.tables import network as t
from nova.network.host.state import CENTRAL
from nova.network.host.state import DVR_GATEWAY
from nova.network.host.state import DVR_ISOLATED
from nova.network.host.state import DVR_LOCAL
from nova.network.host.state import gateway_mac
from nova.network.host.state import Router
from nova.network.host.state import RouterInterface

if TYPE_CHECKING:
    from nova.db.tables.rows import FloatingIpsRow, NetworksRow, PortForwardingsRow, PortsRow, RoutersRow, SubnetsRow

    Addresses = dict[str, list[dict[str, str]]]           # {port id: [{'subnet_id', 'ip_address'}]}


@dataclasses.dataclass
class HostRouters:
    """Routers of a host.

    network_ids   networks that the routers are connected to
    transit       those of them without guests on this host, needed by distributed routers only
    substitutes   {id of a distributed router's port: MAC of the router on its gateway host, None if it has no host}
    """

    routers: list[Router]
    network_ids: set[str]
    transit: set[str] = dataclasses.field(default_factory=set)
    substitutes: dict[str, str | None] = dataclasses.field(default_factory=dict)


def load(conn: Connection, host: str, guest_projects: dict[str, set[str]] | None = None) -> HostRouters:
    """Load the routers of a host: one statement if it has none, else seven.

    :param guest_projects: {network id: projects of the guests' ports in it}. Their routers have an instance here (two
        more statements). None: routing is central
    """
    rows = db.of_host(conn, host)
    ports = _ports(conn, rows)
    parts = db.elsewhere(conn, guest_projects, set().union(*guest_projects.values()), host) if guest_projects else []
    if not rows and not parts:
        return HostRouters([], set())
    if parts:
        ports += [port for port in _ports(conn, parts) if port['device_owner'] == db_ports.INTERFACE]
    return _routed(conn, rows, parts, ports, None if guest_projects is None else set(guest_projects))


def _ports(conn: Connection, rows: list[RoutersRow]) -> list[PortsRow]:
    return [port for port in networks.many(conn, t.ports, [row['id'] for row in rows], 'device_id')
            if port['device_owner'] in (db_ports.GATEWAY, db_ports.INTERFACE)]


def _routed(conn: Connection, rows: list[RoutersRow], parts: list[RoutersRow], ports: list[PortsRow],
            guest_projects: set[str] | None) -> HostRouters:
    nets = {row['id']: row for row in networks.many(conn, t.networks, {port['network_id'] for port in ports})}
    joined = {port['device_id'] for port in ports
              if port['network_id'] in (guest_projects or ()) and _can_be_distributed(nets[port['network_id']])}
    away = {row['id']: row['host'] for row in parts if row['id'] in joined}
    here = {row['id'] for row in rows}
    ports = [port for port in ports if port['device_id'] in here
             or port['device_id'] in away and _can_be_distributed(nets[port['network_id']])]
    found = _routers(conn, rows + [row for row in parts if row['id'] in away], ports, nets, guest_projects is not None,
                     away)
    reached = {port['network_id'] for port in ports}
    if guest_projects is None:
        return HostRouters(found, reached)
    served = guest_projects | {port['network_id'] for port in ports if port['device_id'] in here}
    return HostRouters(found, reached, reached - served, {
        port['id']: gateway_mac(port['mac_address']) if away[port['device_id']] else None
        for port in ports if port['device_id'] in away})


def _can_be_distributed(network: NetworksRow) -> bool:
    """Return whether a distributed router can be on every host of a network.

    Only overlays qualify, because a physical switch would learn the shared MAC from each host.
    """
    return network['network_type'] == networks.OVERLAY


def _routers(conn: Connection, rows: list[RoutersRow], ports: list[PortsRow], nets: dict[str, NetworksRow],
             distributed: bool, away: dict[str, str]) -> list[Router]:
    fixed = networks.addresses_of(conn, [port['id'] for port in ports])
    subnets = {row['id']: row for row in networks.many(
        conn, t.subnets, {entry['subnet_id'] for held in fixed.values() for entry in held})}
    floating = networks.many(conn, t.floating_ips, [row['id'] for row in rows if row['id'] not in away], 'router_id')
    forwarded = db.forwardings(conn, [row['id'] for row in floating])
    found = []
    for row in rows:
        own = sorted((port for port in ports if port['device_id'] == row['id']), key=lambda port: port['id'])
        internal = [port for port in own if port['device_owner'] == db_ports.INTERFACE]
        outside = next((port for port in own if port['device_owner'] == db_ports.GATEWAY), None)
        mine = [each for each in floating if each['router_id'] == row['id']]
        found.append(Router(
            id=row['id'], up=row['admin_state_up'],
            internal=[_interface(port, nets, subnets, fixed,
                                 distributed=distributed and _can_be_distributed(nets[port['network_id']]))
                      for port in internal],
            external=outside and _interface(outside, nets, subnets, fixed,
                                            [each['floating_ip_address'] for each in mine]),
            gateway=_gateway(outside, subnets, fixed), snat=row['enable_snat'], routes=row['routes'],
            floating_ips=sorted([each['floating_ip_address'], each['fixed_ip_address']]
                                for each in mine if each['fixed_ip_address']),
            port_forwardings=_forwarded(mine, forwarded), role=_role(row, distributed, away)))
    return found


def _role(row: RoutersRow, distributed: bool, away: dict[str, str]) -> str:
    if row['id'] in away:
        return DVR_LOCAL if row['host'] else DVR_ISOLATED
    return DVR_GATEWAY if distributed else CENTRAL


def _interface(port: PortsRow, nets: dict[str, NetworksRow], subnets: dict[str, SubnetsRow], fixed: Addresses,
               more: list[str] | None = None, distributed: bool = False) -> RouterInterface:
    network, held = nets[port['network_id']], fixed.get(port['id'], [])
    on = [subnets[entry['subnet_id']] for entry in held]
    return RouterInterface(
        port=port['id'], mac=port['mac_address'], bridge=network['bridge'], mtu=network['mtu'],
        addresses=[f"{entry['ip_address']}/{ipaddress.ip_network(subnet['cidr']).prefixlen}"
                   for entry, subnet in zip(held, on, strict=True)] + [f'{each}/32' for each in sorted(more or ())],
        modes=[[subnet['cidr'], mode] for entry, subnet in zip(held, on, strict=True)
               if (mode := subnet['ipv6_ra_mode']) and subnet['gateway_ip'] == entry['ip_address']],
        distributed=distributed)


def with_neighbours(router: Router, neighbours: dict[str, list[list[str]]]) -> Router:
    """Return the router with the neighbours of its distributed interfaces.

    :param neighbours: see overlays.OverlayState
    """
    def interface(each: RouterInterface) -> RouterInterface:
        ranges = [ipaddress.ip_interface(address).network for address in each.addresses]
        return dataclasses.replace(each, neighbours=[
            known for known in neighbours.get(each.bridge, ())
            if any(ipaddress.ip_address(known[0]) in cidr for cidr in ranges)])
    return dataclasses.replace(router, internal=[
        interface(each) if each.distributed else each for each in router.internal])


def _gateway(outside: PortsRow | None, subnets: dict[str, SubnetsRow], fixed: Addresses) -> str | None:
    for entry in fixed.get(outside['id'], ()) if outside else ():
        if gateway := subnets[entry['subnet_id']]['gateway_ip']:
            return gateway
    return None


def _forwarded(floating: list[FloatingIpsRow], rows: list[PortForwardingsRow]) -> list[list[Any]]:
    outside = {each['id']: each['floating_ip_address'] for each in floating}
    return [[outside[row['floating_ip_id']], row['protocol'], row['external_port'], row['internal_ip_address'],
             row['internal_port']] for row in rows if row['floating_ip_id'] in outside]
