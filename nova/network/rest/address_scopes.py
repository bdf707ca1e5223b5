"""Address scopes: the subnet pools of a scope do not overlap.

Routers connect networks of one scope without address translation, and do not connect networks of different scopes.
"""
from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TYPE_CHECKING

from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import address_scopes as db
from nova.db.networks import networks as db_networks
from nova.db.projects import quotas as db_quotas
from nova.db.tables import network as t
from nova.network import ranges
from nova.network.rest import faults
from nova.network.rest import rows as r
from nova.network.rest import schemas as s

if TYPE_CHECKING:
    from nova.db.tables.rows import AddressScopesRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import AddressScopeValues

MAX_SCOPES = 1000               # maximum scopes of a project, because the Networking API has no quota for them


def create(conn: Connection, deps: Deps, context: RequestContext, values: AddressScopeValues) -> str:
    project = r.new_owner(context, values)
    db_quotas.lock(conn, project)
    if db_networks.count(conn, t.address_scopes, project) >= MAX_SCOPES:
        raise faults.OverQuota(resource='address_scope')
    row: dict[str, Any] = {
        'id': str(uuid.uuid4()), 'project_id': project, 'name': values['name'], 'shared': values['shared'],
        'ip_version': values['ip_version'], 'description': ''}
    db_networks.insert(conn, t.address_scopes, [row])
    return row['id']


def update(conn: Connection, deps: Deps, context: RequestContext, row: AddressScopesRow,
           values: AddressScopeValues) -> None:
    row = SCOPES.locked(conn, row['id'])
    if row['shared'] and values.get('shared') is False:
        raise faults.AddressScopeUpdateError(address_scope_id=row['id'], reason='a shared scope cannot be unshared.')
    db_networks.update(conn, t.address_scopes, row['id'], SCOPES.stored(values))


def delete(conn: Connection, deps: Deps, context: RequestContext, row: AddressScopesRow) -> None:
    SCOPES.locked(conn, row['id'])
    if db.pools(conn, row['id']):
        raise faults.AddressScopeInUse(address_scope_id=row['id'])
    db_networks.end_shares(conn, row['id'])
    db_networks.delete(conn, t.address_scopes, row['id'])


def check_pool(conn: Connection, context: RequestContext, ident: str, pool: Mapping[str, Any]) -> None:
    """Check that a subnet pool may join a scope. The scope stays locked until the transaction ends.

    :param pool: row of the pool with its new values
    :raises AddressScopeNotFound, IllegalSubnetPoolAssociationToAddressScope, AddressScopePrefixConflict:
    """
    scope = r.found(db.locked(conn, context, ident), SCOPES.missing(ident))
    reason = None
    if scope['ip_version'] != pool['ip_version']:
        reason = f"the scope is for IPv{scope['ip_version']}."
    elif pool['shared'] and not scope['shared']:
        reason = 'a shared pool needs a shared scope.'
    if reason:
        raise faults.IllegalSubnetPoolAssociationToAddressScope(
            subnetpool_id=pool['id'], address_scope_id=ident, reason=reason)
    check_prefixes(conn, ident, pool['id'], [ipaddress.ip_network(each) for each in pool['prefixes']])


def check_prefixes(conn: Connection, ident: str, pool_id: str, prefixes: Iterable[ranges.Cidr]) -> None:
    """Check that no other pool of a scope overlaps these prefixes.

    :raises AddressScopePrefixConflict:
    """
    db_networks.lock(conn, t.address_scopes, ident)
    taken = [ipaddress.ip_network(each) for pool in db.pools(conn, ident) if pool['id'] != pool_id
             for each in pool['prefixes']]
    for prefix in prefixes:
        if any(prefix.overlaps(other) for other in taken):
            raise faults.AddressScopePrefixConflict(prefix=prefix, address_scope_id=ident)


SCOPES = r.Resource('address_scope', 'address_scopes', t.address_scopes, (
    r.IDENT, *r.OWNER, r.NAME,
    r.column('ip_version', s.NUMBER, 'IP version.', write='create', accepts=s.OPTION_VERSION, required=True),
    r.SHARED,
), visible=db.visible, create=create, update=update, delete=delete,
    missing=lambda ident: faults.AddressScopeNotFound(address_scope_id=ident))
