"""/servers/{id}/os-instance-actions: actions on a server and their events."""

from nova import states
from nova import utils
from nova.api import paging
from nova.api import request as api_request
from nova.api.servers import lookup as server_lookup
from nova.api.servers import schemas as server_schemas
from nova.db import engine
from nova.db.servers import instance_actions
from nova.db.servers import listing
from nova.db.tables.rows import InstanceActionEventsRow
from nova.db.tables.rows import InstanceActionsRow
from nova.db.tables.rows import InstancesRow
from nova.json_types import JsonDocument
from nova.objects import faults
from nova.web import fields
from nova.web.routes import Route

_RULE = 'os_compute_api:os-instance-actions:'
EVENTS = _RULE + 'events'
DETAILS = _RULE + 'events:details'

Field = fields.Field


ACTION = fields.Fields(
    Field('action', 'action', type='string required'),
    Field('instance_uuid', 'instance_uuid', type='string format=uuid required'),
    Field('request_id', 'request_id', type='string required'),
    Field('user_id', 'user_id', type='null|string pattern ^[a-zA-Z0-9-]*$ minLength=1 maxLength=255 required'),
    Field('project_id', 'project_id', type='null|string pattern ^[a-zA-Z0-9-]*$ minLength=1 maxLength=255 required'),
    Field('start_time', fields.exact_moment('started_at'), type='string format=date-time required'),
    Field('message', 'message', type='null|string required'),
    Field('updated_at', fields.exact_moment('updated_at'), since=58, type='null|string format=date-time required'),
)

EVENT = fields.Fields(
    Field('event', 'event'), Field('start_time', fields.exact_moment('started_at')),
    Field('finish_time', fields.exact_moment('finished_at')),
    Field('result', 'result'), Field('traceback', 'traceback', rule=EVENTS),
    Field('hostId', lambda row, project_id: utils.host_id(row['host'], project_id), since=62),
    Field('host', lambda row, project_id: row['host'] or fields.ABSENT, since=62, rule=EVENTS, optional=True),
    Field('details', lambda row, project_id: row['details'] if row['result'] == 'Error' else None, since=84))


def _server(req: api_request.Request, conn: engine.Connection, server_id: str, rule: str) -> InstancesRow:
    return server_lookup.find(req, conn, server_id, rule, deleted=req.has('actions_of_deleted'))


def _why_open(req: api_request.Request, conn: engine.Connection, server: InstancesRow) -> str | None:
    """If a deletion waits for a host that does not report, return a sentence about this, else None."""
    if server['task_state'] != states.DELETING or server['host'] is None:
        return None
    conf, now = req.services.conf, utils.utcnow()
    seen = [row['last_seen_at'] for row in listing.computes(conn, {server['host']}) if row['last_seen_at'] is not None]
    silent_s = int((now - max(seen)).total_seconds()) if seen else None
    if silent_s is None or silent_s <= 2 * conf.report_interval:
        return None
    at_most_s = (max(conf.service_down_time + conf.report_interval - silent_s, 0)
                 + conf.conductor.reconcile_interval)
    return (f'The host of the server last reported {silent_s} s ago. The server is deleted when the host answers. If '
            f'it does not answer, it counts as down, and the server is deleted without it in about {at_most_s} s.')


def _explained(action: InstanceActionsRow, why: str | None) -> api_request.Row:
    return {**action, 'message': action['message'] or why} if action['finished_at'] is None else {**action}


def index(req: api_request.Request, server_id: str) -> JsonDocument:
    limit = paging.limit(req)
    since, before = req.query.one('changes-since'), req.query.one('changes-before')
    paging.check_period(since, before)
    with server_lookup.cell_of(req, server_id).db.reader() as conn:
        why = _why_open(req, conn, _server(req, conn, server_id, _RULE + 'list'))
        rows = instance_actions.by_instance(
            conn, server_id, limit=limit + 1, marker=paging.marker(req),
            changes_since=since, changes_before=before)
    build = ACTION.builder(req)
    body = {'instanceActions': [build(_explained(row, why)) for row in rows[:limit]]}
    if req.has('action_paging') and len(rows) > limit > 0:
        body['links'] = paging.next_links(req, f'servers/{server_id}/os-instance-actions',
                                          rows[limit - 1]['request_id'])
    return body


def show(req: api_request.Request, server_id: str, id: str) -> JsonDocument:
    with server_lookup.cell_of(req, server_id).db.reader() as conn:
        server = _server(req, conn, server_id, _RULE + 'show')
        action = instance_actions.get(conn, server_id, id)
        why = _why_open(req, conn, server)
        reads_errors = req.allows(EVENTS, server_lookup.target(server))
        reads_reasons = reads_errors and req.allows(DETAILS, server_lookup.target(server))
        shows_events = req.has('action_events_for_owners') or reads_errors
        events = instance_actions.events(conn, action['id']) if shows_events else []
    body = ACTION.builder(req)(_explained(action, why))
    if shows_events:
        build = EVENT.builder(req, view=server['project_id'])
        body['events'] = [build(_with_reason(event) if reads_reasons else event) for event in events]
    return {'instanceAction': body}


def _with_reason(event: InstanceActionEventsRow) -> api_request.Row:
    """Return an event with the error message that administrators see; owners see a simplified message."""
    return {**event, 'details': event['details'] and faults.for_administrators(event['details'], event['traceback'])}


_PATH = '/servers/{server_id}/os-instance-actions'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'list', query=server_schemas.ACTIONS,
          errors=(400, 401, 403, 404)),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', checks=(EVENTS, DETAILS),
          query=server_schemas.NOTHING, errors=(401, 403, 404)),
)
