"""Rules that share a project's network with other projects."""
from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, TYPE_CHECKING

from nova import context as nova_context
from nova import exception
from nova.db import engine
from nova.db.networks import listing
from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db_ports
from nova.db.tables import network as t
from nova.network.face import attributes as a
from nova.network.face import faults
from nova.network.face import quotas
from nova.network.face import resource

if TYPE_CHECKING:
    from nova.network.face.app import Face


def views(conn: engine.Connection, context: nova_context.RequestContext,
          rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{'id': row['id'], 'project_id': row['project_id'], 'tenant_id': row['project_id'],
             'object_type': 'network', 'object_id': row['network_id'], 'action': row['action'],
             'target_tenant': row['target_project'], 'target_project': row['target_project']} for row in rows]


def create(conn: engine.Connection, face: Face, context: nova_context.RequestContext, values: dict[str, Any]) -> str:
    project = a.owner(context, values)
    network = db_networks.lock(conn, t.networks, values['object_id'])
    if network is None or not resource.owner(context, network):
        raise exception.NetworkNotFound(network_id=values['object_id'])
    _check_target(context, values['target_tenant'])
    quotas.check(conn, face.conf, 'rbac_policy', project)
    row = {'id': str(uuid.uuid4()), 'project_id': project, 'network_id': network['id'], 'action': values['action'],
           'target_project': values['target_tenant'], 'description': ''}
    if any(all(known[name] == row[name] for name in ('action', 'target_project'))
           for known in db_networks.many(conn, t.shares, [network['id']], 'network_id')):
        raise faults.RbacPolicyExists()
    db_networks.insert(conn, t.shares, [row])
    return row['id']


def _check_target(context: nova_context.RequestContext, target: str) -> None:
    if target == db_networks.EVERYBODY and not context.is_admin:
        raise exception.PolicyDenied(rule='create_rbac_policy:target_tenant')


def update(conn: engine.Connection, face: Face, context: nova_context.RequestContext, row: Mapping[str, Any],
           values: dict[str, Any]) -> None:
    target = values.get('target_tenant')
    if target is None or target == row['target_project']:
        return
    _check_target(context, target)
    _check_unused(conn, row)
    db_networks.update(conn, t.shares, row['id'], {'target_project': target})


def delete(conn: engine.Connection, face: Face, context: nova_context.RequestContext, row: Mapping[str, Any]) -> None:
    _check_unused(conn, row)
    db_networks.delete(conn, t.shares, row['id'])


def _check_unused(conn: engine.Connection, row: Mapping[str, Any]) -> None:
    """No project has a port in the network by this rule alone."""
    network = db_networks.lock(conn, t.networks, row['network_id'])
    if network is None or network['shared']:
        return
    others = [known['target_project'] for known in db_networks.many(conn, t.shares, [network['id']], 'network_id')
              if known['id'] != row['id'] and known['action'] == row['action']]
    for port in db_ports.in_network(conn, network['id']) if db_networks.EVERYBODY not in others else ():
        project = port['project_id']
        if project and project not in (network['project_id'], *others) and row['target_project'] in (
                project, db_networks.EVERYBODY):
            raise faults.RbacPolicyInUse(object_id=network['id'])


SHARES = resource.Resource(
    singular='rbac_policy', plural='rbac_policies', table=t.shares,
    attributes={
        'tenant_id': a.DESCRIBED['tenant_id'], 'project_id': a.DESCRIBED['project_id'],
        'object_type': a.Attribute(a.one_of('network'), a.REQUIRED, put=False),
        'object_id': a.Attribute(a.ident, a.REQUIRED, put=False),
        'action': a.Attribute(a.one_of(db_networks.SHARED), a.REQUIRED, put=False),
        'target_tenant': a.Attribute(a.text(), a.REQUIRED),
    },
    listing=listing.Listing(t.shares, {
        'id': t.shares.c.id, 'project_id': t.shares.c.project_id, 'tenant_id': t.shares.c.project_id,
        'object_id': t.shares.c.network_id, 'action': t.shares.c.action, 'target_tenant': t.shares.c.target_project,
        'target_project': t.shares.c.target_project,
    }, {'object_type': 'network'}),
    visible=db_networks.own(t.shares), writable=resource.owner, views=views, create=create, update=update,
    delete=delete, tagged=False, missing=lambda ident: faults.RbacPolicyNotFound(policy_id=ident))
