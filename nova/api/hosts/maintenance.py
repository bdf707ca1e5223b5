"""Maintenance of hosts of an aggregate (an API extension); conductor/moves/maintenance.py performs it."""
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from nova import exception
from nova.api import cell_queries
from nova.api import request as api_request
from nova.api import shapes
from nova.api.hosts import aggregates as aggregates_api
from nova.db import engine
from nova.db.moves import maintenance
from nova.db.placement import aggregates
from nova.json_types import JsonDocument
from nova.web import params
from nova.web import fields
from nova.web.routes import Route

P = ParamSpec('P')
KEY = 'os-host-maintenance'
_START, _STOP = KEY + ':start', KEY + ':stop'
_RULE = 'nova:os-aggregates:maintenance'


VIEW = fields.Fields(
    fields.Field('id', 'uuid', type='string format=uuid required'),
    fields.Field('host', 'host', type='string required'),
    fields.Field('aggregate_id', 'aggregate_id', type='integer minimum=1 required'),
    fields.Field('status', 'status', type='string required'),
    fields.Field('message', 'message', type='string|null required'),
    fields.Field('created_at', fields.moment('created_at'), type='string format=date-time required'),
    fields.Field('updated_at', fields.moment('updated_at'), type='string format=date-time required'),
    fields.Field('stopped_at', fields.moment('stopped_at'), type='string|null format=date-time required'),
    fields.Field('counts', 'counts', type=shapes.COUNTS),
)
SERVER = fields.Fields(
    fields.Field('id', 'instance_uuid'),
    fields.Field('direction', 'direction'),
    fields.Field('state', 'state'),
    fields.Field('dest_host', 'dest'),
    fields.Field('migration_id', 'migration_id'),
    fields.Field('reason', 'reason'),
    fields.Field('updated_at', fields.moment('updated_at')),
)


def _member(req: api_request.Request, id: str, host: str) -> api_request.Row:
    """Return an aggregate after checking that it contains the host.

    :raises AggregateNotFound, AggregateHostNotFound: unknown aggregate, or host outside of it
    """
    with req.services.api_db.reader() as conn:
        aggregate = aggregates.get(conn, aggregates_api.number(id))
    if host not in aggregate['hosts']:
        raise exception.AggregateHostNotFound(aggregate_id=id, host=host)
    return aggregate


def _shown(req: api_request.Request, row: api_request.Row) -> api_request.Document:
    build = SERVER.builder(req)
    return {KEY: {**VIEW.builder(req)(row), 'servers': [build(server) for server in row['servers']]}}


def _do(req: api_request.Request, id: str, host: str, function: Callable[Concatenate[engine.Connection, P], object],
        *args: P.args, **kwargs: P.kwargs) -> api_request.Document:
    """Run ``function(conn, *args)`` of db.maintenance in the host's cell; return the document of the maintenance."""
    def run(conn: engine.Connection) -> api_request.Row | None:
        function(conn, *args, **kwargs)
        return maintenance.of_host(conn, host, aggregates_api.number(id))
    row = aggregates_api.cell_of(req, host).db.run(run)
    assert row is not None                       # ``function`` has checked that the row exists
    return _shown(req, row)


def reason(aggregate_id: int) -> str:
    """Return the disabled_reason of a host in maintenance."""
    return f'In maintenance: its servers move to other hosts of aggregate {aggregate_id}.'


def start(req: api_request.Request, id: str) -> JsonDocument:
    host = req.body[_START]['host']
    aggregate = _member(req, id, host)
    return _do(req, id, host, maintenance.start, req.context, host, aggregate['id'], reason(aggregate['id']))


def stop(req: api_request.Request, id: str) -> JsonDocument:
    host = req.body[_STOP]['host']
    with req.services.api_db.reader() as conn:
        aggregates.get(conn, aggregates_api.number(id))
    return _do(req, id, host, maintenance.stop, host, aggregates_api.number(id))


def index(req: api_request.Request, id: str) -> JsonDocument:
    number = aggregates_api.number(id)
    with req.services.api_db.reader() as conn:
        aggregates.get(conn, number)
    build = VIEW.builder(req)
    return {KEY: [build(row) for row in cell_queries.rows(req, lambda conn: maintenance.of_aggregate(conn, number))]}


def show(req: api_request.Request, id: str, host: str) -> JsonDocument:
    number = aggregates_api.number(id)
    with req.services.api_db.reader() as conn:
        aggregates.get(conn, number)
    cell, row = cell_queries.first(req, lambda conn: maintenance.of_host(conn, host, number))
    if cell is None:
        raise exception.MaintenanceNotFound(aggregate_id=number, host=host[:255])
    return _shown(req, row)


def _action(name: str, handler: Callable[..., JsonDocument]) -> Route:
    body = params.document(name, params.Param('host', params.HOST, required=True))
    return Route('POST', '/os-aggregates/{id}/action', handler, action=name, policy=_RULE, status=202, body=body,
                 errors=(400, 404, 409))


_PATH = '/os-aggregates/{id}/' + KEY
ROUTES = (
    _action(_START, start),
    _action(_STOP, stop),
    Route('GET', _PATH, index, policy=_RULE + ':show', query=params.Query(closed=1), errors=(400, 404)),
    Route('GET', _PATH + '/{host}', show, policy=_RULE + ':show', query=params.Query(closed=1), errors=(400, 404)),
)
