"""Floating addresses and port forwarding."""
from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db_ports
from nova.db.networks import routers as db
from nova.db.tables import network as t
from nova.json_types import JsonObject
from nova.network.rest import faults
from nova.network.rest import networks
from nova.network.rest import quotas
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.network.rest.parts import Part
from nova.network.rest.parts import Parts
from nova.network.rest import routers
from nova.web.fields import Constant
from nova.web.resource import Getter
from nova.web.resource import Schema

if TYPE_CHECKING:
    from nova.db.tables.rows import FloatingIpsRow, PortsRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import FloatingipValues

MAX_FORWARDINGS = 256          # maximum forwardings of a floating address: each forwarding is an nft rule
# maximum ports of a forwarding with different external and internal ports: the router has a map entry for each port
MAX_SHIFTED_PORTS = 1024


def _load_port(conn: Connection, context: RequestContext, rows: list[dict[str, Any]]) -> None:
    """Add ``seen_port_id`` and ``port_details`` to each row; both are None if the caller does not see the port."""
    ports = db_ports.seen(conn, context, {row['port_id'] for row in rows if row['port_id']})
    for row in rows:
        port: Mapping[str, Any] | None = ports.get(row['port_id'] or '')
        row['seen_port_id'] = None if port is None else row['port_id']
        row['port_details'] = None if port is None else {name: port[name] for name in _DETAILS}


def _shown_forwardings(conn: Connection, idents: list[str]) -> dict[str, list[JsonObject]]:
    forwarded: dict[str, list[JsonObject]] = {}
    for each in db.forwardings(conn, idents):
        forwarded.setdefault(each['floating_ip_id'], []).append(FORWARDINGS.shown(each))
    return forwarded


def create(conn: Connection, deps: Deps, context: RequestContext, values: FloatingipValues) -> str:
    project = r.new_owner(context, values)
    quotas.check(conn, deps.conf, 'floatingip', project)
    network, subnets = routers.external(conn, context, values['floating_network_id'])
    ident, wanted = str(uuid.uuid4()), {name: value for name, value in (
        ('subnet_id', values['subnet_id']), ('ip_address', values['floating_ip_address'])) if value}
    port_id, given = networks.add_service_port(conn, deps, network, subnets, [wanted] if wanted else [],
                                               db_ports.FLOATING, ident)
    row: dict[str, Any] = {'id': ident, 'project_id': project, 'description': values['description'],
           'floating_network_id': network['id'], 'floating_ip_address': given[0]['ip_address'],
           'floating_port_id': port_id, 'port_id': None, 'fixed_ip_address': None, 'router_id': None,
           'status': 'DOWN'}
    db_networks.insert(conn, t.floating_ips, [row])
    if values['port_id']:
        _associate(conn, context, row, values['port_id'], values['fixed_ip_address'])
    elif values['fixed_ip_address']:
        raise exception.BadRequest('fixed_ip_address needs the port_id of its port.')
    return ident


def update(conn: Connection, deps: Deps, context: RequestContext, row: FloatingIpsRow,
           values: FloatingipValues) -> None:
    row = FLOATING_IPS.locked(conn, row['id'])
    if 'description' in values:
        db_networks.update(conn, t.floating_ips, row['id'], {'description': values['description']})
    if 'port_id' in values:
        if values['port_id']:
            _associate(conn, context, row, values['port_id'], values.get('fixed_ip_address'))
        elif row['port_id']:                             # port forwardings need the router
            db_networks.update(conn, t.floating_ips, row['id'], {
                'port_id': None, 'fixed_ip_address': None, 'router_id': None, 'status': 'DOWN'})
    elif values.get('fixed_ip_address', row['fixed_ip_address']) != row['fixed_ip_address']:
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
    """Lock a port of the caller; return (port, {'subnet_id', 'ip_address'} to associate with a floating address)."""
    port = db_networks.lock(conn, t.ports, port_id)
    if port is None or not r.is_owner(context, port) or not db_ports.seen(conn, context, [port_id]):
        raise exception.PortNotFound(port_id=port_id)
    fixed = [entry for entry in db_networks.addresses_of(conn, [port_id]).get(port_id, ())
             if '.' in entry['ip_address'] and address in (None, entry['ip_address'])]
    if len(fixed) != 1:
        raise exception.BadRequest(f'Port {port_id} has no such address.' if address or not fixed else
                                   f'Port {port_id} has several addresses: name one as fixed_ip_address.')
    return port, fixed[0]


def _router(conn: Connection, row: Mapping[str, Any], port_id: str, entry: dict[str, str]) -> str:
    router = db.towards(conn, entry['subnet_id'], row['floating_network_id'], row['project_id'])
    if router is None:
        raise faults.ExternalGatewayForFloatingIPNotFound(
            subnet_id=entry['subnet_id'], port_id=port_id, network_id=row['floating_network_id'])
    return router


# ---- port forwarding ----------------------------------------------------------------

def _locked(conn: Connection, row: FloatingIpsRow) -> FloatingIpsRow:
    return FLOATING_IPS.locked(conn, row['id'])


def _columns(row: FloatingIpsRow, values: Mapping[str, Any], known: Part | None) -> Part:
    """Return the columns of a new or changed forwarding."""
    if row['port_id']:
        raise faults.FloatingIpInUse(floatingip_id=row['id'], by='it is associated with a port.')
    moved = {'internal_ip_address': None} if 'internal_port_id' in values else {}
    return {'project_id': row['project_id'], **moved, **_with_ports(values, known)}


def _check(conn: Connection, context: RequestContext, row: FloatingIpsRow, part: Part, others: list[Part]) -> Part:
    """Associate the floating address with the router of the port; return the internal address."""
    _port, entry = _fixed(conn, context, part['internal_port_id'], part['internal_ip_address'])
    router = _router(conn, row, part['internal_port_id'], entry)
    if row['router_id'] not in (None, router):
        raise exception.BadRequest('All port forwardings of a floating IP must use the same router.')
    db_networks.update(conn, t.floating_ips, row['id'], {'router_id': router, 'status': 'ACTIVE'})
    for each in others:
        if each['protocol'] == part['protocol'] and (
                each['external_port'] < part['external_port'] + part['ports']
                and part['external_port'] < each['external_port'] + each['ports']):
            raise exception.BadRequest(f"Port {part['external_port']} of {part['protocol']} is already forwarded.")
    if len(others) >= MAX_FORWARDINGS:
        raise exception.BadRequest(f'A floating IP has at most {MAX_FORWARDINGS} port forwardings.')
    return {'internal_ip_address': entry['ip_address']}


def _changed(conn: Connection, row: FloatingIpsRow, part: Part, is_deleted: bool) -> None:
    if is_deleted and not db.forwardings(conn, [row['id']]):
        db_networks.update(conn, t.floating_ips, row['id'], {'router_id': None, 'status': 'DOWN'})


def _with_ports(given: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Replace the port ranges of a request by the columns ``external_port``, ``internal_port`` and ``ports``.

    :param known: the forwarding before an update
    :raises BadRequest: a port and a range are given, or the ranges differ in size
    """
    values, before = dict(given), known or {}
    spans: dict[str, tuple[int, int] | None] = {}
    for side in ('external', 'internal'):
        named = {f'{side}_port', f'{side}_port_range'} & values.keys()
        port, text = values.pop(f'{side}_port', None), values.pop(f'{side}_port_range', None)
        if port is not None and text is not None:
            raise exception.BadRequest(f'Give {side}_port or {side}_port_range, not both.')
        first, _colon, last = str(port if text is None else text).partition(':')
        spans[side] = None if port is None and text is None else (int(first), int(last or first))
        if spans[side] is None and (named or known is None):
            raise exception.BadRequest(f'{side}_port or {side}_port_range is required.')
    for side, span in spans.items():
        begin, end = span or (before[f'{side}_port'], before[f'{side}_port'] + before['ports'] - 1)
        if not 0 < begin <= end <= 65535:
            raise exception.BadRequest(f'{side}_port_range is not a range of ports.')
        values[f'{side}_port'] = begin
        if values.setdefault('ports', end - begin + 1) != end - begin + 1:
            raise exception.BadRequest('The external and the internal port range must have the same size.')
    if values['external_port'] != values['internal_port'] and values['ports'] > MAX_SHIFTED_PORTS:
        raise exception.BadRequest(f'Port ranges that differ can have at most {MAX_SHIFTED_PORTS} ports.')
    return values


def _one_port(name: str) -> Getter:
    """Return the getter of a field that is null if the forwarding has several ports."""
    return lambda row, _context: row[name] if row['ports'] == 1 else None


def _port_range(name: str) -> Getter:
    return lambda row, _context: f'{row[name]}:{row[name] + row["ports"] - 1}'


def _ports(side: str, doc: str) -> tuple[r.Field, r.Field]:
    """Return the fields for a single port and for a range of ports."""
    name = f'{side}_port'
    return (r.Field(name, s.NUMBER_OR_NULL, _one_port(name),
                    f'{doc}; null if the forwarding has a range of several ports.',
                    columns=(name, 'ports'), write=r.BOTH, accepts=s.nullable(_PORT)),
            r.Field(f'{name}_range', s.TEXT, _port_range(name), f'{doc}: first and last port.',
                    columns=(name, 'ports'), write=r.BOTH, accepts=s.nullable(_PORT_RANGE)))


_PORT = s.integer(1, 65535)
_PORT_RANGE: Schema = {'type': 'string', 'pattern': '^[0-9]{1,5}(:[0-9]{1,5})?$',
                         'description': 'a port, or two with a colon'}
FORWARDINGS = Parts('port_forwarding', 'port_forwardings', t.port_forwardings, (
    r.column('id', s.UUID, 'ID.'),
    r.column('protocol', s.one_of('tcp', 'udp'), 'Protocol.', write=r.BOTH, required=True),
    *_ports('external', 'Port of the floating address'),
    *_ports('internal', 'Port of the fixed address'),
    r.column('internal_port_id', s.UUID, 'Network port.', write=r.BOTH, accepts=s.IDENT, required=True),
    r.column('internal_ip_address', s.TEXT, 'Fixed address of the network port.', write=r.BOTH,
             accepts=s.nullable(s.NETWORK_ADDRESS)),
    r.DESCRIPTION,
), of='floating_ip_id', order=('protocol', 'external_port'), lock=_locked, check=_check, changed=_changed,
    columns=_columns, missing=lambda _row, ident: faults.PortForwardingNotFound(id=ident))

_DETAILS = {'name': s.TEXT, 'network_id': s.UUID, 'mac_address': s.TEXT, 'admin_state_up': s.FLAG, 'status': s.TEXT,
            'device_id': s.TEXT, 'device_owner': s.TEXT}
_NO_NAME: dict[str, Any] = {'write': 'create', 'accepts': s.one_of(''), 'default': ''}
FLOATING_IPS = r.Resource('floatingip', 'floatingips', t.floating_ips, (
    *r.COMMON,
    r.column('status', s.one_of('ACTIVE', 'DOWN'), 'ACTIVE: the address is associated with a port.'),
    r.column('floating_network_id', s.UUID, 'External network.', write='create', accepts=s.IDENT, required=True),
    r.column('floating_ip_address', s.TEXT, 'Address.', write='create', accepts=s.nullable(s.NETWORK_ADDRESS),
             guarded=True),
    r.Field('subnet_id', s.TEXT_OR_NULL, None, 'Subnet of the address.', '', write='create',
            accepts=s.nullable(s.IDENT)),
    r.Field('port_id', s.UUID_OR_NULL, 'seen_port_id', 'Network port, if the caller sees it.', column='port_id',
            load=_load_port, columns=('port_id',), write=r.BOTH, accepts=s.nullable(s.IDENT), hidden=True),
    r.column('fixed_ip_address', s.TEXT_OR_NULL, 'Fixed address of the port.', write=r.BOTH,
             accepts=s.nullable(s.NETWORK_ADDRESS)),
    r.column('router_id', s.UUID_OR_NULL, 'Router that translates the address.'),
    r.Field('port_details', {**s.shape(**_DETAILS), 'type': ['object', 'null']}, 'port_details', 'Fields of the port.',
            load=_load_port, columns=('port_id',)),
    r.Field('port_forwardings', [FORWARDINGS.view('show')], 'port_forwardings', 'Port forwardings.',
            lists=_shown_forwardings),
    r.Field('qos_policy_id', s.NULL, Constant(None), 'Always null.', write=r.BOTH,
            accepts=s.refused('QoS policies apply to ports, networks and gateways: limit the port or the gateway.')),
    r.Field('qos_network_policy_id', s.NULL, Constant(None), 'Always null.'),
    r.Field('dns_name', s.const(''), Constant(''), 'Always empty.', **_NO_NAME),
    r.Field('dns_domain', s.const(''), Constant(''), 'Always empty.', **_NO_NAME),
), visible=db_networks.own(t.floating_ips), create=create, update=update, delete=delete,
    server_view=lambda _conn, row: (row['port_id'], row['fixed_ip_address']),
    missing=lambda ident: faults.FloatingIPNotFound(floatingip_id=ident), actions=FORWARDINGS.actions())
