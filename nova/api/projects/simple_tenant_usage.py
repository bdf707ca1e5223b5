"""Usage of projects in a period: hours, and hours times memory, disk and vCPUs."""
from __future__ import annotations

import datetime
import heapq
import operator

from nova import context as nova_context
from nova import exception
from nova import states
from nova import utils
from nova.api import cell_queries
from nova.api import paging
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.db import engine
from nova.db.servers import usage
from nova.json_types import JsonDocument
from nova.web import formats
from nova.web import params
from nova.web.routes import Route

_RULE = 'os_compute_api:os-simple-tenant-usage:'
DEFAULT_SPAN = datetime.timedelta(weeks=4)

_COMMON = (params.Param('start', params.STRING), params.Param('end', params.STRING),
           params.Param('limit', params.LIMIT, since=40), params.Param('marker', params.STRING, since=40))
LIST = params.Query(*_COMMON, params.Param('detailed', params.STRING), closed=75)
SHOW = params.Query(*_COMMON, closed=75)

# The documented states do not include soft-deleted. STOPPED is closest: the guest is off, and its disks are kept.
_STATES = {states.SOFT_DELETED: states.STOPPED}


_SUMS = ('total_hours', 'total_memory_mb_usage', 'total_local_gb_usage', 'total_vcpus_usage')


class Usage:
    """Sums up the usage of servers.

    :param begin, end: reported period
    :param now: running servers are charged until now
    """

    def __init__(self, begin: datetime.datetime, end: datetime.datetime, now: datetime.datetime) -> None:
        self.begin, self.end, self.now = begin, end, now
        self.projects: dict[str, api_request.Document] = {}

    def add(self, row: usage.ServerUsage, detailed: bool) -> None:
        project = self.projects.get(row['project_id']) or self.start(row['project_id'])
        hours = self.hours(row)
        local_gb = row['root_gb'] + row['ephemeral_gb']
        project['total_hours'] += hours
        project['total_memory_mb_usage'] += hours * row['memory_mb']
        project['total_local_gb_usage'] += hours * local_gb
        project['total_vcpus_usage'] += hours * row['vcpus']
        if detailed:
            project['server_usages'].append(self.server(row, hours, local_gb))

    def merge(self, other: Usage) -> None:
        """Add the sums of another cell for the same period."""
        for project_id, theirs in other.projects.items():
            mine = self.projects.setdefault(project_id, theirs)
            if mine is not theirs:
                for name in _SUMS:
                    mine[name] += theirs[name]
                mine['server_usages'] += theirs['server_usages']

    def start(self, project_id: str) -> api_request.Document:
        """Create the record of a project, with sums of 0."""
        found = self.projects[project_id] = {
            'tenant_id': project_id, 'start': utils.exact_time(self.begin),
            'stop': utils.exact_time(self.end), 'total_hours': 0.0,
            'total_memory_mb_usage': 0.0, 'total_local_gb_usage': 0.0, 'total_vcpus_usage': 0.0,
            'server_usages': []}
        return found

    def hours(self, row: usage.ServerUsage) -> float:
        """Return the hours that a server existed within the period."""
        begin = max(row['launched_at'], self.begin)
        end = min(row['terminated_at'] or self.now, self.end, self.now)
        return max(0.0, (end - begin).total_seconds() / 3600)

    def server(self, row: usage.ServerUsage, hours: float, local_gb: int) -> JsonDocument:
        ended, state = row['terminated_at'], row['vm_state']
        uptime = ((ended or self.now) - row['launched_at']).total_seconds()
        return {'instance_id': row['uuid'], 'name': row['display_name'], 'tenant_id': row['project_id'],
                'flavor': row['flavor']['name'], 'hours': hours, 'memory_mb': row['memory_mb'],
                'local_gb': local_gb, 'vcpus': row['vcpus'], 'started_at': utils.exact_time(row['launched_at']),
                'ended_at': utils.exact_time(ended), 'state': 'terminated' if ended else _STATES.get(state, state),
                'uptime': max(0, int(uptime))}


def _period(req: api_request.Request) -> tuple[datetime.datetime, datetime.datetime, datetime.datetime]:
    """Return (begin, end, now) of the query; default: the last four weeks.

    :raises BadRequest: a time is malformed, or begin is after end
    """
    now = utils.utcnow()
    moments = []
    for name in ('start', 'end'):
        text = req.query.one(name)
        try:
            moments.append(formats.parse_time(text) if text else None)
        except ValueError:
            raise exception.BadRequest(f'Invalid {name} time: {text[:40]!r} is not a date and time.') from None
    end = moments[1] or now
    try:
        begin = moments[0] or end - DEFAULT_SPAN
    except OverflowError:
        raise exception.BadRequest('Invalid end time: it is too early.') from None
    if begin > end:
        raise exception.BadRequest('Invalid start time. The start time cannot occur after the end time.')
    return begin, end, now


def _add_all(req: api_request.Request, found: Usage, project_id: str | nova_context.Projects, detailed: bool) -> None:
    category = server_category.visible_category(req)

    def ask(conn: engine.Connection) -> Usage:
        part = Usage(found.begin, found.end, found.now)
        for row in usage.servers(conn, found.begin, found.end, project_id, detailed, category):
            part.add(row, detailed)
        return part
    for _cell, part in cell_queries.ask(req, ask)[0]:
        found.merge(part)


def _add_page(req: api_request.Request, found: Usage, project_id: str | nova_context.Projects,
              detailed: bool) -> tuple[str | None, bool]:
    """Add one page of servers to the sums; return (ID of the last server if more follow, whether more follow)."""
    limit, marker = paging.limit(req), paging.marker(req)
    category = server_category.visible_category(req)
    if marker is not None and not formats.is_uuid(marker):
        raise exception.InvalidMarker(marker=marker[:80])

    def ask(conn: engine.Connection) -> tuple[bool, list[usage.ServerUsage]]:
        return (marker is None or usage.is_known(conn, marker, project_id),
                usage.page(conn, found.begin, found.end, limit + 1, project_id, marker, category))
    answered, down = cell_queries.ask(req, ask)
    answers = [answer for _cell, answer in answered]
    if not any(known for known, _page in answers):
        if down:
            raise exception.ServiceUnavailable(service='database')
        raise exception.InvalidMarker(marker=(marker or '')[:80])
    rows = list(heapq.merge(*(page for _known, page in answers), key=operator.itemgetter('uuid')))
    for row in rows[:limit]:
        found.add(row, detailed)
    more = len(rows) > limit > 0
    return rows[limit - 1]['uuid'] if more else None, more


def _collect(req: api_request.Request, project_id: str | nova_context.Projects,
             detailed: bool) -> tuple[Usage, str | None, bool]:
    """Return (Usage, ID of the last server if more follow, whether more follow)."""
    found = Usage(*_period(req))
    if req.has('usage_paging'):
        return found, *_add_page(req, found, project_id, detailed)
    _add_all(req, found, project_id, detailed)
    return found, None, False


def index(req: api_request.Request) -> JsonDocument:
    detailed = req.query.one('detailed') in params.TRUE          # the documented value is 1; some clients send True
    found, last, more = _collect(req, nova_context.ALL_PROJECTS, detailed)
    projects = [found.projects[ident] for ident in sorted(found.projects)]
    if not detailed:
        for project in projects:
            del project['server_usages']
    return paging.add_links({'tenant_usages': projects}, req, 'os-simple-tenant-usage', 'tenant_usages', last, more)


def show(req: api_request.Request, id: str) -> JsonDocument:
    req.authorize(_RULE + 'show', {'project_id': id, 'user_id': None})
    found, last, more = _collect(req, id, True)
    body = {'tenant_usage': found.projects.get(id) or found.start(id)}
    return paging.add_links(body, req, f'os-simple-tenant-usage/{id}', 'tenant_usage', last, more)


_PATH = '/os-simple-tenant-usage'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'list', query=LIST, errors=(400, 401, 403)),
    Route('GET', _PATH + '/{id}', show, checks=(_RULE + 'show',), query=SHOW, errors=(400, 401, 403)),
)
