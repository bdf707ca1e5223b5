"""GET /os-audit (an API extension): the audit log of requests and their outcome."""
import datetime
from collections.abc import Callable
from typing import Any

from nova import exception
from nova.api import cell_queries
from nova.api import paging
from nova.api import request as api_request
from nova.api import shapes
from nova.db import engine
from nova.db.audit import records
from nova.db.cells import cells as db_cells
from nova.db.placement import hidden
from nova.json_types import JsonDocument
from nova.web import fields
from nova.web import params
from nova.web.params import Param
from nova.web.params import Query
from nova.web.routes import Route

INDEX = 'nova:audit:index'
ALL_PROJECTS = INDEX + ':all_projects'
# query key -> column
_FILTERS = {'user_id': 'user_id', 'project_id': 'project_id', 'action': 'action', 'target_type': 'target_type',
            'target_id': 'target_id', 'outcome': 'outcome', 'request_id': 'request_id',
            'remote_address': 'remote_address'}
Field = fields.Field
ROUNDS = 10               # maximum number of reads to fill one page with records that the caller may see

RECORD = fields.Fields(
    Field('id', 'uuid', type='string format=uuid required'),
    Field('created_at', lambda row, req: row['created_at'].isoformat(timespec='microseconds') + 'Z',
          type='string format=date-time required'),
    *(Field(name, name, type='string|null required') for name in (
        'request_id', 'user_id', 'project_id', 'domain_id', 'credential_id', 'service_user_id', 'remote_address')),
    *(Field(name, name, type='string required') for name in ('method', 'route', 'action')),
    *(Field(name, name, type='string|null required') for name in ('target_type', 'target_id', 'target_part')),
    Field('outcome', 'outcome', type='string required'),
    Field('code', 'code', type='integer|null required'),
    Field('reason', 'reason', type='string|null required'),
    Field('roles', lambda row, req: row['roles'].split(',') if row['roles'] else [], type=shapes.ROLES),
    Field('sealed', lambda row, req: row['seq'] is not None, type='boolean required'))

LIST = Query(
    *(Param(name, params.STRING) for name in _FILTERS if name != 'outcome'),
    Param('outcome', {'type': 'string', 'enum': list(records.OUTCOMES)}), Param('all_projects', params.BOOLEAN),
    Param('since', params.DATE_TIME), Param('until', params.DATE_TIME), Param('limit', params.LIMIT),
    Param('marker', params.STRING), closed=1, single=1)


def index(req: api_request.Request) -> JsonDocument:
    """List records of the API database and of all cells that respond, newest first."""
    filters, limit = _filters(req), paging.limit(req)
    since, until = req.query.one('since'), req.query.one('until')
    if since is not None and until is not None and until < since:
        raise exception.BadRequest('The value of since must be less than or equal to until.')
    marker = paging.marker(req)
    after = _place(req, filters, marker) if marker is not None else None
    build, shown, partial, last, more = RECORD.builder(req), list[api_request.Row](), False, None, True
    for _round in range(ROUNDS):
        rows, down = _everywhere(req, lambda conn: records.page(conn, filters, since, until, after, limit + 1))
        rows.sort(key=lambda row: (row['created_at'], row['uuid']), reverse=True)
        shown += _seen(req, rows[:limit])[:limit - len(shown)]
        partial, more = partial or bool(down), len(rows) > limit
        if len(shown) == limit or not rows:
            last, more = shown[-1] if shown else None, more or bool(shown and rows and shown[-1] is not rows[-1])
            break
        last = rows[:limit][-1]
        if not more:
            break
        after = last['created_at'], last['uuid']
    body = {'audit_records': [build(row) for row in shown], 'partial': partial}
    return paging.add_links(body, req, 'os-audit', 'audit_records', last['uuid'] if last else None, more)


def _seen(req: api_request.Request, rows: list[api_request.Row]) -> list[api_request.Row]:
    """Return the records, except those of other users about resources that are hidden from the caller."""
    others = [row for row in rows if row['user_id'] != req.context.user_id] if not req.context.is_admin else []
    idents = {row[name] for row in others for name in ('target_id', 'target_part')} - {None}
    if not idents:
        return rows
    with req.services.api_db.reader() as conn:
        unseen = hidden.among(conn, idents)
    return [row for row in rows if row['user_id'] == req.context.user_id
            or not unseen & {row['target_id'], row['target_part']}]


def _filters(req: api_request.Request) -> dict[str, Any]:
    """Return the filters {column: value}. Reading records of other projects requires a policy rule."""
    filters = {column: req.query.one(name) for name, column in _FILTERS.items() if name in req.query}
    if req.query.one('all_projects', False):
        req.authorize(ALL_PROJECTS)
        return filters
    if filters.setdefault('project_id', req.project_id) != req.project_id:
        req.authorize(ALL_PROJECTS)
    return filters


def _everywhere(req: api_request.Request,
                function: Callable[[engine.Connection], list[Any]]) -> tuple[list[Any], list[db_cells.Cell]]:
    """Return (rows of all databases that respond, cells that are down)."""
    with req.services.api_db.reader() as conn:
        rows = function(conn)
    found, down = cell_queries.ask(req, function)
    return [*rows, *(row for _cell, listed in found for row in listed)], down


def _place(req: api_request.Request, filters: dict[str, Any], marker: str) -> tuple[datetime.datetime, str]:
    """Return the position of the marker's record in the list.

    :raises InvalidMarker: no visible record has this ID
    """
    owner = {name: value for name, value in filters.items() if name == 'project_id'}
    places, _down = _everywhere(req, lambda conn: [records.place_of(conn, marker, owner)])
    place = next(filter(None, places), None)
    if place is None:
        raise exception.InvalidMarker(marker=marker)
    return place


ROUTES = (
    Route('GET', '/os-audit', index, policy=INDEX, checks=(ALL_PROJECTS,), query=LIST, errors=(400, 401, 403, 503)),
)
