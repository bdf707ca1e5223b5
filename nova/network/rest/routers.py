"""Routers: interfaces to subnets, external gateways and routes."""
from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TYPE_CHECKING

from nova import context as nova_context
from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import hosts as db_hosts
from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db_ports
from nova.db.networks import routers as db
from nova.db.networks import trunks as db_trunks
from nova.db.tables import network as t
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.network import gateways
from nova.network import ranges
from nova.network.rest import conntrack_helpers
from nova.network.rest import faults
from nova.network.rest import guarantees
from nova.network.rest import flavors
from nova.network.rest import networks
from nova.network.rest import pages
from nova.network.rest import permissions
from nova.network.rest import qos
from nova.network.rest import quotas
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.web.fields import Constant
from nova.web.resource import closed
from nova.web.resource import Converted
from nova.web.resource import Document

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworksRow, PortsRow, RoutersRow, SubnetsRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import RouterExternalGatewayInfo
    from nova.network.rest.values import RouterValues

MAX_ROUTES = 30
_IDENT = s.TypeValidator(s.IDENT)
Routes = list[dict[str, str]]
GATEWAY_PARTS = ('enable_snat', 'external_fixed_ips')      # _check_rights checks the rules of these keys
_GATEWAY = Converted({
    **closed(network_id=s.IDENT, enable_snat=s.BOOLEAN, external_fixed_ips=s.items(s.FIXED_IP, 4),
             qos_policy_id=s.nullable(s.IDENT)),
    'type': ['object', 'null'],
    'dependentRequired': {name: ['network_id'] for name in (*GATEWAY_PARTS, 'qos_policy_id')},
    'description': 'an object with network_id, enable_snat, external_fixed_ips, qos_policy_id'},
    lambda _name, value: value or None)
_ROUTES = s.items(s.ROUTE, MAX_ROUTES)
_CHECKED_ROUTES = s.TypeValidator(_ROUTES)


def _load_gateway(conn: Connection, _context: RequestContext, rows: list[dict[str, Any]]) -> None:
    gateway_ids: dict[str, str] = {}
    for port in db_networks.many(conn, t.ports, [row['id'] for row in rows], 'device_id'):
        if port['device_owner'] == db_ports.GATEWAY:
            gateway_ids[port['device_id']] = port['id']
    fixed = db_networks.addresses_of(conn, list(gateway_ids.values()))
    for row in rows:
        row['gateway'] = row['external_network_id'] and {
            'network_id': row['external_network_id'], 'enable_snat': row['enable_snat'],
            'external_fixed_ips': fixed.get(gateway_ids.get(row['id'], ''), []), 'qos_policy_id': row['qos_policy_id']}


def _load_status(conn: Connection, _context: RequestContext, rows: list[dict[str, Any]]) -> None:
    active = db.active(conn, [row['id'] for row in rows], gateways.DOWN_S)
    for row in rows:
        row.update(_status(row, row['id'] in active))


def _status(row: Mapping[str, Any], active: bool) -> dict[str, str | None]:
    """Return the fields ``status`` and ``status_reason``."""
    if active:
        return {'status': 'ACTIVE', 'status_reason': None}
    if row['taken']:
        return {'status': 'DOWN', 'status_reason': f'An administrator has removed router {row["id"]} from its host.'}
    why = ('the host of the router is down or no longer a gateway host, and there is no other gateway host'
           if row['host'] else 'no host of this cloud forwards packets of routers')
    return {'status': 'DOWN', 'status_reason': f'Router {row["id"]} is not active: {why}. An administrator must '
            'start a nova-network with driver = linux and routers = true in [network].'}


def create(conn: Connection, deps: Deps, context: RequestContext, values: RouterValues) -> str:
    project = r.new_owner(context, values)
    quotas.check(conn, deps.conf, 'router', project)
    if values['flavor_id'] is not None:
        flavors.check(conn, values['flavor_id'])
    row = {**ROUTERS.stored(values), 'id': str(uuid.uuid4()), 'project_id': project,
           'external_network_id': None, 'enable_snat': True, 'routes': [], 'qos_policy_id': None,
           'host': gateways.choose(conn)}
    db_networks.insert(conn, t.routers, [row])
    if values['external_gateway_info']:
        _set_gateway(conn, deps, context, row, values['external_gateway_info'], new=True)
    return row['id']


def update(conn: Connection, deps: Deps, context: RequestContext, row: RoutersRow, values: RouterValues) -> None:
    row = ROUTERS.locked(conn, row['id'])
    if values.get('flavor_id', row['flavor_id']) != row['flavor_id']:
        raise exception.BadRequest("Attribute 'flavor_id' not allowed in PUT")
    stored = ROUTERS.stored(values)
    if 'external_gateway_info' in values:
        _set_gateway(conn, deps, context, row, values['external_gateway_info'] or None)
    if 'routes' in values:
        stored['routes'] = values['routes'] or []
        _check_routes(conn, row, stored['routes'])
    db_networks.update(conn, t.routers, row['id'], stored)


def delete(conn: Connection, deps: Deps, context: RequestContext, row: RoutersRow) -> None:
    db_networks.lock(conn, t.routers, row['id'])
    if db.interfaces(conn, [row['id']]):
        raise faults.RouterInUse(router_id=row['id'])
    _set_gateway(conn, deps, context, row, None)
    for helper in db_networks.many(conn, t.conntrack_helpers, [row['id']], 'router_id'):
        db_networks.delete(conn, t.conntrack_helpers, helper['id'])
    db_networks.delete(conn, t.routers, row['id'])


# ---- the gateway ---------------------------------------------------------------

def _set_gateway(conn: Connection, deps: Deps, context: RequestContext, row: Mapping[str, Any],
                 info: RouterExternalGatewayInfo | None, new: bool = False) -> None:
    """Set or remove the external gateway of a router.

    :param new: whether the router is created with it
    """
    policy = None
    same = info is not None and info['network_id'] == row['external_network_id']
    snat = info.get('enable_snat', row['enable_snat'] if same else True) if info else True
    if info:
        _check_rights(conn, context, row, info, new)
        policy = qos.chosen(conn, context, row['qos_policy_id'], info.get('qos_policy_id', row['qos_policy_id']))
        guarantees.refuse(conn, policy, f"router {row['id']}")
    if info and same and 'external_fixed_ips' not in info:
        db_networks.update(conn, t.routers, row['id'], {'enable_snat': snat, 'qos_policy_id': policy})
        return
    if row['external_network_id'] and db.floating_through(conn, row['id']) and not same:
        raise faults.RouterExternalGatewayInUseByFloatingIp(router_id=row['id'], net_id=row['external_network_id'])
    old = _gateway_ports(conn, row)
    if old:
        db_ports.remove(conn, old)
    if info:
        _add_gateway_port(conn, deps, context, row, info)
    db_networks.update(conn, t.routers, row['id'], {
        'external_network_id': info['network_id'] if info else None, 'enable_snat': snat, 'qos_policy_id': policy})


def _check_rights(conn: Connection, context: RequestContext, row: Mapping[str, Any],
                  info: RouterExternalGatewayInfo, new: bool) -> None:
    """Check that the caller may choose the requested external subnets and addresses, and change SNAT.

    A request may repeat the router's current values without this right. SNAT is enabled in a new external network.

    :raises PolicyDenied:
    """
    same = info['network_id'] == row['external_network_id']
    held = [entry for each in db_networks.addresses_of(conn, _gateway_ports(conn, row)).values()
            for entry in each] if same else []
    current = row['enable_snat'] if same else True
    changed = {'enable_snat': info.get('enable_snat', current) != current,
               'external_fixed_ips': any(each and not any(each.items() <= entry.items() for entry in held)
                                         for each in info.get('external_fixed_ips', ()))}
    for name in (name for name in GATEWAY_PARTS if changed[name]):
        permissions.authorize(context, f'{"create" if new else "update"}_router:external_gateway_info:{name}',
                              permissions.target(row))


def _gateway_ports(conn: Connection, row: Mapping[str, Any]) -> list[str]:
    return [port['id'] for port in db_networks.many(conn, t.ports, [row['id']], 'device_id')
            if port['device_owner'] == db_ports.GATEWAY]


def _add_gateway_port(conn: Connection, deps: Deps, context: RequestContext, row: Mapping[str, Any],
                      info: RouterExternalGatewayInfo) -> None:
    network, subnets = external(conn, context, info['network_id'])
    on_router = [ipaddress.ip_network(subnet['cidr']) for subnet in db.subnets_on(conn, row['id'])]
    for subnet in subnets:
        _check_apart(ipaddress.ip_network(subnet['cidr']), on_router)
    networks.add_service_port(conn, deps, network, subnets, info.get('external_fixed_ips') or [], db_ports.GATEWAY,
                              row['id'], row['host'])


def external(conn: Connection, context: RequestContext, ident: str) -> tuple[NetworksRow, list[SubnetsRow]]:
    """Return (network, subnets) of an external network, with the subnets locked.

    :raises NetworkNotFound: no such network, or not visible to the caller
    :raises BadRequest: the network is not external, or has no subnet
    """
    found = db_networks.usable(conn, nova_context.ALL_PROJECTS, [ident], lock=True).get(ident)
    if found is None or not (found[0]['external'] or found[0]['shared'] or r.is_owner(context, found[0])
                             or db_networks.is_shared_with(conn, ident, str(context.project_id))):
        raise exception.NetworkNotFound(network_id=ident)
    if not found[0]['external'] or not found[1]:
        raise exception.BadRequest(f'Network {ident} is not an external network with a subnet.')
    return found


# ---- interfaces -----------------------------------------------------------------

def add_interface(conn: Connection, deps: Deps, context: RequestContext, row: RoutersRow,
                  body: JsonObject) -> JsonDocument:
    row, given = ROUTERS.locked(conn, row['id']), _named(body)
    port, subnet = _of_port(conn, context, given['port_id']) if given.keys() == {'port_id'} else (
        None, _subnet(conn, context, given['subnet_id']))
    network = networks.NETWORKS.get(conn, subnet['network_id'])
    if network['network_type'] == db_networks.FLAT:
        raise exception.BadRequest(f"Network {network['id']} is flat and routed by the hosts. It cannot have a router.")
    if not r.is_owner(context, network):         # other projects' guests would get this router's advertisements
        raise exception.BadRequest(f"Cannot add interface to router because subnet {subnet['id']} is not owned by "
                                   'project making the request')
    others = db.subnets_on(conn, row['id'])
    if subnet['id'] in {other['id'] for other in others}:
        raise exception.BadRequest(f"Router {row['id']} already has an interface to subnet {subnet['id']}.")
    if row['external_network_id']:
        others += db_networks.many(conn, t.subnets, [row['external_network_id']], 'network_id')
    _check_apart(ipaddress.ip_network(subnet['cidr']), [ipaddress.ip_network(other['cidr']) for other in others])
    if port is None:
        if not subnet['gateway_ip']:
            raise exception.BadRequest(f"Subnet {subnet['id']} has no gateway_ip for the router.")
        quotas.check(conn, deps.conf, 'port', row['project_id'])
        ident, _given = networks.add_service_port(
            conn, deps, network, [subnet], [{'subnet_id': subnet['id'], 'ip_address': subnet['gateway_ip']}],
            db_ports.INTERFACE, row['id'], row['host'], row['project_id'])
    else:
        ident = port['id']
        db_networks.update(conn, t.ports, ident, {
            'device_id': row['id'], 'device_owner': db_ports.INTERFACE, 'host': row['host'], 'status': 'ACTIVE'})
    db.add_interface(conn, row['id'], subnet['id'], ident)
    return _interface(row, ident, subnet)


def remove_interface(conn: Connection, deps: Deps, context: RequestContext, row: RoutersRow,
                     body: JsonObject) -> JsonDocument:
    row, given = ROUTERS.locked(conn, row['id']), _named(body, both=True)
    known = [each for each in db.interfaces(conn, [row['id']])
             if given.items() <= each.items()]
    if not known:
        raise faults.RouterInterfaceNotFound(router_id=row['id'], what=', '.join(given.values()))
    subnet = networks.SUBNETS.get(conn, known[0]['subnet_id'])
    _check_unneeded(conn, row, subnet)
    db.remove_interface(conn, row['id'], subnet['id'])
    db_ports.remove(conn, [known[0]['port_id']])
    return _interface(row, known[0]['port_id'], subnet)


def _named(body: JsonObject, both: bool = False) -> dict[str, str]:
    """Return the subnet_id or port_id of a request."""
    given = {name: _IDENT(name, body[name]) for name in ('subnet_id', 'port_id') if body.get(name) is not None}
    if body.keys() - {'subnet_id', 'port_id', 'tenant_id', 'project_id'} or not given or len(given) > 1 and not both:
        raise exception.BadRequest('Either subnet_id or port_id must be specified.')
    return given


def _subnet(conn: Connection, context: RequestContext, ident: str) -> SubnetsRow:
    seen = db_networks.seen(conn, t.subnets, db_networks.visible_subnets(context), ident)
    row = db_networks.lock(conn, t.subnets, ident) if seen else None
    if row is None:
        raise exception.SubnetNotFound(subnet_id=ident)
    return row


def _of_port(conn: Connection, context: RequestContext, ident: str) -> tuple[PortsRow, SubnetsRow]:
    """Return (port, subnet) of the caller's port for a router interface."""
    port = db_networks.lock(conn, t.ports, ident)
    if port is None or not r.is_owner(context, port) or not db_ports.seen(conn, context, [ident]):
        raise exception.PortNotFound(port_id=ident)
    if port['device_id']:
        raise exception.PortInUse(port_id=ident)
    for trunk in db_trunks.of_ports(conn, [ident]).values():
        raise faults.PortInUseAsTrunkParent(port_id=ident, trunk_id=trunk['id'])
    fixed = db_networks.addresses_of(conn, [ident]).get(ident, [])
    if len(fixed) != 1:
        raise exception.BadRequest(f'Port {ident} must have exactly one address.')
    return port, networks.SUBNETS.get(conn, fixed[0]['subnet_id'])


def _interface(row: RoutersRow, port_id: str, subnet: SubnetsRow) -> JsonDocument:
    return {'id': row['id'], 'tenant_id': row['project_id'], 'project_id': row['project_id'], 'port_id': port_id,
            'network_id': subnet['network_id'], 'subnet_id': subnet['id'], 'subnet_ids': [subnet['id']]}


def _check_apart(cidr: ranges.Cidr, others: Iterable[ranges.Cidr]) -> None:
    for other in others:
        if cidr.version == other.version and cidr.overlaps(other):
            raise exception.BadRequest(f'Range {cidr} overlaps with {other}, which is already connected to the router.')


def _check_unneeded(conn: Connection, row: RoutersRow, subnet: SubnetsRow) -> None:
    """Check that no floating address and no route uses the subnet."""
    ports = {floating['port_id'] for floating in db.floating_through(conn, row['id'])}
    ports |= {each['internal_port_id'] for each in db.forwardings(
        conn, [floating['id'] for floating in db.floating_through(conn, row['id'])])}
    for held in db_networks.addresses_of(conn, [port for port in ports if port is not None]).values():
        if any(entry['subnet_id'] == subnet['id'] for entry in held):
            raise faults.RouterInterfaceInUse(subnet_id=subnet['id'], router_id=row['id'], by='a floating IP.')
    cidr = ipaddress.ip_network(subnet['cidr'])
    if any(ipaddress.ip_address(route['nexthop']) in cidr for route in row['routes']):
        raise faults.RouterInterfaceInUse(subnet_id=subnet['id'], router_id=row['id'], by='a route.')


# ---- routes -----------------------------------------------------------------------

def add_routes(conn: Connection, deps: Deps, context: RequestContext, row: RoutersRow, body: JsonObject) -> None:
    return _change_routes(conn, row, body, lambda routes, given: [
        *routes, *(route for route in given if route not in routes)])


def remove_routes(conn: Connection, deps: Deps, context: RequestContext, row: RoutersRow, body: JsonObject) -> None:
    return _change_routes(conn, row, body, lambda routes, given: [route for route in routes if route not in given])


def _change_routes(conn: Connection, row: RoutersRow, body: JsonObject,
                   change: Callable[[Routes, Routes], Routes]) -> None:
    row = ROUTERS.locked(conn, row['id'])
    given = body.get('router')
    if not isinstance(given, dict) or given.keys() != {'routes'}:
        raise exception.BadRequest("An object 'router' with only 'routes' is expected.")
    routes = change(row['routes'], _CHECKED_ROUTES('routes', given['routes']))
    _check_routes(conn, row, routes)
    db_networks.update(conn, t.routers, row['id'], {'routes': routes})
    return None


def _check_routes(conn: Connection, row: RoutersRow, routes: Routes) -> None:
    """Check that each next hop is in a connected subnet and is not an address of the router."""
    if len(routes) > MAX_ROUTES:
        raise exception.BadRequest(f'A router has at most {MAX_ROUTES} routes.')
    subnets = db.subnets_on(conn, row['id'])
    if row['external_network_id']:
        subnets += db_networks.many(conn, t.subnets, [row['external_network_id']], 'network_id')
    reachable = [ipaddress.ip_network(subnet['cidr']) for subnet in subnets]
    ports = [port['id'] for port in db_networks.many(conn, t.ports, [row['id']], 'device_id')]
    own = {entry['ip_address'] for held in db_networks.addresses_of(conn, ports).values() for entry in held}
    seen = set()
    for route in routes:
        hop, destination = ipaddress.ip_address(route['nexthop']), ipaddress.ip_network(route['destination'])
        if hop.version != destination.version or not any(hop in each for each in reachable):
            raise exception.BadRequest(f'Invalid format for routes: {hop} is in no subnet of the router.')
        if str(hop) in own:
            raise exception.BadRequest(f'Invalid format for routes: {hop} is the router itself.')
        if (str(destination), str(hop)) in seen:
            raise exception.BadRequest(f'Invalid format for routes: {destination} via {hop} is duplicated.')
        seen.add((str(destination), str(hop)))


def agent_id(host: str) -> str:
    """Return the id under which lists of agents show a host."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, host))


def l3_agents(conn: Connection, deps: Deps, context: RequestContext, row: RoutersRow,
              query: pages.Query) -> JsonDocument:
    """Return the host of the router, if it has one, as a list with one agent."""
    alive = bool(db.active(conn, [row['id']], gateways.DOWN_S))
    return {'agents': pages.select(query, [
        {'id': agent_id(host['host']), 'host': host['host'], 'binary': 'nova-network',
         'agent_type': 'L3 agent', 'alive': alive, 'admin_state_up': host['admin_state_up']}
        for host in db_hosts.every(conn) if host['host'] == row['host']], _L3_AGENT)}


_INTERFACE = Document({name: s.UUID for name in ('id', 'port_id', 'network_id', 'subnet_id')} | {
    'tenant_id': s.TEXT, 'project_id': s.TEXT, 'subnet_ids': s.array(s.UUID)})
_NAMED = closed(**dict.fromkeys(('subnet_id', 'port_id'), s.nullable(s.IDENT)), tenant_id={}, project_id={})
_EXTRA_ROUTES = closed('router', router=closed('routes', routes=_ROUTES))
_L3_AGENT = {'id': s.UUID, 'host': s.TEXT, 'binary': s.TEXT, 'agent_type': s.TEXT, 'alive': s.FLAG,
             'admin_state_up': s.FLAG}

ROUTERS = r.Resource('router', 'routers', t.routers, (
    *r.NAMED, r.ADMIN_STATE,
    r.Field('status', s.one_of('ACTIVE', 'DOWN'), 'status', 'Whether a host forwards its packets.', load=_load_status,
            columns=('id', 'host', 'taken'), where=lambda values: db.with_status(values, gateways.DOWN_S)),
    r.Field('status_reason', s.TEXT_OR_NULL, 'status_reason', 'Reason of the status DOWN.', load=_load_status,
            columns=('id', 'host', 'taken')),
    r.Field('external_gateway_info', s.GATEWAY_OR_NULL, 'gateway', 'External gateway.', load=_load_gateway,
            columns=('id', 'external_network_id', 'enable_snat', 'qos_policy_id'), write=r.BOTH,
            accepts=_GATEWAY, guarded=True, parts=('network_id',), checked=GATEWAY_PARTS),
    r.column('routes', s.ROUTES, 'Static routes.', write='update', accepts=s.nullable(_ROUTES)),
    r.Field('distributed', s.const(False), Constant(False), 'Always false.', rule='get_router:distributed',
            write=r.BOTH, accepts=s.one_of(False, None), default=False),
    r.Field('ha', s.const(False), Constant(False), 'Always false.', rule='get_router:ha', write=r.BOTH,
            accepts=s.one_of(False, None), default=False),
    *r.zones(t.routers),
    r.column('flavor_id', s.UUID_OR_NULL, 'Flavor; it cannot be changed.', write=r.BOTH, accepts=s.nullable(s.IDENT)),
    r.Field('conntrack_helpers', conntrack_helpers.SHOWN, 'conntrack_helpers', 'Conntrack helpers.',
            lists=conntrack_helpers.shown),
), visible=db_networks.own(t.routers), create=create, update=update, delete=delete,
    missing=lambda ident: faults.RouterNotFound(router_id=ident),
    actions=(r.Action('PUT', 'add_router_interface', add_interface, _INTERFACE, _NAMED),
             r.Action('PUT', 'remove_router_interface', remove_interface, _INTERFACE, _NAMED),
             r.Action('PUT', 'add_extraroutes', add_routes, None, _EXTRA_ROUTES),
             r.Action('PUT', 'remove_extraroutes', remove_routes, None, _EXTRA_ROUTES),
             *conntrack_helpers.HELPERS.actions(),
             r.Action('GET', 'l3-agents', l3_agents, Document({'agents': s.array(s.shape(**_L3_AGENT))}),
                      query=pages.parameters(_L3_AGENT, narrowed=False))))
