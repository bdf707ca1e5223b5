"""Trunks: a port whose device carries further ports, the subports, in VLANs.

The guest's device sends and receives the frames of a subport with the subport's VLAN id. A trunk can be created or
deleted only while its parent port has no device, because the host connects a parent port differently
from other ports.
"""
from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db_ports
from nova.db.networks import trunks as db
from nova.db.tables import network as t
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.network.rest import faults
from nova.network.rest import guarantees
from nova.network.rest import pages
from nova.network.rest import quotas
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import Schema

if TYPE_CHECKING:
    from nova.db.tables.rows import PortsRow, TrunksRow, TrunkSubportsRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import TrunkSubPorts
    from nova.network.rest.values import TrunkValues

INHERIT = 'inherit'             # value of segmentation_type: the subport gets the VLAN id of its network
MAX_SUBPORTS = 200              # maximum subports of a trunk: each subport needs two network devices on the host


def create(conn: Connection, deps: Deps, context: RequestContext, values: TrunkValues) -> str:
    _check_subports(values['sub_ports'] or [])
    project = r.new_owner(context, values)
    quotas.check(conn, deps.conf, 'trunk', project)
    parent = _locked(conn, context, [values['port_id']])[values['port_id']]
    _check_no_subport(conn, [parent['id']])
    if parent['device_id'] or parent['host'] or db.of_ports(conn, [parent['id']]):
        raise faults.ParentPortInUse(port_id=parent['id'])
    ident = str(uuid.uuid4())
    db_networks.insert(conn, t.trunks, [{
        **TRUNKS.stored(values), 'id': ident, 'project_id': project}])
    _add(conn, context, ident, parent, values['sub_ports'] or [])
    return ident


def delete(conn: Connection, deps: Deps, context: RequestContext, row: TrunksRow) -> None:
    row, parent = _lock(conn, row)
    if parent['device_id'] or parent['host']:
        raise faults.TrunkInUse(trunk_id=row['id'])
    db.end(conn, [row['port_id']])


def add_subports(conn: Connection, deps: Deps, context: RequestContext, row: TrunksRow,
                 body: JsonObject) -> JsonDocument:
    wanted = _body_subports(body)
    _check_subports(wanted)
    row, parent = _lock(conn, row)
    _add(conn, context, row['id'], parent, wanted)
    return _shown(conn, context, row)


def remove_subports(conn: Connection, deps: Deps, context: RequestContext, row: TrunksRow,
                    body: JsonObject) -> JsonDocument:
    wanted = _body_subports(body)
    row, _parent = _lock(conn, row)
    known = {each.port_id: each for each in db.subports(conn, [row['id']])[row['id']]}
    for each in wanted:
        there = known.get(each['port_id'])
        if there is None or any(value not in (None, getattr(there, name)) for name, value in each.items()):
            raise faults.SubPortNotFound(trunk_id=row['id'], port_id=each['port_id'])
    idents = sorted({each['port_id'] for each in wanted})
    db_ports.lock_many(conn, idents)
    db.remove(conn, idents)
    return _shown(conn, context, row)


def get_subports(conn: Connection, deps: Deps, context: RequestContext, row: TrunksRow,
                 query: pages.Query) -> JsonDocument:
    ports = _documents(db.subports(conn, [row['id']])[row['id']])
    return {'sub_ports': pages.select(query, ports, _SHOWN, key='port_id')}


def _shown(conn: Connection, context: RequestContext, row: TrunksRow) -> JsonDocument:
    """Increment the trunk's revision. Return the trunk without the enclosing ``trunk`` key.

    The Networking API specifies this form for operations on subports.
    """
    db_networks.update(conn, t.trunks, row['id'], {})
    return TRUNKS.documents(conn, context, [TRUNKS.get(conn, row['id'])])[0]


def _body_subports(body: JsonObject) -> list[TrunkSubPorts]:
    if body.keys() != {'sub_ports'}:
        raise exception.BadRequest("A body with only 'sub_ports', a list of subports, is expected.")
    wanted: list[TrunkSubPorts] = _SUBPORTS('sub_ports', body['sub_ports'])
    return wanted


# ---- checks ----------------------------------------------------------------------

def _check_subports(wanted: Sequence[Mapping[str, Any]]) -> None:
    """Check the subports of a request as far as possible without the database.

    :raises InvalidInput:
    """
    for each in wanted:
        kind, number = each.get('segmentation_type'), each.get('segmentation_id')
        if kind is None or (number is None) != (kind == INHERIT):
            raise exception.InvalidInput(reason='sub_ports: a subport needs segmentation_type vlan with a '
                                                'segmentation_id, or segmentation_type inherit without one.')
    for name in ('port_id', 'segmentation_id'):
        values = [each[name] for each in wanted if each.get(name) is not None]
        if len(set(values)) < len(values):
            raise exception.InvalidInput(reason=f'sub_ports: two subports have the same {name}.')


def _lock(conn: Connection, row: TrunksRow) -> tuple[TrunksRow, PortsRow]:
    """Return the trunk and its parent port, locked until the transaction ends.

    :raises TrunkDisabled: the trunk is administratively down
    """
    row = TRUNKS.locked(conn, row['id'])
    if not row['admin_state_up']:
        raise faults.TrunkDisabled(trunk_id=row['id'])
    parent = db_ports.lock_many(conn, [row['port_id']]).get(row['port_id'])
    return row, r.found(parent, exception.PortNotFound(port_id=row['port_id']))


def _locked(conn: Connection, context: RequestContext, idents: Sequence[str]) -> dict[str, PortsRow]:
    """Return {id: port} of the caller's ports, locked until the transaction ends.

    :raises PortNotFound: there is no such port, or it belongs to another project
    """
    rows = db_ports.lock_many(conn, sorted(set(idents)))
    for ident in idents:
        if ident not in rows or not r.is_owner(context, rows[ident]):
            raise exception.PortNotFound(port_id=ident)
    return rows


def _check_no_subport(conn: Connection, idents: Collection[str]) -> None:
    for ident, row in db.of_subports(conn, idents).items():
        raise faults.TrunkPortInUse(port_id=ident, trunk_id=row['trunk_id'])


def _add(conn: Connection, context: RequestContext, trunk_id: str, parent: PortsRow,
         wanted: list[TrunkSubPorts]) -> None:
    """Add subports to a trunk.

    :param parent: its locked parent port
    :raises PortNotFound, ParentPortInUse, TrunkPortInUse, PortInUse, DuplicateSubPort, TooManySubports, InvalidInput,
        SubPortMtuGreaterThanTrunkPortMtu:
    """
    idents = [each['port_id'] for each in wanted]
    if parent['id'] in idents:
        raise faults.ParentPortInUse(port_id=parent['id'])
    ports = _locked(conn, context, idents)
    _check_no_subport(conn, idents)
    for ident in db.of_ports(conn, idents):
        raise faults.ParentPortInUse(port_id=ident)
    for ident, port in ports.items():
        if port['device_id'] or port['device_owner'] or port['host']:
            raise exception.PortInUse(port_id=ident)
    for ident, port in ports.items():
        guarantees.refuse(conn, port['qos_policy_id'], f'subport {ident}')
    networks = {row['id']: row for row in db_networks.many(
        conn, t.networks, {port['network_id'] for port in [parent, *ports.values()]})}
    for port in ports.values():
        if networks[port['network_id']]['mtu'] > networks[parent['network_id']]['mtu']:
            raise faults.SubPortMtuGreaterThanTrunkPortMtu(
                port_id=port['id'], port_mtu=networks[port['network_id']]['mtu'], trunk_id=parent['id'],
                trunk_mtu=networks[parent['network_id']]['mtu'])
    vlans = db_networks.vlans_of(conn, networks)
    rows = [_row(trunk_id, each, vlans.get(ports[each['port_id']]['network_id'])) for each in wanted]
    numbers = [row['segmentation_id'] for row in rows]
    known = {each.segmentation_id for each in db.subports(conn, [trunk_id])[trunk_id]}
    for number in numbers:
        if number in known or numbers.count(number) > 1:
            raise faults.DuplicateSubPort(segmentation_type=db.VLAN, segmentation_id=number, trunk_id=trunk_id)
    if len(known) + len(rows) > MAX_SUBPORTS:
        raise faults.TooManySubports(limit=MAX_SUBPORTS, trunk_id=trunk_id)
    db.add(conn, trunk_id, parent['id'], rows)


def _row(trunk_id: str, wanted: TrunkSubPorts, of_network: int | None) -> TrunkSubportsRow:
    """Return the row of a subport.

    :param of_network: VLAN id of its network; None: the network is not of type vlan
    """
    number = of_network if wanted['segmentation_type'] == INHERIT else wanted['segmentation_id']
    if number is None:
        raise exception.InvalidInput(reason=f"sub_ports: port {wanted['port_id']} cannot inherit a VLAN id: its "
                                            'network is not of type vlan.')
    return {'port_id': wanted['port_id'], 'trunk_id': trunk_id, 'segmentation_type': db.VLAN, 'segmentation_id': number}


# ---- documents -------------------------------------------------------------------

def _documents(subports: Sequence[db.Details], with_mac: bool = False) -> list[JsonObject]:
    names = ('port_id', 'segmentation_type', 'segmentation_id', *(['mac_address'] if with_mac else []))
    return [{name: getattr(each, name) for name in names} for each in subports]


def _subports(conn: Connection, idents: list[str]) -> dict[str, list[JsonObject]]:
    return {ident: _documents(subports) for ident, subports in db.subports(conn, idents).items()}


def _load_status(conn: Connection, _context: RequestContext, rows: list[dict[str, Any]]) -> None:
    parents = db_ports.of_ids(conn, {row['port_id'] for row in rows})
    for row in rows:
        row['status'] = parents[row['port_id']]['status'] if row['port_id'] in parents else 'DOWN'


def load_details(conn: Connection, _context: RequestContext, rows: list[dict[str, Any]]) -> None:
    """Add ``trunk_details`` to rows of ports: None for ports that are not the parent of a trunk."""
    trunks = db.of_ports(conn, [row['id'] for row in rows])
    known = db.subports(conn, [trunk['id'] for trunk in trunks.values()])
    for row in rows:
        trunk = trunks.get(row['id'])
        row['trunk_details'] = trunk and {
            'trunk_id': trunk['id'], 'sub_ports': _documents(known[trunk['id']], with_mac=True)}


def _server_view(conn: Connection, row: TrunksRow) -> tuple[str, Any]:
    """Return (parent port id, subports). The metadata of the server with the parent port shows the subports."""
    return row['port_id'], tuple(db.subports(conn, [row['id']])[row['id']])


class _Trunk(Document):
    """Response with a trunk without the enclosing ``trunk`` key."""

    def __init__(self) -> None:
        super().__init__({})

    def schema(self, version: int) -> Schema:
        return TRUNKS.view('show').schema(version)


_TYPE, _VLAN_ID = s.nullable({**s.text(), **s.one_of(db.VLAN, INHERIT, None)}), s.nullable(s.integer(1, 4094))
_NEW = s.record('port_id', port_id=s.IDENT, segmentation_type=_TYPE, segmentation_id=_VLAN_ID)
_SUBPORTS = s.TypeValidator(s.items(_NEW))
_SHOWN = {'port_id': s.UUID, 'segmentation_type': s.const(db.VLAN), 'segmentation_id': s.NUMBER}
_SUBPORT = s.shape(**_SHOWN)
DETAILS: Schema = {**s.shape(trunk_id=s.UUID, sub_ports=s.array(s.shape(**_SHOWN, mac_address=s.TEXT))),
                   'type': ['object', 'null']}
_BODY = closed('sub_ports', sub_ports=s.items(_NEW))

TRUNKS = r.Resource('trunk', 'trunks', t.trunks, (
    *r.NAMED,
    r.column('port_id', s.UUID, 'Parent port.', write='create', accepts=s.IDENT, required=True),
    r.column('admin_state_up', s.FLAG, 'Whether the trunk can be deleted and its subports can change.', write=r.BOTH,
             accepts=s.BOOLEAN, default=True),
    r.Field('status', s.one_of('ACTIVE', 'DOWN'), 'status', 'ACTIVE: the parent port has a device.', load=_load_status,
            columns=('port_id',), where=db.with_status),
    r.Field('sub_ports', s.array(_SUBPORT), 'sub_ports', 'Subports.', lists=_subports, listed=False, write='create',
            accepts=s.nullable(s.items(_NEW))),
), visible=db_networks.own(t.trunks), create=create, delete=delete, server_view=_server_view,
    missing=lambda ident: faults.TrunkNotFound(trunk_id=ident),
    actions=(r.Action('GET', 'get_subports', get_subports, Document({'sub_ports': s.array(_SUBPORT)}),
                      query=pages.parameters(_SHOWN, narrowed=False)),
             r.Action('PUT', 'add_subports', add_subports, _Trunk(), _BODY),
             r.Action('PUT', 'remove_subports', remove_subports, _Trunk(), _BODY)))
