"""Compute services: list, enable, disable, force down, delete."""
import uuid
from collections.abc import Callable
from typing import Any

from nova import exception
from nova.json_types import JsonDocument
from nova import utils
from nova.api import cell_queries
from nova.api.servers import down_cells
from nova.api import notifications
from nova.api import request as api_request
from nova.api import shapes
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.cells import rows as cell_rows
from nova.db.moves import maintenance
from nova.db.placement import aggregates
from nova.db.placement import hosts
from nova.db.services import message_keys
from nova.db.services import services
from nova.db.tables.rows import ServicesRow
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.web.routes import Route

_RULE = 'os_compute_api:os-services:'
REASON = params.string(1, 255)
Change = tuple[dict[str, Any], dict[str, Any]]        # (columns to change, fields of the response)


def state(row: ServicesRow, req: api_request.Request) -> str:
    return 'up' if services.is_up(row, req.services.conf.service_down_time, utils.utcnow()) else 'down'


def status(row: ServicesRow, req: api_request.Request) -> str:
    return 'disabled' if row['disabled'] else 'enabled'


def seen(row: ServicesRow, req: api_request.Request) -> str | None:
    """Return the time of the last heartbeat, or of the last change if it is later."""
    times = [moment for moment in (row['last_seen_at'], row['updated_at']) if moment is not None]
    return utils.exact_time(max(times, default=None))


VIEW = Fields(
    Field('id', 'id', until=52, type='integer required'),
    Field('id', 'uuid', since=53, type=shapes.ID),
    Field('binary', 'binary', type='string required'),
    Field('host', 'host', type='string required'),
    Field('zone', 'availability_zone', type=shapes.ZONE),
    Field('status', status, type=shapes.STATUS),
    Field('state', state, type=shapes.STATE),
    Field('updated_at', seen, type=shapes.SERVICES_UPDATED_AT),
    Field('disabled_reason', 'disabled_reason', type=shapes.DISABLED_REASON),
    Field('forced_down', 'forced_down', since=11, type=shapes.FORCED_DOWN),
)

LIST = params.Query(params.Param('host', params.STRING), params.Param('binary', params.STRING), closed=75)
UPDATE = params.Object(
    params.Param('host', params.HOST, until=52, required=True),
    params.Param('binary', params.string(1, 255), until=52, required=True),
    params.Param('disabled_reason', REASON),
    params.Param('forced_down', params.BOOLEAN, since=11),
    params.Param('status', {'type': 'string', 'enum': ['enabled', 'disabled']}, since=53))


def _find(req: api_request.Request, id: str) -> tuple[db_cells.Cell, dict[str, Any]]:
    """Return (cell, row) of a service by its ID: a UUID since 2.53, before that a number.

    :raises BadRequest: the ID is not a UUID (before 2.53: not a number, or used by several cells)
    :raises ServiceNotFound: the service does not exist
    """
    if req.has('uuids_for_services'):
        try:
            id = str(uuid.UUID(id))
        except ValueError:
            raise exception.BadRequest(f'Invalid uuid {id[:40]}') from None
    elif not (id.isascii() and id.isdigit()):
        raise exception.BadRequest(f'Invalid service id {id[:40]}: it must be an integer.')
    cell, row = cell_queries.only(req, lambda conn: services.get(conn, id), id)
    if cell is None:
        raise exception.ServiceNotFound(service_id=id)
    return cell, row


def index(req: api_request.Request) -> JsonDocument:
    filters = {name: req.query.one(name) for name in ('host', 'binary') if req.query.one(name)}
    found, down = req.services.cells.read(lambda conn: services.list(conn, **filters))
    cell_queries.check(req, down)
    unknown = down_cells.services(req, down, **filters) if down else []
    if not found and not unknown:
        raise exception.ServiceUnavailable(service='database')
    build = VIEW.builder(req)
    return {'services': [*unknown, *(build(row) for _cell, rows in found for row in rows)]}


def delete(req: api_request.Request, id: str) -> None:
    """Delete a stopped service.

    If this is the compute service or the last service of a host, the host's message key is revoked. An operator must
    then approve the host before it can rejoin.
    """
    cell, row = _find(req, id)
    is_compute, down_time = row['topic'] == 'compute', req.services.conf.service_down_time
    with cell.db.reader() as conn:
        _refuse(conn, row, down_time)
        revokes = is_compute or not services.others_of_host(conn, row['host'], row['id'])
    # revoke the key before the row is deleted, so that an interrupted request can be repeated
    states = req.services.api_db.run(message_keys.withdraw, row['host']) if revokes else {}

    def run(conn: engine.Connection) -> None:
        _refuse(conn, row, down_time)
        services.delete(conn, row['id'])
        if is_compute:
            maintenance.forget(conn, row['host'])
    try:
        cell.db.run(run)
    except exception.Conflict:           # meanwhile the service started, or its host got a server
        req.services.api_db.run(message_keys.restore, states)
        raise
    if is_compute:
        req.services.api_db.run(_forget_host, row['host'])
    notifications.send(req, 'service.delete', row, **_publisher(row))


def _refuse(conn: engine.Connection, row: api_request.Row, down_time: int) -> None:
    """Refuse to delete a service in use.

    :raises Conflict: the service is running, or its host has servers
    """
    services.refuse_running(conn, row['uuid'], down_time)
    if row['binary'] == 'nova-compute' and hosts.server_count(conn, row['host']):
        raise exception.Conflict('Unable to delete compute service that is hosting instances. '
                                 'Migrate or delete the instances first.')


def _publisher(row: api_request.Row) -> api_request.Document:
    return {'host': row['host'], 'by': row['binary']}


def _forget_host(conn: engine.Connection, host: str) -> None:
    aggregates.forget_host(conn, host)
    cell_rows.forget_host(conn, host)


# ---- PUT before 2.53: the action is in the path ------------------------------

def _legacy_disable_log_reason(req: api_request.Request) -> Change:
    reason = req.body.get('disabled_reason')
    if reason is None:
        raise exception.BadRequest('Missing disabled reason field')
    return ({'disabled': True, 'disabled_reason': reason}, {'status': 'disabled', 'disabled_reason': reason})


def _legacy_force_down(req: api_request.Request) -> Change:
    forced = req.body.get('forced_down')
    if forced is None:
        raise exception.BadRequest('Missing forced_down field')
    return {'forced_down': forced}, {'forced_down': forced}


# {action in the path: (first version, function(request) -> Change)}
_LEGACY: dict[str, tuple[int, Callable[[api_request.Request], Change]]] = {
    'enable': (1, lambda req: ({'disabled': False, 'disabled_reason': None}, {'status': 'enabled'})),
    'disable': (1, lambda req: ({'disabled': True, 'disabled_reason': None}, {'status': 'disabled'})),
    'disable-log-reason': (1, _legacy_disable_log_reason), 'force-down': (11, _legacy_force_down)}


def update_by_action(req: api_request.Request, id: str) -> JsonDocument:
    since, change = _LEGACY.get(id, (None, None))
    if since is None or change is None or req.version < since:
        raise exception.NotFound('Unknown action')
    values, shown = change(req)
    named = {'host': req.body['host'], 'binary': req.body['binary']}
    cell, rows = cell_queries.first(req, lambda conn: services.list(conn, **named))
    if cell is None:
        raise exception.NotFound('Service %(binary)s could not be found on host %(host)s.' % named)
    _changed(req, cell.db.run(services.update, rows[0]['id'], values))
    return {'service': {**named, **shown}}


def _changed(req: api_request.Request, row: api_request.Row) -> api_request.Row:
    notifications.send(req, 'service.update', row, **_publisher(row))
    return row


def update(req: api_request.Request, id: str) -> JsonDocument:
    cell, row = _find(req, id)
    given = req.body
    wanted, reason = given.get('status'), given.get('disabled_reason')
    if not given:
        raise exception.BadRequest('No updates were requested. Fields status or forced_down should be specified.')
    if reason is not None and wanted != 'disabled':
        raise exception.BadRequest("Specifying disabled_reason requires that status is 'disabled'.")
    if row['binary'] != 'nova-compute':
        raise exception.BadRequest(f'Updating a {row["binary"]} service is not supported. '
                                   'Only nova-compute services can be updated.')
    values = {}
    if wanted is not None:
        values = {'disabled': wanted == 'disabled', 'disabled_reason': reason}
    if 'forced_down' in given:
        values['forced_down'] = given['forced_down']
    return {'service': VIEW.builder(req)(_changed(req, cell.db.run(services.update, row['id'], values)))}


ROUTES = (
    Route('GET', '/os-services', index, policy=_RULE + 'list', query=LIST),
    Route('PUT', '/os-services/{id}', update_by_action, policy=_RULE + 'update', until=52, body=UPDATE,
          errors=(400, 404)),
    Route('PUT', '/os-services/{id}', update, policy=_RULE + 'update', since=53, body=UPDATE, errors=(400, 404)),
    Route('DELETE', '/os-services/{id}', delete, policy=_RULE + 'delete', status=204, errors=(400, 404, 409)),
)
