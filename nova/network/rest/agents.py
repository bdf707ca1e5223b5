"""Show the hosts of the network service as agents: their administrative state, and the routers on them."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nova.db.networks import hosts as db_hosts
from nova.db.networks import routers as db
from nova.json_types import JsonDocument
from nova.network import gateways
from nova.network.rest import documents
from nova.network.rest import faults
from nova.network.rest import operations
from nova.network.rest import pages
from nova.network.rest import permissions
from nova.network.rest import routers
from nova.network.rest import schemas as s
from nova.network.rest.rows import View
from nova.web.resource import Body
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import Whole
from nova.web.routes import Route

if TYPE_CHECKING:
    from nova.db.engine import Connection
    from nova.db.tables.rows import NetworkHostsRow
    from nova.network.rest.request import NetworkRequest

ONE, OF_ROUTERS = '/agents/{id}', '/agents/{id}/l3-routers'


def _agent(req: NetworkRequest, row: NetworkHostsRow) -> View:
    return {'id': routers.agent_id(row['host']), 'host': row['host'], 'binary': 'nova-network',
            'agent_type': 'L3 agent' if row['gateway'] else 'L2 agent', 'topic': 'network',
            'admin_state_up': row['admin_state_up'],
            'alive': db_hosts.alive(row['last_seen_at'], req.deps.conf.service_down_time), 'availability_zone': 'nova',
            'configurations': {'tunnel_address': row['address']}, 'description': row['description'],
            'heartbeat_timestamp': row['last_seen_at'].strftime('%Y-%m-%d %H:%M:%S')}


def index(req: NetworkRequest) -> JsonDocument:
    """List the hosts as agents; a caller gets an empty list if the rule get_agent denies access."""
    if not permissions.allows(req.context, 'get_agent', permissions.target({})):
        return {'agents': []}
    with req.deps.api_db.reader() as conn:
        found = [_agent(req, row) for row in db_hosts.every(conn)]
    return {'agents': pages.fields(req.query, pages.select(req.query, found, _FILTERS, closed=True))}


def show(req: NetworkRequest, id: str) -> JsonDocument:
    if not permissions.allows(req.context, 'get_agent', permissions.target({})):
        raise faults.AgentNotFound(id=id[:60])
    with req.deps.api_db.reader() as conn:
        return {'agent': _agent(req, _host(conn, id))}


def update(req: NetworkRequest, id: str) -> JsonDocument:
    """Change the administrative state or the description; the next heartbeat moves routers if necessary."""
    def change(conn: Connection) -> NetworkHostsRow:
        if req.body:
            db_hosts.change(conn, _host(conn, id)['host'], req.body)
        return _host(conn, id)
    return {'agent': _agent(req, req.deps.api_db.run(change))}


def _host(conn: Connection, ident: str) -> NetworkHostsRow:
    for row in db_hosts.every(conn):
        if routers.agent_id(row['host']) == ident:
            return row
    raise faults.AgentNotFound(id=ident[:60])


def list_routers(req: NetworkRequest, id: str) -> JsonDocument:
    with req.deps.api_db.reader() as conn:
        rows = db.of_host(conn, _host(conn, id)['host'])
        return {'routers': pages.select(req.query, routers.ROUTERS.documents(conn, req.context, rows), _OF_ROUTERS)}


def add_router(req: NetworkRequest, id: str) -> JsonDocument:
    """Assign a router to a host.

    :raises InvalidL3Agent, RouterNotFound, RouterHostedByL3Agent:
    """
    def place(conn: Connection) -> None:
        host, row = _host(conn, id), routers.ROUTERS.locked(conn, req.body['router_id'])
        if not gateways.is_eligible(host):
            raise faults.InvalidL3Agent(id=id)
        if row['host'] != host['host'] and (row['host'] or not db.place(conn, row['id'], host['host'])):
            raise faults.RouterHostedByL3Agent(router_id=row['id'])
    _changed(req, place)
    return {}


def remove_router(req: NetworkRequest, id: str, part: str) -> None:
    """Remove a router from its host. The router has no host until an administrator assigns it to a host.

    :raises RouterNotHostedByL3Agent:
    """
    def take(conn: Connection) -> None:
        host = _host(conn, id)['host']
        if not db.place(conn, part[:36], '', host):
            raise faults.RouterNotHostedByL3Agent(router_id=part[:60], agent_id=id)
    _changed(req, take)


def _changed(req: NetworkRequest, work: Callable[[Connection], None]) -> None:
    req.deps.api_db.run(work)
    operations.refresh(req, 'router')


_FILTERS = ('id', 'host', 'binary', 'agent_type', 'topic', 'availability_zone', 'admin_state_up', 'alive',
            'description')
_OF_ROUTERS = [field.name for field in routers.ROUTERS.view('show').rows]
_AGENT = s.shape(
    id=s.UUID, host=s.TEXT, binary=s.TEXT, agent_type=s.TEXT, topic=s.TEXT, admin_state_up=s.FLAG, alive=s.FLAG,
    availability_zone=s.TEXT, configurations=s.shape(tunnel_address=s.TEXT), description=s.TEXT_OR_NULL,
    heartbeat_timestamp=s.TIME)
_ANSWER = Document({'agent': _AGENT})
ROUTES = (
    Route('GET', '/agents', index, None, ('get_agent',), answer=documents.selected('agents', _AGENT),
          query=pages.parameters(_FILTERS, closed=1), name='list_agents'),
    Route('GET', ONE, show, None, ('get_agent',), answer=_ANSWER, name='show_agent'),
    Route('PUT', ONE, update, 'update_agent', answer=_ANSWER, name='update_agent', body=Body('agent', closed(
        admin_state_up=s.BOOLEAN, description=s.nullable(s.NAME)))),
    Route('GET', OF_ROUTERS, list_routers, 'get_l3-routers', name='list_agent_routers', answer=Document({
        'routers': [routers.ROUTERS.view('show')]}), query=pages.parameters(_OF_ROUTERS, narrowed=False)),
    Route('POST', OF_ROUTERS, add_router, 'create_l3-router', status=201, answer=Document({}), name='add_agent_router',
          body=Whole(closed('router_id', router_id=s.IDENT))),
    Route('DELETE', OF_ROUTERS + '/{part}', remove_router, 'delete_l3-router', status=204,
          name='remove_agent_router'))
