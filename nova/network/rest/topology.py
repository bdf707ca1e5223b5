"""Auto-allocated topology: a network, subnet and router for a project without networks.

The subnet comes from the default subnet pool, and the router connects to the default external network. An administrator
must create this pool and this network. A unique key on the project serializes concurrent requests.
"""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import context as nova_context
from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import networks as db_networks
from nova.db.networks import routers as db_routers
from nova.db.networks import topologies as db
from nova.db.tables import network as t
from nova.json_types import Json
from nova.json_types import JsonDocument
from nova.network import ipam
from nova.network.rest import faults
from nova.network.rest import networks
from nova.network.rest import operations
from nova.network.rest import permissions
from nova.network.rest import quotas
from nova.network.rest import routers
from nova.network.rest import schemas as s
from nova.network.rest.rows import Resource
from nova.web.resource import Document
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.network.rest.request import Deps
    from nova.network.rest.request import NetworkRequest

DRY_RUN = 'dry-run'
NAME = 'auto_allocated_{}'
PATH = '/auto-allocated-topology/{project}'


def show(req: NetworkRequest, project: str) -> JsonDocument:
    """Return the project's topology, creating it if missing; ``fields=dry-run`` only checks the prerequisites."""
    project = _project(req, project)
    if ('fields', DRY_RUN) in req.query:
        with req.deps.api_db.reader() as conn:
            check(conn)
        return _view('dry-run=pass', project)
    with req.deps.api_db.reader() as conn:
        known = db.of(conn, project)
    if known is None:
        permissions.authorize(req.context, 'create_network', permissions.target({'project_id': project}))
        ident = req.deps.api_db.run(ipam.retry_on_duplicate(make), req.deps, project)
        operations.refresh(req, 'auto_allocated_topology')
        return _view(ident, project)
    return _view(known['network_id'], project)


def delete(req: NetworkRequest, project: str) -> None:
    """Delete the project's topology; raises NetworkInUse, RouterInUse."""
    project = _project(req, project)
    req.deps.api_db.run(_remove, req.deps, project)
    operations.refresh(req, 'auto_allocated_topology')


def _project(req: NetworkRequest, project: str) -> str:
    assert req.route is not None                  # a routed request
    project = str(req.context.project_id) if project in ('', 'null', 'None') else project
    permissions.authorize_project(req.context, req.route.checks[0], project)
    quotas.check_project(project)
    return project


def _view(ident: str, project: str) -> JsonDocument:
    return {'auto_allocated_topology': {'id': ident, 'project_id': project, 'tenant_id': project}}


def check(conn: Connection) -> str:
    """Return the id of the default external network.

    :raises AutoAllocationFailure: the administrator has not prepared automatic allocation
    """
    outside = db_networks.page(conn, t.networks, t.networks.c.external & t.networks.c.is_default,
                               [('id', 'asc')], None, 1)
    if not outside or not db_networks.many(conn, t.subnets, [outside[0]['id']], 'network_id'):
        raise faults.AutoAllocationFailure(reason='No default router:external network.')
    if not db_networks.page(conn, t.subnet_pools, t.subnet_pools.c.default_ip_version == 4, [('id', 'asc')], None, 1):
        raise faults.AutoAllocationFailure(reason='No default subnetpools defined.')
    return outside[0]['id']


def make(conn: Connection, deps: Deps, project: str) -> str:
    """Return the network id of a project's topology, creating it if missing."""
    outside, known = check(conn), db.of(conn, project)
    if known is not None:
        return known['network_id']
    context = RequestContext(user_id=None, project_id=project, roles=['member'], overwrite=False)

    def made(kind: Resource[Any], **values: Json) -> str:
        return kind.create(conn, deps, context, kind.parse(values, 'create'))
    network = made(networks.NETWORKS, name=NAME.format('network'))
    subnet = made(networks.SUBNETS, name=NAME.format('subnet_v4'), network_id=network, ip_version=4,
                  use_default_subnetpool=True)
    router = made(routers.ROUTERS, name=NAME.format('router'), external_gateway_info={'network_id': outside})
    routers.add_interface(conn, deps, context, routers.ROUTERS.get(conn, router), {'subnet_id': subnet})
    db.insert(conn, project, network, router)
    return network


def _remove(conn: Connection, deps: Deps, project: str) -> None:
    known = db.of(conn, project)
    if known is None:
        raise exception.NotFound()
    context = nova_context.admin_context()
    router = db_networks.get(conn, t.routers, known['router_id'])
    if router is not None:
        for each in db_routers.interfaces(conn, [router['id']]):
            if each['subnet_id'] in {row['id'] for row in db_networks.many(
                    conn, t.subnets, [known['network_id']], 'network_id')}:
                routers.remove_interface(conn, deps, context, router, {'subnet_id': each['subnet_id']})
        routers.delete(conn, deps, context, router)
    network = db_networks.get(conn, t.networks, known['network_id'])
    if network is not None:
        networks.delete_network(conn, deps, context, network)
    db.remove(conn, project)


_ANSWER = Document({'auto_allocated_topology': s.shape(id=s.TEXT, project_id=s.TEXT, tenant_id=s.TEXT)})
ROUTES = (Route('GET', PATH, show, None, ('get_auto_allocated_topology', 'create_network'), answer=_ANSWER,
                name='show_auto_allocated_topology'),
          Route('DELETE', PATH, delete, None, ('delete_auto_allocated_topology',), status=204,
                name='delete_auto_allocated_topology'))
