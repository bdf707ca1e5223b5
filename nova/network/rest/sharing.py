"""RBAC policies: share a network, security group, QoS policy or subnet pool with other projects."""
from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db import engine
from nova.db.engine import Connection
from nova.db.networks import listing
from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db_ports
from nova.db.networks import qos as db_qos
from nova.db.networks import security_groups as db_groups
from nova.db.networks import subnet_pools as db_pools
from nova.db.tables import network as t
from nova.network.rest import attributes as a
from nova.network.rest import faults
from nova.network.rest import quotas
from nova.network.rest import resource

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworkSharesRow
    from nova.network.rest.request import Deps


def views(conn: Connection, context: RequestContext, rows: list[NetworkSharesRow]) -> list[resource.View]:
    return [{'id': row['id'], 'project_id': row['project_id'], 'tenant_id': row['project_id'],
             'object_type': row['object_type'], 'object_id': row['network_id'], 'action': row['action'],
             'target_tenant': row['target_project'], 'target_project': row['target_project']} for row in rows]


class Kind(NamedTuple):
    """A kind of shared object.

    table    table of the objects
    missing  function(id) -> the error for a missing object
    users    function(connection, id) -> projects that use it; None: a policy can be removed while it is used
    """

    table: engine.Table[Any]
    missing: Callable[[str], exception.NovaException]
    users: Callable[[Connection, str], set[str]] | None


def _in_pool(conn: Connection, ident: str) -> set[str]:
    return {project for project, _cidr in db_pools.pieces(conn, ident)}


KINDS = {
    'network': Kind(t.networks, lambda ident: exception.NetworkNotFound(network_id=ident), None),
    'qos_policy': Kind(t.qos_policies, lambda ident: faults.QosPolicyNotFound(policy_id=ident), db_qos.users),
    'security_group': Kind(t.security_groups,
                           lambda ident: exception.SecurityGroupNotFound(security_group_id=ident), db_groups.users),
    'subnetpool': Kind(t.subnet_pools, lambda ident: faults.SubnetPoolNotFound(subnetpool_id=ident), _in_pool),
}


def create(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    project, kind = a.owner(context, values), KINDS[values['object_type']]
    shared = db_networks.lock(conn, kind.table, values['object_id'])
    if shared is None or not resource.owner(context, shared):
        raise kind.missing(values['object_id'])
    _check_target(context, values['target_tenant'])
    quotas.check(conn, deps.conf, 'rbac_policy', project)
    row = {'id': str(uuid.uuid4()), 'project_id': project, 'network_id': shared['id'], 'action': values['action'],
           'object_type': values['object_type'], 'target_project': values['target_tenant'], 'description': ''}
    if any(all(known[name] == row[name] for name in ('action', 'target_project'))
           for known in db_networks.many(conn, t.shares, [shared['id']], 'network_id')):
        raise faults.RbacPolicyExists()
    db_networks.insert(conn, t.shares, [row])
    return row['id']


def _check_target(context: RequestContext, target: str) -> None:
    if target == db_networks.EVERYBODY and not context.is_admin:
        raise exception.PolicyDenied(rule='create_rbac_policy:target_tenant')


def update(conn: Connection, deps: Deps, context: RequestContext, row: NetworkSharesRow,
           values: dict[str, Any]) -> None:
    target = values.get('target_tenant')
    if target is None or target == row['target_project']:
        return
    _check_target(context, target)
    _check_unused(conn, row)
    db_networks.update(conn, t.shares, row['id'], {'target_project': target})
    _end(conn, row)


def delete(conn: Connection, deps: Deps, context: RequestContext, row: NetworkSharesRow) -> None:
    _check_unused(conn, row)
    db_networks.delete(conn, t.shares, row['id'])
    _end(conn, row)


def _check_unused(conn: Connection, row: NetworkSharesRow) -> None:
    """Check that no project uses the object because of this policy only."""
    kind = KINDS[row['object_type']]
    shared = db_networks.lock(conn, kind.table, row['network_id'])
    if kind.users is None or shared is None or shared.get('shared'):
        return
    others = [known['target_project'] for known in db_networks.many(conn, t.shares, [shared['id']], 'network_id')
              if known['id'] != row['id'] and known['action'] == row['action']]
    for project in kind.users(conn, shared['id']) if db_networks.EVERYBODY not in others else ():
        if project and project not in (shared['project_id'], *others) and row['target_project'] in (
                project, db_networks.EVERYBODY):
            raise faults.RbacPolicyInUse(object_id=shared['id'])


def _end(conn: Connection, row: NetworkSharesRow) -> None:
    """Remove the ports of projects that no policy of the network permits any more (db_ports.evict)."""
    network = db_networks.get(conn, t.networks, row['network_id']) if row['object_type'] == 'network' else None
    if network is not None and not network['shared']:
        db_ports.evict(conn, network['id'], network['project_id'])


SHARES = resource.Resource(
    singular='rbac_policy', plural='rbac_policies', table=t.shares,
    attributes={
        'tenant_id': a.DESCRIBED['tenant_id'], 'project_id': a.DESCRIBED['project_id'],
        'object_type': a.Attribute(a.one_of(*KINDS), a.REQUIRED, put=False),
        'object_id': a.Attribute(a.ident, a.REQUIRED, put=False),
        'action': a.Attribute(a.one_of(db_networks.SHARED), a.REQUIRED, put=False),
        'target_tenant': a.Attribute(a.text(), a.REQUIRED),
    },
    listing=listing.Listing(t.shares, {
        'id': t.shares.c.id, 'project_id': t.shares.c.project_id, 'tenant_id': t.shares.c.project_id,
        'object_id': t.shares.c.network_id, 'action': t.shares.c.action, 'target_tenant': t.shares.c.target_project,
        'target_project': t.shares.c.target_project, 'object_type': t.shares.c.object_type,
    }),
    visible=db_networks.own(t.shares), writable=resource.owner, views=views, create=create, update=update,
    delete=delete, tagged=False, missing=lambda ident: faults.RbacPolicyNotFound(policy_id=ident))
