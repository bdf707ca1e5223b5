"""/servers/{id}/shares (2.97): shares of a server. Attaching and detaching require a stopped server."""
from typing import Any

from nova import actions
from nova import exception
from nova import states
from nova.api import request as api_request
from nova.api.server_actions import actions as server_actions
from nova.api.servers import lookup as server_lookup
from nova.db import engine
from nova.db.servers import instances
from nova.db.servers import shares
from nova.db.servers import tasks
from nova.db.tables.rows import InstancesRow
from nova.db.tables.rows import ShareMappingsRow
from nova.json_types import JsonDocument
from nova.web import params
from nova.web.fields import Field
from nova.web.fields import Fields
from nova.virt import share_exports
from nova.web.routes import Route

_RULE = 'os_compute_api:os-server-shares:'
ATTACH, DETACH = actions.ACTIONS['attach_share'], actions.ACTIONS['detach_share']
# server states in which an attached share is inactive
_OFF = (states.STOPPED, states.SHELVED, states.SHELVED_OFFLOADED, states.ERROR)

CREATE = params.document(
    'share', params.Param('share_id', params.UUID, required=True),
    params.Param('tag', params.string(1, 255, '^[a-zA-Z0-9-]*$')))
LIST = params.Query(closed=97)


def _status(row: api_request.Row, server: api_request.Row) -> str:
    if row['status'] != 'attached':
        return row['status']
    return 'inactive' if server['vm_state'] in _OFF else 'active'


# functions of these fields get the rows of share mapping and server
SUMMARY = Fields(
    Field('share_id', 'share_id', type='string format=uuid required'),
    Field('status', _status, type='string one of active,inactive,attaching,detaching,error required'),
    Field('tag', 'tag', type='string pattern ^[a-zA-Z0-9-]*$ minLength=1 maxLength=255 required'),
)
WHOLE = SUMMARY + Fields(
    Field('uuid', 'uuid', type='string format=uuid'),
    Field('export_location', 'export_location', type='string'),
)


def _shown(req: api_request.Request, row: api_request.Row, server: api_request.Row) -> JsonDocument:
    """Return the view of a share; administrators also see its export location."""
    return (WHOLE if req.context.is_admin else SUMMARY).builder(req, server)(row)


def _attached(conn: engine.Connection, server_id: str, share_id: str) -> ShareMappingsRow:
    """Return the row that maps a share to the server.

    :raises ShareNotFound: the share is not attached to the server
    """
    row = shares.get(conn, server_id, share_id)
    if row is None:
        raise exception.ShareNotFound(share_id=share_id[:80])
    return row


def index(req: api_request.Request, server_id: str) -> JsonDocument:
    with server_lookup.cell_of(req, server_id).db.reader() as conn:
        server = server_lookup.find(req, conn, server_id, _RULE + 'index')
        build = SUMMARY.builder(req, server)
        return {'shares': [build(row) for row in shares.by_instance(conn, server_id)]}


def show(req: api_request.Request, server_id: str, id: str) -> JsonDocument:
    with server_lookup.cell_of(req, server_id).db.reader() as conn:
        server = server_lookup.find(req, conn, server_id, _RULE + 'show')
        return {'share': _shown(req, _attached(conn, server_id, id), server)}


def create(req: api_request.Request, server_id: str) -> JsonDocument:
    given, cell = req.body['share'], server_lookup.cell_of(req, server_id)
    if len(given.get('tag') or '') > share_exports.TAG_BYTES:
        raise exception.BadRequest(f'The tag of a share may have at most {share_exports.TAG_BYTES} characters.')
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, server_id, ATTACH)
    tasks.check_states(row, ATTACH)
    try:
        share = req.services.shares.get(req.context, given['share_id'])
    except exception.ShareNotFound as error:          # not 404, because the server in the path exists
        raise exception.Conflict(error.message) from None
    if share['project_id'] != row['project_id'] and not req.context.is_admin:
        # all projects see a public share, but only the project that owns the share may mount it
        raise exception.Conflict(f'Share {share["id"]} belongs to a different project than the server.')
    if share['status'] != 'available':
        raise exception.Conflict(f'Share {share["id"]} is in status {share["status"]}, not available.')
    try:
        share_exports.check(share['protocol'], share['export_location'])
    except ValueError as error:
        raise exception.Conflict(str(error)) from None
    values = {'instance_uuid': server_id, 'share_id': share['id'], 'status': 'attaching',
              'tag': given.get('tag') or share['id'], 'export_location': share['export_location'],
              'protocol': share['protocol']}
    row, mapping = cell.db.run(_begin_attach, req, server_id, values)
    server_actions.cast(req, cell, row, ATTACH, share_id=share['id'])
    return {'share': _shown(req, mapping, row)}


def _begin_attach(conn: engine.Connection, req: api_request.Request, server_id: str,
                  values: dict[str, Any]) -> tuple[InstancesRow, dict[str, Any]]:
    instances.lock(conn, server_id)
    for present in shares.by_instance(conn, server_id):
        if values['share_id'] == present['share_id'] or values['tag'] == present['tag']:
            raise exception.Conflict(f'Share {values["share_id"]} is already attached to the server, or its tag is '
                                     'in use.')
    row = tasks.begin(conn, req.context, server_id, ATTACH, {'share_id': values['share_id']},
                      admin=req.context.is_admin)
    return row, shares.insert(conn, values)


def delete(req: api_request.Request, server_id: str, id: str) -> None:
    cell = server_lookup.cell_of(req, server_id)
    with cell.db.reader() as conn:
        row = server_actions.find_for(req, conn, server_id, DETACH)
        _attached(conn, server_id, id)
    tasks.check_states(row, DETACH)
    row = cell.db.run(_begin_detach, req, server_id, id)
    server_actions.cast(req, cell, row, DETACH, share_id=id)


def _begin_detach(conn: engine.Connection, req: api_request.Request, server_id: str, share_id: str) -> InstancesRow:
    instances.lock(conn, server_id)
    mapping = _attached(conn, server_id, share_id)
    if mapping['status'] in ('attaching', 'detaching'):
        raise exception.Conflict(f'Share {share_id} is {mapping["status"]}.')
    row = tasks.begin(conn, req.context, server_id, DETACH, {'share_id': share_id}, admin=req.context.is_admin)
    shares.update(conn, mapping['uuid'], {'status': 'detaching'})
    return row


_PATH = '/servers/{server_id}/shares'
_READ = (400, 401, 403, 404)
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'index', since=97, query=LIST, errors=_READ),
    Route('POST', _PATH, create, policy=_RULE + 'create', since=97, status=201, body=CREATE, errors=(*_READ, 409)),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', since=97, query=LIST, errors=_READ),
    Route('DELETE', _PATH + '/{id}', delete, policy=_RULE + 'delete', since=97, errors=(*_READ, 409)),
)
