"""The routers of one host as it needs them."""
from __future__ import annotations

import dataclasses
import ipaddress
from typing import Any

from nova.db.engine import Connection
from nova.db.networks import networks
from nova.db.networks import ports as db_ports
from nova.db.networks import routers as db
from nova.db.tables import network as t
from nova.network.host.state import Leg
from nova.network.host.state import Router


@dataclasses.dataclass
class Routed:
    """``network_ids``: of all networks that the routers are in."""

    routers: list[Router]
    network_ids: set[str]


def load(conn: Connection, host: str) -> Routed:
    """The routers of a host, in one statement where it has none, else in seven."""
    rows = db.of_host(conn, host)
    if not rows:
        return Routed([], set())
    idents = [row['id'] for row in rows]
    ports = [port for port in networks.many(conn, t.ports, idents, 'device_id')
             if port['device_owner'] in (db_ports.GATEWAY, db_ports.INTERFACE)]
    fixed = networks.addresses_of(conn, [port['id'] for port in ports])
    subnets = {row['id']: row for row in networks.many(
        conn, t.subnets, {entry['subnet_id'] for held in fixed.values() for entry in held})}
    nets = {row['id']: row for row in networks.many(conn, t.networks, {port['network_id'] for port in ports})}
    floating = networks.many(conn, t.floating_ips, idents, 'router_id')
    forwarded = db.forwardings(conn, [row['id'] for row in floating])
    found = []
    for row in rows:
        own = sorted((port for port in ports if port['device_id'] == row['id']), key=lambda port: port['id'])
        internal = [port for port in own if port['device_owner'] == db_ports.INTERFACE]
        outside = next((port for port in own if port['device_owner'] == db_ports.GATEWAY), None)
        mine = [each for each in floating if each['router_id'] == row['id']]
        found.append(Router(
            id=row['id'], up=row['admin_state_up'],
            inside=[_leg(port, nets, subnets, fixed) for port in internal],
            outside=outside and _leg(outside, nets, subnets, fixed, [each['floating_ip_address'] for each in mine]),
            gateway=_gateway(outside, subnets, fixed), snat=row['enable_snat'], routes=row['routes'],
            floating=sorted([each['floating_ip_address'], each['fixed_ip_address']]
                            for each in mine if each['fixed_ip_address']),
            forwarded=_forwarded(mine, forwarded)))
    return Routed(found, {port['network_id'] for port in ports})


def _leg(port: Any, nets: dict[str, Any], subnets: dict[str, Any], fixed: dict[str, list[Any]],
         more: list[str] | None = None) -> Leg:
    network, held = nets[port['network_id']], fixed.get(port['id'], [])
    on = [subnets[entry['subnet_id']] for entry in held]
    return Leg(
        port=port['id'], mac=port['mac_address'], bridge=network['bridge'], mtu=network['mtu'],
        addresses=[f"{entry['ip_address']}/{ipaddress.ip_network(subnet['cidr']).prefixlen}"
                   for entry, subnet in zip(held, on, strict=True)] + [f'{each}/32' for each in sorted(more or ())],
        modes=[[subnet['cidr'], subnet['ipv6_ra_mode']] for subnet in on if subnet['ipv6_ra_mode']])


def _gateway(outside: Any, subnets: dict[str, Any], fixed: dict[str, list[Any]]) -> str | None:
    for entry in fixed.get(outside['id'], ()) if outside else ():
        if subnets[entry['subnet_id']]['gateway_ip']:
            return str(subnets[entry['subnet_id']]['gateway_ip'])
    return None


def _forwarded(floating: list[Any], rows: list[Any]) -> list[list[Any]]:
    outside = {each['id']: each['floating_ip_address'] for each in floating}
    return [[outside[row['floating_ip_id']], row['protocol'], row['external_port'], row['internal_ip_address'],
             row['internal_port']] for row in rows if row['floating_ip_id'] in outside]
