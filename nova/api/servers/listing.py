"""GET /servers and /servers/detail: filters, sort, paging."""
import dataclasses
import datetime
from collections.abc import Callable, Collection
from typing import Any, cast

from nova import context as nova_context
from nova import exception
from nova import states
from nova import utils
from nova.api import cell_queries
from nova.api import paging
from nova.api.servers import down_cells
from nova.api import request as api_request
from nova.api.servers import category as server_category
from nova.api.servers import cell_pages
from nova.api.servers import fields as server_fields
from nova.api.servers import schemas as server_schemas
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.servers import listing
from nova.db.tables.rows import InstancesRow
from nova.json_types import JsonDocument
from nova.web import formats
from nova.web import params
from nova.web.fields import Fields
from nova.web.params import QueryValues
from nova.web.routes import Route

_RULE = 'os_compute_api:servers:'
ALL_FILTERS = _RULE + 'allow_all_filters'
_NOT_FILTERS = frozenset({'limit', 'marker', 'sort_key', 'sort_dir', 'all_tenants', 'deleted', 'soft_deleted',
                          'status', 'project_id', 'tenant_id', *server_schemas.WITHOUT_EFFECT})

# filter that every user may use -> first version that allows this
USER_FILTERS = {
    **dict.fromkeys(('reservation_id', 'name', 'display_name', 'status', 'image', 'flavor', 'ip',
                     'changes-since'), 1),
    'ip6': 5, **dict.fromkeys(('tags', 'tags-any', 'not-tags', 'not-tags-any'), 26), 'changes-before': 66,
    'locked': 73,
    **dict.fromkeys(('availability_zone', 'config_drive', 'key_name', 'created_at', 'launched_at',
                     'terminated_at', 'power_state', 'task_state', 'vm_state', 'progress', 'user_id'), 83),
}


def index(req: api_request.Request) -> JsonDocument:
    """List servers with ID, name and links."""
    return _list(req, server_fields.INDEX, _RULE + 'index:get_all_tenants', ('servers',))


def detail(req: api_request.Request) -> JsonDocument:
    return _list(req, server_fields.DETAIL, _RULE + 'detail:get_all_tenants', ('servers', 'detail'))


def _list(req: api_request.Request, table: Fields, all_tenants_rule: str,
          path: tuple[str, ...]) -> JsonDocument:
    query = to_query(req, all_tenants_rule)
    if query is None or query.limit == 1:
        return {'servers': []}
    assert query.limit is not None
    allowed = table.allowed(req)
    columns = table.columns(req.version, allowed) | {'uuid'}
    try:
        rows, statuses, down = _gather(req, query, columns, server_fields.shows_host_status(table, req))
    except listing.MarkerNotFound:
        raise exception.InvalidMarker(marker=query.marker) from None
    except listing.BadPattern as error:
        raise exception.InvalidInput(
            reason=f'{error} is not a supported regular expression.') from None
    except listing.TooSlow:
        raise exception.InvalidInput(
            reason='too many servers must be matched against the regular expressions; use plain text or '
                   'additional filters.') from None
    more = len(rows) == query.limit
    if more:
        rows.pop()
    build = table.compiled(req.version, allowed)
    view = server_fields.View(req, statuses, cast(list[InstancesRow], rows))
    servers = [build(row, view) for row in rows]
    if down:
        servers = [*down_cells.listed(req, table, down, query, view, query.limit - 1 - len(rows)), *servers]
    body = {'servers': servers}
    return paging.add_links(body, req, '/'.join(path), 'servers', rows[-1]['uuid'] if rows else None, more,
                            paging.BY_ID)


def _gather(req: api_request.Request, query: listing.Query, columns: set[str],
            with_status: bool) -> tuple[list[dict[str, Any]], dict[str, str], list[db_cells.Cell]]:
    """Return (rows of all cells, {host: status}, cells that are down).

    :raises ServiceUnavailable: no cell responds, or partial results are not allowed
    :raises MarkerNotFound: no responding cell has the marker
    """
    conf, cells = req.services.conf, req.services.cells
    statuses: dict[str, str] = {}

    def prepare(part: listing.Query, place: cell_pages.Place) -> cell_pages.Read:
        page = listing.prepare(part, columns, place)
        return lambda cell: read(cell, page)

    def read(cell: db_cells.Cell, page: Callable[[engine.Connection], cell_pages.Rows]) -> cell_pages.Rows:
        with cell.db.reader() as conn:
            rows = page(conn)
            hosts = {row['host'] for row in rows if row['host'] is not None} if with_status else set()
            statuses.update(server_fields.host_statuses(conn, hosts, conf.service_down_time, utils.utcnow()))
            return rows
    if len(cells.all()) == 1:
        found, down = cells.scatter(lambda cell: read(
            cell, lambda conn: listing.page(conn, query, columns)))
        rows, answered = [row for _cell, part in found for row in part], bool(found)
    else:
        query = dataclasses.replace(query, several=True)
        place = _place(req, query) if query.marker else None
        page = cell_pages.CellPage(cells, req.services.api_db, query, place, prepare)
        rows, answered, down = page.rows(), page.answered, page.down
    if not answered and not req.has('down_cells'):
        raise exception.ServiceUnavailable(service='database')
    cell_queries.check(req, down)
    return rows, statuses, down


def _place(req: api_request.Request, query: listing.Query) -> tuple[Any, ...] | None:
    """Return the position of the marker's server in the list; first search the server's mapped cell.

    :raises MarkerNotFound: no cell has the server
    :raises ServiceUnavailable: the marker was not found, and a cell is down
    """
    cells, marker = req.services.cells, str(query.marker)
    mapped = cells.mapped(marker)
    found = cells.read(lambda conn: listing.place_of(conn, query), mapped)[0] if mapped is not None else []
    for _cell, place in found:
        if place is not None:
            return place
    cell, place = cell_queries.first(req, lambda conn: listing.place_of(conn, query))
    if cell is None:
        raise listing.MarkerNotFound(query.marker)
    return place


def to_query(req: api_request.Request, all_tenants_rule: str) -> listing.Query | None:
    """Convert a request to a listing.Query for one row more than the page; return None for an empty result."""
    values, privileged = req.query, req.allows(ALL_FILTERS)
    filters: dict[str, Any] = {}
    matches: dict[str, str] = {}
    for name, given in values.items():
        if name in _NOT_FILTERS or name.startswith('_'):
            continue
        if privileged or USER_FILTERS.get(name, 1 << 30) <= req.version:
            kind, column = FILTERS.get(name, (None, ''))
            if kind is _pattern:
                matches[column] = given[-1]
            elif kind is not None:
                filters[column] = kind(name, given[-1])
    rows = _which_rows(values, privileged)
    category = server_category.visible_category(req)
    if category is not None and filters.setdefault('category', category) != category:
        return None
    paging.check_period(filters.get('changes-since'), filters.get('changes-before'))
    if 'status' in values:
        wanted = _statuses(req, values.many('status'), privileged)
        if not wanted:
            return None
        filters['status'] = wanted
        if states.STATUS[states.DELETED][0] in wanted:
            rows = 'all'
    hidden = _soft_deleted(values, filters, privileged, rows)
    if hidden is not None:
        filters['soft_deleted'] = hidden
        rows = 'all' if hidden and rows == 'deleted' else rows
    owner = _owner(req, all_tenants_rule)
    if owner == '':                      # an empty project ID was requested
        return None
    return listing.Query(owner, filters=filters, matches=matches, sort=_sort(req, privileged),
                         marker=paging.marker(req), limit=paging.limit(req) + 1, rows=rows)


def without_effect(req: api_request.Request, names: Collection[str]) -> list[str]:
    """Return the query keys that do not filter servers for this caller or version."""
    privileged = req.allows(ALL_FILTERS)
    chosen = {'status', *(name for name in FILTERS if privileged or USER_FILTERS.get(name, 1 << 30) <= req.version)}
    if privileged:
        chosen |= {'deleted', 'soft_deleted'}
    if 'all_tenants' in names:
        chosen |= {'all_tenants', 'project_id', 'tenant_id'}
    return sorted(set(names) - chosen)


def _owner(req: api_request.Request, all_tenants_rule: str) -> str | nova_context.Projects:
    """Return the project of the listed servers, or ALL_PROJECTS."""
    text = req.query.one('all_tenants')
    if text is None or not (text == '' or _boolean('all_tenants', text)):
        return req.project_id
    req.authorize(all_tenants_rule)
    return req.query.one('project_id', req.query.one('tenant_id', nova_context.ALL_PROJECTS))


def _which_rows(values: QueryValues, privileged: bool) -> str:
    if privileged and 'deleted' in values:
        return 'deleted' if _boolean('deleted', values.one('deleted') or 'true') else 'live'
    return 'all' if 'changes-since' in values else 'live'


def _soft_deleted(values: QueryValues, filters: dict[str, Any], privileged: bool, rows: str) -> bool | None:
    """Return a filter: False hides soft-deleted servers, True shows only soft-deleted and deleted servers, None all.

    Users see soft-deleted servers in lists with a filter for the status, the state or changes-since.
    """
    wanted = privileged and 'soft_deleted' in values and _boolean('soft_deleted', values.one('soft_deleted') or 'true')
    if rows == 'deleted':
        return wanted or None
    if wanted or rows == 'all' or filters.keys() & {'status', 'vm_state', 'changes-since', 'uuid'}:
        return None
    return False


def _statuses(req: api_request.Request, given: list[str], privileged: bool) -> list[str]:
    wanted = [value.upper() for value in given]
    known = [value for value in wanted if value in states.STATUSES]
    if req.has('strict_status_filter') and len(known) < len(wanted):
        unknown = next(value for value in wanted if value not in known)
        raise exception.InvalidInput(reason=f'Invalid filter value status: {unknown[:80]}')
    if 'DELETED' in known and not privileged:
        raise exception.Forbidden('Only administrators may list deleted servers.')
    return known


def _sort(req: api_request.Request, privileged: bool) -> tuple[tuple[str, str], ...]:
    keys, directions = req.query.many('sort_key'), req.query.many('sort_dir')
    for direction in directions:
        if direction not in ('asc', 'desc'):
            raise exception.BadRequest('Unknown sort direction, must be one of: asc, desc')
    if len(directions) > max(len(keys), 1):
        raise exception.BadRequest('There are more sort directions than sort keys.')
    if not keys:
        return (('created_at', directions[0] if directions else 'desc'),)
    default = directions[0] if directions else 'desc'
    sort: dict[str, str] = {}
    for number, key in enumerate(keys):
        if key in ('host', 'node', 'launched_on') and not privileged:
            raise exception.Forbidden(f'Only administrators can sort servers by {key}.')
        column = server_schemas.SORT_KEYS.get(key) or server_schemas.OLD_SORT_KEYS.get(key)
        if column is not None:
            sort.setdefault(column, directions[number] if number < len(directions) else default)
    return tuple(sort.items()) or (('created_at', default),)


# ---- conversion of filter values --------------------------------------------

def _text(_name: str, value: str) -> str:
    return value


def _pattern(_name: str, value: str) -> str:
    return value


def _boolean(name: str, value: str) -> bool:
    if value in params.TRUE or value in ('t', 'T', 'True', 'y', 'Y'):
        return True
    if value in params.FALSE or value in ('f', 'F', 'n', 'N'):
        return False
    raise exception.InvalidInput(reason=f'{name} is not a boolean: {value[:80]}')


def _integer(name: str, value: str) -> int:
    if not formats.signed(value) or len(value) > 9:
        raise exception.InvalidInput(reason=f'{name} is not an integer: {value[:80]}')
    return int(value)


def _moment(name: str, value: str | datetime.datetime) -> datetime.datetime:
    if not isinstance(value, str):
        return value
    try:
        return formats.parse_time(value)
    except (ValueError, OverflowError):
        raise exception.InvalidInput(reason=f'{name} is not a date and time: {value[:80]}') from None


# filter -> (conversion of its value, column or condition)
FILTERS: dict[str, tuple[Callable[[str, Any], Any], str]] = {
    **{name: (_pattern, name) for name in (
        'kernel_id', 'ramdisk_id', 'hostname', 'key_name', 'node', 'reservation_id', 'availability_zone',
        'description', 'locked_by', 'root_device_name', 'access_ip_v4', 'access_ip_v6', 'ip', 'ip6')},
    'name': (_pattern, 'display_name'), 'display_name': (_pattern, 'display_name'),
    'display_description': (_pattern, 'description'),
    **{name: (_text, name) for name in ('user_id', 'vm_state', 'task_state', 'host', 'uuid')},
    'image': (_text, 'image_id'), 'image_ref': (_text, 'image_id'), 'flavor': (_text, 'flavor_id'),
    **{name: (_integer, name) for name in ('power_state', 'progress', 'launch_index')},
    **{name: (_boolean, name) for name in ('config_drive', 'locked')},
    'auto_disk_config': (lambda name, value: 'AUTO' if value == 'AUTO' or value != 'MANUAL' and _boolean(name, value)
                         else 'MANUAL', 'disk_config'),
    server_category.KEY: (_text, 'category'),
    **{name: (_moment, name) for name in ('created_at', 'launched_at', 'terminated_at', 'changes-since',
                                          'changes-before')},
    **{name: (lambda _name, value: value.split(',')[:50], name) for name in (
        'tags', 'tags-any', 'not-tags', 'not-tags-any')},
}

_ERRORS = (400, 401, 403)
ROUTES = (
    Route('GET', '/servers', index, policy=_RULE + 'index',
          checks=(_RULE + 'index:get_all_tenants', ALL_FILTERS), query=server_schemas.LIST, errors=_ERRORS),
    Route('GET', '/servers/detail', detail, policy=_RULE + 'detail',
          checks=(_RULE + 'detail:get_all_tenants', ALL_FILTERS, *server_fields.RULES),
          query=server_schemas.LIST, errors=_ERRORS),
)
