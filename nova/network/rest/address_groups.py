"""Address groups: named lists of address ranges. Rules of security groups refer to them.

Hosts get a separate rule for each range.
"""
from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import address_groups as db
from nova.db.networks import networks as db_networks
from nova.db.projects import quotas as db_quotas
from nova.db.tables import network as t
from nova.json_types import JsonObject
from nova.network.rest import faults
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.web.resource import closed

if TYPE_CHECKING:
    from nova.db.tables.rows import AddressGroupsRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import AddressGroupValues

MAX_GROUPS = 1000               # maximum groups of a project, because the Networking API has no quota for them
MAX_ADDRESSES = 256             # maximum ranges of a group, because hosts have a rule for each range
_ADDRESSES = s.items(s.NETWORK, MAX_ADDRESSES)
_CHECKED = s.TypeValidator(_ADDRESSES)


def create(conn: Connection, deps: Deps, context: RequestContext, values: AddressGroupValues) -> str:
    project = r.new_owner(context, values)
    db_quotas.lock(conn, project)
    if db_networks.count(conn, t.address_groups, project) >= MAX_GROUPS:
        raise faults.OverQuota(resource='address_group')
    ident = str(uuid.uuid4())
    db_networks.insert(conn, t.address_groups, [{
        'id': ident, 'project_id': project, 'name': values['name'], 'description': values['description'],
        'addresses': [*dict.fromkeys(values['addresses'])]}])
    return ident


def delete(conn: Connection, deps: Deps, context: RequestContext, row: AddressGroupsRow) -> None:
    GROUPS.locked(conn, row['id'])
    if db.in_use(conn, row['id']):
        raise faults.AddressGroupInUse(address_group_id=row['id'])
    db_networks.end_shares(conn, row['id'])
    db_networks.delete(conn, t.address_groups, row['id'])


def add(conn: Connection, deps: Deps, context: RequestContext, row: AddressGroupsRow, body: JsonObject) -> None:
    row, given = GROUPS.locked(conn, row['id']), _CHECKED('addresses', body.get('addresses'))
    addresses = [*dict.fromkeys([*row['addresses'], *given])]
    if len(addresses) > MAX_ADDRESSES:
        raise exception.BadRequest(f'An address group has at most {MAX_ADDRESSES} ranges.')
    db_networks.update(conn, t.address_groups, row['id'], {'addresses': addresses})


def remove(conn: Connection, deps: Deps, context: RequestContext, row: AddressGroupsRow, body: JsonObject) -> None:
    row, given = GROUPS.locked(conn, row['id']), _CHECKED('addresses', body.get('addresses'))
    missing = [each for each in given if each not in row['addresses']]
    if missing:
        raise faults.AddressesNotFound(addresses=', '.join(missing[:10]), address_group_id=row['id'])
    db_networks.update(conn, t.address_groups, row['id'], {
        'addresses': [each for each in row['addresses'] if each not in given]})


def chosen(conn: Connection, context: RequestContext, ident: str) -> str:
    """Lock an address group for a new rule and return its id; raises AddressGroupNotFound (not visible)."""
    row = db_networks.lock(conn, t.address_groups, ident)  # until the commit, the group's sharing cannot change
    if row is None or db_networks.seen(conn, t.address_groups, db.visible(context), ident) is None:
        raise faults.AddressGroupNotFound(address_group_id=ident)
    return row['id']


_BODY = closed('addresses', addresses=_ADDRESSES)
GROUPS = r.Resource('address_group', 'address_groups', t.address_groups, (
    r.IDENT, *r.OWNER, r.NAME, r.DESCRIPTION,
    r.column('addresses', s.TEXTS, 'Ranges.', write='create', accepts=_ADDRESSES, default=(), listed=False),
    r.Field('shared', s.FLAG, 'is_shared', "Whether the group is shared with the caller's project.", load=r.load_shared,
            listed=False),
), visible=db.visible, create=create, delete=delete,
    missing=lambda ident: faults.AddressGroupNotFound(address_group_id=ident),
    actions=(r.Action('PUT', 'add_addresses', add, None, _BODY),
             r.Action('PUT', 'remove_addresses', remove, None, _BODY)))
