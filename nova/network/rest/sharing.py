"""RBAC policies: share a network, security group, QoS policy, subnet pool or address scope with other projects."""
from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import address_groups as db_address_groups
from nova.db.networks import address_scopes as db_scopes
from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db_ports
from nova.db.networks import qos as db_qos
from nova.db.networks import security_groups as db_groups
from nova.db.networks import subnet_pools as db_pools
from nova.db.tables import network as t
from nova.network.rest import address_groups
from nova.network.rest import address_scopes
from nova.network.rest import faults
from nova.network.rest import groups
from nova.network.rest import networks
from nova.network.rest import qos
from nova.network.rest import quotas
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.network.rest import subnet_pools

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworkSharesRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import RbacPolicyValues


class Kind(NamedTuple):
    """A kind of shared object.

    resource  resource of the objects
    users     function(connection, id) -> projects that use the object; None: policies of objects in use can be removed
    """

    resource: r.Resource[Any]
    users: Callable[[Connection, str], set[str]] | None


def _in_pool(conn: Connection, ident: str) -> set[str]:
    return {project for project, _cidr in db_pools.pieces(conn, ident)}


KINDS = {
    'address_group': Kind(address_groups.GROUPS, db_address_groups.users),
    'address_scope': Kind(address_scopes.SCOPES, db_scopes.users),
    'network': Kind(networks.NETWORKS, None),
    'qos_policy': Kind(qos.POLICIES, db_qos.users),
    'security_group': Kind(groups.GROUPS, db_groups.users),
    'subnetpool': Kind(subnet_pools.POOLS, _in_pool),
}


def create(conn: Connection, deps: Deps, context: RequestContext, values: RbacPolicyValues) -> str:
    project, kind = r.new_owner(context, values), KINDS[values['object_type']]
    shared = db_networks.lock(conn, kind.resource.table, values['object_id'])
    if shared is None or not r.is_owner(context, shared):
        if shared is not None and (shared.get('shared') or db_networks.shared_among(
                conn, [shared['id']], context.project_id)):
            raise exception.InvalidInput(reason='Only administrators can share objects that they do not own.')
        raise kind.resource.missing(values['object_id'])
    quotas.check(conn, deps.conf, 'rbac_policy', project)
    row = {'id': str(uuid.uuid4()), 'project_id': project, 'network_id': shared['id'], 'action': values['action'],
           'object_type': values['object_type'], 'target_project': values['target_tenant'], 'description': ''}
    _check_single(conn, row)
    db_networks.insert(conn, t.shares, [row])
    return row['id']


def _check_single(conn: Connection, row: Mapping[str, Any]) -> None:
    """Check that no other policy shares the object with the same project; raises RbacPolicyExists."""
    for known in db_networks.many(conn, t.shares, [row['network_id']], 'network_id'):
        if known['id'] != row['id'] and all(known[name] == row[name] for name in ('action', 'target_project')):
            raise faults.RbacPolicyExists()


def update(conn: Connection, deps: Deps, context: RequestContext, row: NetworkSharesRow,
           values: RbacPolicyValues) -> None:
    target = values.get('target_tenant')
    if target is None or target == row['target_project']:
        return
    _check_unused(conn, row)
    _check_single(conn, {**row, 'target_project': target})
    db_networks.update(conn, t.shares, row['id'], {'target_project': target})
    _end(conn, row)


def delete(conn: Connection, deps: Deps, context: RequestContext, row: NetworkSharesRow) -> None:
    _check_unused(conn, row)
    db_networks.delete(conn, t.shares, row['id'])
    _end(conn, row)


def _check_unused(conn: Connection, row: NetworkSharesRow) -> None:
    """Check that no project that uses the object needs this policy."""
    kind = KINDS[row['object_type']]
    shared = db_networks.lock(conn, kind.resource.table, row['network_id'])
    if kind.users is None or shared is None or shared.get('shared'):
        return
    others = [known['target_project'] for known in db_networks.many(conn, t.shares, [shared['id']], 'network_id')
              if known['id'] != row['id'] and known['action'] == row['action']]
    for project in kind.users(conn, shared['id']) if db_networks.EVERYBODY not in others else ():
        if project and project not in (shared['project_id'], *others) and row['target_project'] in (
                project, db_networks.EVERYBODY):
            raise faults.RbacPolicyInUse(object_id=shared['id'])


def _end(conn: Connection, row: NetworkSharesRow) -> None:
    """Remove the ports of projects that may not use the network any more (db_ports.evict)."""
    network = db_networks.get(conn, t.networks, row['network_id']) if row['object_type'] == 'network' else None
    if network is not None and not network['shared']:
        db_ports.evict(conn, network['id'], network['project_id'])


SHARES = r.Resource('rbac_policy', 'rbac_policies', t.shares, (
    r.IDENT, *r.OWNER,
    r.column('object_type', s.one_of(*KINDS), 'Type of the shared object.', write='create', required=True),
    r.Field('object_id', s.UUID, 'network_id', 'Shared object.', write='create', accepts=s.IDENT, required=True),
    r.column('action', s.one_of(db_networks.SHARED), 'What the project may do.', write='create', required=True),
    r.Field('target_tenant', s.TEXT, 'target_project', 'Project that may use the object; *: all projects.',
            write='create update', accepts=s.NAME, required=True, guarded=True),
    r.column('target_project', s.TEXT, 'The same as target_tenant.'),
), visible=db_networks.own(t.shares), create=create, update=update, delete=delete,
    missing=lambda ident: faults.RbacPolicyNotFound(policy_id=ident))
