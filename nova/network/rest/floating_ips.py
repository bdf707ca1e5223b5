"""Floating addresses and port forwarding."""
from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import listing
from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db_ports
from nova.db.networks import routers as db
from nova.db.tables import network as t
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.network import ipam
from nova.network.rest import attributes as a
from nova.network.rest import faults
from nova.network.rest import quotas
from nova.network.rest import resource
from nova.network.rest import routers

if TYPE_CHECKING:
    from nova.db.tables.rows import FloatingIpsRow, PortForwardingsRow, PortsRow
    from nova.network.rest.request import Deps

MAX_FORWARDINGS = 256          # maximum of one address: each is a rule that its router evaluates
CONSTANTS = {'dns_domain': '', 'dns_name': '', 'qos_policy_id': None, 'qos_network_policy_id': None}


def views(conn: Connection, context: RequestContext, rows: list[FloatingIpsRow]) -> list[resource.View]:
    forwarded: dict[str, list[dict[str, Any]]] = {}
    for row in db.forwardings(conn, [row['id'] for row in rows]):
        forwarded.setdefault(row['floating_ip_id'], []).append(forwarding_view(row))
    ports = db_ports.seen(conn, context, {row['port_id'] for row in rows if row['port_id']})
    return [{**resource.times(row), **CONSTANTS, 'status': row['status'],
             **resource.columns(row, ('floating_network_id', 'floating_ip_address', 'fixed_ip_address', 'router_id')),
             'port_id': row['port_id'] if row['port_id'] in ports else None,
             'port_forwardings': forwarded.get(row['id'], []),
             'port_details': _details(ports.get(row['port_id'] or ''))} for row in rows]


def _details(port: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if port is None else resource.columns(port, (
        'name', 'network_id', 'mac_address', 'admin_state_up', 'status', 'device_id', 'device_owner'))


def create(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    project = a.owner(context, values)
    quotas.check(conn, deps.conf, 'floatingip', project)
    network, subnets = routers.external(conn, context, values['floating_network_id'])
    ident, wanted = str(uuid.uuid4()), {name: values[key] for name, key in (
        ('subnet_id', 'subnet_id'), ('ip_address', 'floating_ip_address')) if values[key]}
    if 'ip_address' in wanted and not resource.owner(context, network):
        raise exception.PolicyDenied(rule='create_floatingip:floating_ip_address')
    port = routers.service_port(network, db_ports.FLOATING, ident)
    given = ipam.claim(conn, network['id'], subnets, port['id'], [wanted] if wanted else [],
                       ipam.quarantine_cutoff(deps.conf.network.dhcp_lease_time), owner=db_ports.FLOATING)
    db_networks.insert(conn, t.ports, [port])
    row: dict[str, Any] = {'id': ident, 'project_id': project, 'description': values['description'] or '',
           'floating_network_id': network['id'], 'floating_ip_address': given[0]['ip_address'],
           'floating_port_id': port['id'], 'port_id': None, 'fixed_ip_address': None, 'router_id': None,
           'status': 'DOWN'}
    db_networks.insert(conn, t.floating_ips, [row])
    if values['port_id']:
        _associate(conn, context, row, values['port_id'], values['fixed_ip_address'])
    elif values['fixed_ip_address']:
        raise exception.BadRequest('fixed_ip_address needs the port_id of its port.')
    return ident


def _locked(conn: Connection, row: FloatingIpsRow) -> FloatingIpsRow:
    return resource.found(db_networks.lock(conn, t.floating_ips, row['id']),
                          faults.FloatingIPNotFound(floatingip_id=row['id']))


def update(conn: Connection, deps: Deps, context: RequestContext, row: FloatingIpsRow, values: dict[str, Any]) -> None:
    row = _locked(conn, row)
    if values.get('description') is not None:
        db_networks.update(conn, t.floating_ips, row['id'], {'description': values['description']})
    if 'port_id' in values:
        if values['port_id']:
            _associate(conn, context, row, values['port_id'], values.get('fixed_ip_address'))
        else:
            db_networks.update(conn, t.floating_ips, row['id'], {
                'port_id': None, 'fixed_ip_address': None, 'router_id': None, 'status': 'DOWN'})
    elif values.get('fixed_ip_address'):
        raise exception.BadRequest('fixed_ip_address needs the port_id of its port.')


def delete(conn: Connection, deps: Deps, context: RequestContext, row: FloatingIpsRow) -> None:
    db_networks.lock(conn, t.floating_ips, row['id'])
    db.remove_floating(conn, row['id'])
    db_ports.remove(conn, [row['floating_port_id']])


def _associate(conn: Connection, context: RequestContext, row: Mapping[str, Any], port_id: str,
               address: str | None) -> None:
    """Associate the floating address with a fixed address of a port."""
    if db.forwardings(conn, [row['id']]):
        raise faults.FloatingIpInUse(floatingip_id=row['id'], by='it has port forwardings.')
    port, entry = _fixed(conn, context, port_id, address)
    router = _router(conn, row, port_id, entry)
    held = db_networks.many(conn, t.floating_ips, [port['id']], 'port_id')
    if any(each['fixed_ip_address'] == entry['ip_address'] and each['id'] != row['id'] for each in held):
        raise faults.FloatingIPPortAlreadyAssociated(address=entry['ip_address'], port_id=port_id)
    db_networks.update(conn, t.floating_ips, row['id'], {
        'port_id': port['id'], 'fixed_ip_address': entry['ip_address'], 'router_id': router, 'status': 'ACTIVE'})


def _fixed(conn: Connection, context: RequestContext, port_id: str,
           address: str | None) -> tuple[PortsRow, dict[str, str]]:
    """Return (port, {'subnet_id', 'ip_address'}) of the caller's port for a floating address."""
    port = db_networks.lock(conn, t.ports, port_id)
    if port is None or not resource.owner(context, port) or not db_ports.seen(conn, context, [port_id]):
        raise exception.PortNotFound(port_id=port_id)
    fixed = [entry for entry in db_networks.addresses_of(conn, [port_id]).get(port_id, ())
             if '.' in entry['ip_address'] and address in (None, entry['ip_address'])]
    if len(fixed) != 1:
        raise exception.BadRequest(f'Port {port_id} has no such address.' if address or not fixed else
                                   f'Port {port_id} has several addresses: name one as fixed_ip_address.')
    return port, fixed[0]


def _router(conn: Connection, row: Mapping[str, Any], port_id: str, entry: dict[str, Any]) -> str:
    router = db.towards(conn, entry['subnet_id'], row['floating_network_id'], row['project_id'])
    if router is None:
        raise faults.ExternalGatewayForFloatingIPNotFound(
            subnet_id=entry['subnet_id'], port_id=port_id, network_id=row['floating_network_id'])
    return router


# ---- port forwarding ----------------------------------------------------------------

_FORWARDING = {
    'protocol': a.Attribute(a.one_of('tcp', 'udp'), a.REQUIRED),
    'external_port': a.Attribute(a.integer(1, 65535), a.REQUIRED),
    'internal_port': a.Attribute(a.integer(1, 65535), a.REQUIRED),
    'internal_port_id': a.Attribute(a.ident, a.REQUIRED),
    'internal_ip_address': a.Attribute(a.maybe(a.address)),
    'description': a.DESCRIBED['description'],
}


def forwarding_view(row: Mapping[str, Any]) -> resource.View:
    return resource.columns(row, ('id', *_FORWARDING))


def list_forwardings(conn: Connection, deps: Deps, context: RequestContext, row: FloatingIpsRow,
                     body: None) -> JsonDocument:
    return {'port_forwardings': [forwarding_view(each) for each in db.forwardings(conn, [row['id']])]}


def show_forwarding(conn: Connection, deps: Deps, context: RequestContext, row: FloatingIpsRow, body: None,
                    part: str) -> JsonDocument:
    return {'port_forwarding': forwarding_view(_forwarding(conn, row, part))}


def _forwarding(conn: Connection, row: FloatingIpsRow, ident: str) -> PortForwardingsRow:
    found = [each for each in db.forwardings(conn, [row['id']]) if each['id'] == ident]
    if not found:
        raise faults.PortForwardingNotFound(id=ident)
    return found[0]


def create_forwarding(conn: Connection, deps: Deps, context: RequestContext, row: FloatingIpsRow,
                      body: JsonObject) -> JsonDocument:
    values = a.parse(_FORWARDING, context, a.below(body, 'port_forwarding'), creating=True)
    row = _locked(conn, row)
    if row['port_id']:
        raise faults.FloatingIpInUse(floatingip_id=row['id'], by='it is associated with a port.')
    made = {**_resolved(conn, context, row, values), 'id': str(uuid.uuid4()), 'project_id': row['project_id'],
            'floating_ip_id': row['id'], 'description': values['description'] or ''}
    _check_single(conn, row, made)
    if len(db.forwardings(conn, [row['id']])) >= MAX_FORWARDINGS:
        raise exception.BadRequest(f'A floating IP has at most {MAX_FORWARDINGS} port forwardings.')
    db_networks.insert(conn, t.port_forwardings, [made])
    return {'port_forwarding': forwarding_view(made)}


def update_forwarding(conn: Connection, deps: Deps, context: RequestContext, row: FloatingIpsRow, body: JsonObject,
                      part: str) -> JsonDocument:
    row = _locked(conn, row)
    known = _forwarding(conn, row, part)
    given = a.different(_FORWARDING, known, a.below(body, 'port_forwarding'))
    values = a.parse(_FORWARDING, context, given, creating=False)
    if not values:
        return {'port_forwarding': forwarding_view(known)}
    fresh = {**known, **values}
    if 'internal_port_id' in values and 'internal_ip_address' not in values:
        fresh['internal_ip_address'] = None
    changed = {**_resolved(conn, context, row, fresh), 'description': fresh['description'] or ''}
    _check_single(conn, row, {**known, **changed})
    db_networks.update(conn, t.port_forwardings, part, changed)
    return {'port_forwarding': forwarding_view({**known, **changed})}


def delete_forwarding(conn: Connection, deps: Deps, context: RequestContext, row: FloatingIpsRow, body: None,
                      part: str) -> None:
    row = _locked(conn, row)
    db_networks.delete(conn, t.port_forwardings, _forwarding(conn, row, part)['id'])
    if not db.forwardings(conn, [row['id']]):
        db_networks.update(conn, t.floating_ips, row['id'], {'router_id': None, 'status': 'DOWN'})


def _resolved(conn: Connection, context: RequestContext, row: FloatingIpsRow, values: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a port forwarding, and place the floating address on the router of the port."""
    _port, entry = _fixed(conn, context, values['internal_port_id'], values['internal_ip_address'])
    router = _router(conn, row, values['internal_port_id'], entry)
    if row['router_id'] not in (None, router):
        raise exception.BadRequest('All port forwardings of a floating IP must use the same router.')
    db_networks.update(conn, t.floating_ips, row['id'], {'router_id': router, 'status': 'ACTIVE'})
    return {'internal_ip_address': entry['ip_address'],
            **{name: values[name] for name in ('protocol', 'external_port', 'internal_port', 'internal_port_id')}}


def _check_single(conn: Connection, row: Mapping[str, Any], made: Mapping[str, Any]) -> None:
    for each in db.forwardings(conn, [row['id']]):
        if each['id'] != made['id'] and (each['protocol'], each['external_port']) == (
                made['protocol'], made['external_port']):
            raise exception.BadRequest(f"Port {made['external_port']} of {made['protocol']} is already forwarded.")


_C = t.floating_ips.c

FLOATING_IPS = resource.Resource(
    singular='floatingip', plural='floatingips', table=t.floating_ips,
    attributes={
        'description': a.DESCRIBED['description'], 'tenant_id': a.DESCRIBED['tenant_id'],
        'project_id': a.DESCRIBED['project_id'],
        'floating_network_id': a.Attribute(a.ident, a.REQUIRED, put=False),
        'floating_ip_address': a.Attribute(a.maybe(a.address), put=False),
        'subnet_id': a.Attribute(a.maybe(a.ident), put=False),
        'port_id': a.Attribute(a.maybe(a.ident)),
        'fixed_ip_address': a.Attribute(a.maybe(a.address)),
        'qos_policy_id': a.Attribute(a.refused('QoS policies apply to ports and networks only: limit the port.')),
        'dns_name': a.Attribute(a.one_of(''), '', put=False),
        'dns_domain': a.Attribute(a.one_of(''), '', put=False),
    },
    listing=listing.Listing(t.floating_ips, {
        'id': _C.id, 'project_id': _C.project_id, 'tenant_id': _C.project_id, 'description': _C.description,
        'created_at': _C.created_at, 'status': _C.status, 'port_id': _C.port_id, 'router_id': _C.router_id,
        'floating_network_id': _C.floating_network_id, 'floating_ip_address': _C.floating_ip_address,
        'fixed_ip_address': _C.fixed_ip_address,
    }, CONSTANTS),
    visible=db_networks.own(t.floating_ips), writable=resource.owner, views=views, create=create, update=update,
    server_view=lambda _conn, row: (row['port_id'], row['fixed_ip_address']), delete=delete,
    missing=lambda ident: faults.FloatingIPNotFound(floatingip_id=ident),
    actions=(('GET', 'port_forwardings', list_forwardings), ('POST', 'port_forwardings', create_forwarding),
             ('GET', 'port_forwardings/{part}', show_forwarding), ('PUT', 'port_forwardings/{part}', update_forwarding),
             ('DELETE', 'port_forwardings/{part}', delete_forwarding)))
