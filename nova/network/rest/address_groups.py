"""Address groups: named lists of ranges that rules of security groups refer to.

The hosts get a rule for each range.
"""
from __future__ import annotations

import uuid
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import address_groups as db
from nova.db.networks import networks as db_networks
from nova.db.projects import quotas as db_quotas
from nova.db.tables import network as t
from nova.json_types import JsonObject
from nova.network.rest import faults
from nova.network.rest import schemas as s
from nova.network.rest.rows import Action
from nova.network.rest.rows import DESCRIPTION
from nova.network.rest.rows import Field
from nova.network.rest.rows import found
from nova.network.rest.rows import IDENT
from nova.network.rest.rows import load_shared
from nova.network.rest.rows import NAME
from nova.network.rest.rows import new_owner
from nova.network.rest.rows import OWNER
from nova.network.rest.rows import Resource
from nova.web.resource import closed

if TYPE_CHECKING:
    from nova.db.tables.rows import AddressGroupsRow
    from nova.network.rest.request import Deps

MAX_GROUPS = 1000               # maximum of a project: the reference has no quota
MAX_ADDRESSES = 256             # maximum of a group: a host has a rule for each of them
_ADDRESSES = s.items(s.NETWORK, MAX_ADDRESSES)
_CHECKED = s.TypeValidator(_ADDRESSES)


def create(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    project = new_owner(context, values)
    db_quotas.lock(conn, project)
    if db_networks.count(conn, t.address_groups, project) >= MAX_GROUPS:
        raise faults.OverQuota(resource='address_group')
    row = {'id': str(uuid.uuid4()), 'project_id': project, 'name': values['name'],
           'description': values['description'] or '', 'addresses': [*dict.fromkeys(values['addresses'])]}
    db_networks.insert(conn, t.address_groups, [row])
    return row['id']


def update(conn: Connection, deps: Deps, context: RequestContext, row: AddressGroupsRow,
           values: dict[str, Any]) -> None:
    db_networks.update(conn, t.address_groups, row['id'], GROUPS.stored(values))


def delete(conn: Connection, deps: Deps, context: RequestContext, row: AddressGroupsRow) -> None:
    _locked(conn, row)
    if db.in_use(conn, row['id']):
        raise faults.AddressGroupInUse(address_group_id=row['id'])
    db_networks.end_shares(conn, row['id'])
    db_networks.delete(conn, t.address_groups, row['id'])


def _locked(conn: Connection, row: AddressGroupsRow) -> AddressGroupsRow:
    return found(db_networks.lock(conn, t.address_groups, row['id']),
                 faults.AddressGroupNotFound(address_group_id=row['id']))


def add(conn: Connection, deps: Deps, context: RequestContext, row: AddressGroupsRow, body: JsonObject) -> None:
    row, given = _locked(conn, row), _CHECKED('addresses', body.get('addresses'))
    addresses = [*dict.fromkeys([*row['addresses'], *given])]
    if len(addresses) > MAX_ADDRESSES:
        raise exception.BadRequest(f'An address group has at most {MAX_ADDRESSES} ranges.')
    db_networks.update(conn, t.address_groups, row['id'], {'addresses': addresses})


def remove(conn: Connection, deps: Deps, context: RequestContext, row: AddressGroupsRow, body: JsonObject) -> None:
    row, given = _locked(conn, row), _CHECKED('addresses', body.get('addresses'))
    missing = [each for each in given if each not in row['addresses']]
    if missing:
        raise faults.AddressesNotFound(addresses=', '.join(missing[:10]), address_group_id=row['id'])
    db_networks.update(conn, t.address_groups, row['id'], {
        'addresses': [each for each in row['addresses'] if each not in given]})


def chosen(conn: Connection, context: RequestContext, ident: str) -> str:
    """Lock an address group for a new rule and return its id; raises AddressGroupNotFound (not visible)."""
    row = db_networks.lock(conn, t.address_groups, ident)            # locked before its shares are checked
    if row is None or db_networks.seen(conn, t.address_groups, db.visible(context), ident) is None:
        raise faults.AddressGroupNotFound(address_group_id=ident)
    return row['id']


_BODY = closed('addresses', addresses=_ADDRESSES)
GROUPS = Resource('address_group', 'address_groups', t.address_groups, (
    IDENT, *OWNER, NAME, DESCRIPTION,
    Field('addresses', s.TEXTS, 'addresses', 'Ranges.', write='create', accepts=_ADDRESSES, default=(), listed=False),
    Field('shared', s.FLAG, 'is_shared', 'Whether another project shares it.', load=load_shared, columns=('id',),
          listed=False),
), visible=db.visible, create=create, update=update, delete=delete,
    missing=lambda ident: faults.AddressGroupNotFound(address_group_id=ident),
    actions=(Action('PUT', 'add_addresses', add, None, _BODY), Action('PUT', 'remove_addresses', remove, None, _BODY)))
