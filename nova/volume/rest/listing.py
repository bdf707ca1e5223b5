"""Lists of resources: filters, sorting, markers and links."""
from __future__ import annotations

import ast
import datetime
import functools
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import Any, cast, TYPE_CHECKING, TypedDict

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.volumes import volumes as db
from nova.volume.rest import schemas
from nova.volume.rest.schemas import flag
from nova.web import formats
from nova.web import params
from nova.web import resource
from nova.web import sizes

if TYPE_CHECKING:
    from nova.json_types import Json
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest
    from nova.web.routes import Route


class Identified(TypedDict):
    """Any row of a list."""

    id: str


class Named(Identified):
    """A row of a list that is sorted in memory."""

    name: str


MAX_LIMIT = 1000
SORTED = ('sort', 'sort_key', 'sort_dir')
EVERYONE = ('all_tenants', 'all_projects')
PAGED = ('limit', 'marker', 'offset')
COMPARED_TIMES = 60                      # first microversion with filters by time
TIME_OPERATORS = ('gt', 'gte', 'lt', 'lte', 'eq', 'neq')
MAX_TIMES = 8                            # maximum number of conditions in a filter by time
MAX_ITEMS = 4096                         # maximum number of characters in a filter with a dictionary or a list
MAX_NAMES = 3                           # maximum number of names in an error message
_NUMBERS = ('limit', 'offset')


class Query(params.Query):
    """Parameters of a query string. The handler gets {name: last value} as strings.

    :param names: known parameters
    :param times: names of parameters that exist since COMPARED_TIMES
    :param refuses: refuse unknown parameters; otherwise a client could take an unfiltered list for a filtered one
    """

    def __init__(self, *names: str, times: Iterable[str] = (), refuses: bool = True) -> None:
        super().__init__(*(params.Param(name, {'type': 'string'} if name not in _NUMBERS else _integer(),
                                        since=COMPARED_TIMES if name in times else 0) for name in names),
                         closed=0 if refuses else None)

    def validate(self, query_string: str, version: int, relaxed: bool = False) -> Any:
        """Parse a query string.

        :raises BadRequest: malformed, or an unknown name
        """
        query = dict(params.parse_bounded(query_string))
        known = sorted(str(param.name) for param in self.params if param.at(version))
        unknown = sorted(query.keys() - set(known)) if self.is_closed(version) else ()
        if unknown:
            shown = ', '.join(name[:resource.MAX_SHOWN] for name in unknown[:MAX_NAMES])
            raise exception.BadRequest(f'Invalid filters {shown} are found in query options. Supported filters: '
                                       f'{", ".join(known) or "none"}.')
        return query


def _integer() -> dict[str, Any]:
    return {'type': 'integer', 'minimum': 0}


def listed(path: str, name: str, rule: str | None, shown: resource.Resource, view: str = 'show', *, first: str = 'desc',
           prepare: resource.Prepare | None = None, volume: resource.Resource | None = None) -> Route:
    """Return the route of a list.

    :param name, rule: name and policy of the operation
    :param first: default direction of sorting by creation time
    :param prepare: see resource.Page
    :param volume: see ``page``
    """
    times = [name for name, column in shown.filters.items() if _kind(shown, column) is datetime.datetime]
    of_volume = [] if volume is None else [name for name, column in volume.filters.items() if (
        name not in shown.filters and _kind(volume, column) is not datetime.datetime)]
    return schemas.route(
        'GET', path, functools.partial(page, direction=first, volume=volume), rule, name=name,
        query=Query(*shown.filters, *of_volume, *EVERYONE, *PAGED, *SORTED, 'with_count', times=times),
        answer=resource.Page(shown, view, prepare, {f'{shown.plural}_links': schemas.LINKS, 'count': schemas.INTEGER}))


def _kind(shown: resource.Resource, column: str) -> type:
    assert shown.table is not None
    return db.kind_of(shown.table, column)


def asked_of(request: VolumeRequest) -> nova_context.Projects | str:
    """Return the caller's project, or all projects if an administrator asks for them."""
    everyone = flag('all_tenants', request.query.get('all_tenants', request.query.get('all_projects')))
    return nova_context.ALL_PROJECTS if everyone and request.context.is_admin else request.context.project_id or ''


def page(request: VolumeRequest, direction: str = 'desc', volume: resource.Resource | None = None) -> JsonObject:
    """Return a page of the project's rows, or of all projects if an administrator asks for them.

    Only administrators and services see resources of servers that are hidden from users.

    :param direction: default direction of sorting by creation time
    :param volume: VOLUME if its filters apply to the volumes of the rows. Horizon lists transfers with the filters of
        its list of volumes
    """
    query, answer = request.query, cast(resource.Page, cast('Route', request.route).answer)
    shown, table = answer.resource, answer.resource.table
    assert table is not None
    project_id, (equal, compare) = asked_of(request), _conditions(query, shown, shown.filters)
    if volume is not None and volume.table is not None:
        of_volume = _conditions(query, volume, volume.filters.keys() - shown.filters.keys())
        if any(of_volume):
            compare.append(('volume_id', 'in', db.matching(volume.table, *of_volume)))
    limit = min(_number(query, 'limit', MAX_LIMIT), MAX_LIMIT)
    sort = _sort(query, shown.sort_keys, 'created_at', direction)
    with request.store.db.reader() as conn:
        rows = cast(list[Identified], db.page(
            conn, table, project_id, equal, administrative=request.trusted, sort=sort, compare=compare,
            marker=query.get('marker'), limit=limit + 1, offset=_number(query, 'offset', 0)))
        found = answer.prepare(conn, rows[:limit]) if answer.prepare else rows[:limit]
    build = answer.view.documents(request)
    documents = [build(row) for row in found]
    number = sizes.fitting(documents)
    body: JsonObject = {shown.plural: [*documents[:number]]}
    if len(rows) > limit > 0 or number < len(documents):
        body[f'{shown.plural}_links'] = _next(request, rows[min(limit, number) - 1]['id'])
    if flag('with_count', query.get('with_count')):
        with request.store.db.reader() as conn:
            body['count'] = db.count(conn, table, project_id, equal, request.trusted, compare)
    return body


def _conditions(query: dict[str, str], shown: resource.Resource, names: Iterable[str],
                ) -> tuple[dict[str, bool | int | str], list[tuple[str, str, object]]]:
    """Return ({column: value}, further conditions) of these filters of a resource."""
    equal: dict[str, bool | int | str] = {}
    compare: list[tuple[str, str, object]] = []
    for name in names:
        if (text := query.get(name)) is not None:
            column = shown.filters[name]
            kind = _kind(shown, column)
            if kind is dict:
                compare += _items(text)
            elif kind is datetime.datetime:
                compare += _times(name, text)
            elif len(texts := _alternatives(text)) > 1:
                compare.append((column, 'in', [_value(kind, {name: each}, name) for each in texts]))
            else:
                equal[column] = _value(kind, {name: texts[0]}, name)
    return equal, compare


def _items(text: str) -> list[tuple[str, str, object]]:
    """Parse the value of ``metadata={'key': 'value'}``. Clients send a Python dictionary or JSON."""
    items = _literal(text)
    if not isinstance(items, dict) or not all(isinstance(each, str) for pair in items.items() for each in pair):
        raise exception.BadRequest(f'metadata must be {{"key": "value", ...}} of at most {MAX_ITEMS} characters, with '
                                   'texts as values.')
    return [('metadata', 'has', items)] if items else []


def _literal(text: str) -> Any:
    """Return the value of a JSON document or a Python literal; None: it is neither, is too long or cannot be stored."""
    for parse in (utils.load_json, ast.literal_eval) if len(text) <= MAX_ITEMS else ():
        try:
            found = parse(text)
            utils.encode_json(found)                     # refuses texts that are not Unicode
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        return found
    return None


def _alternatives(text: str) -> list[str]:
    """Return the values of a filter; a row must have one of them. Horizon sends ``status=['available']``."""
    found = _literal(text) if text.startswith("['") else None
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else [text]


def _times(name: str, text: str) -> list[tuple[str, str, object]]:
    """Parse ``created_at=gte:2026-01-01T00:00:00,lt:2026-02-01T00:00:00``."""
    found: list[tuple[str, str, object]] = []
    for part in text.split(',')[:MAX_TIMES + 1] if text else ():
        op, colon, rest = part.partition(':')
        op, value = (op.strip(), rest) if op.strip() in TIME_OPERATORS else ('eq', part)
        try:
            found.append((name, op, formats.parse_time(value.strip())))
        except (ValueError, OverflowError):
            found = []
            break
    if not 0 < len(found) <= MAX_TIMES:
        raise exception.BadRequest(f'{name} must be an ISO 8601 time, or up to {MAX_TIMES} conditions OPERATOR:TIME '
                                   f'separated by commas; the operators are {", ".join(TIME_OPERATORS)}.')
    return found


def _value(kind: type, query: dict[str, str], name: str) -> bool | int | str:
    """Convert a filter's value to the type of its column."""
    if kind is bool:
        return flag(name, query[name])
    return _number(query, name, 0) if kind is int else query[name]


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise exception.BadRequest(f'{name} must be an integer.')
    return int(text)


def page_of_types(request: VolumeRequest, rows: Sequence[Named]) -> JsonObject:
    """Return a page of rows that are in memory. Sort them only if the query has a sort parameter.

    :raises InvalidMarker: no row has the id in ``marker``
    """
    query, answer = request.query, cast(resource.Page, cast('Route', request.route).answer)
    if any(name in query for name in SORTED):
        for column, direction in reversed(_sort(query, ['name', 'id'], 'name', 'asc')):
            rows = sorted(rows, key=lambda row: row['name' if column == 'name' else 'id'], reverse=direction == 'desc')
    start, marker = _number(query, 'offset', 0), query.get('marker')
    if marker:
        found = [number for number, row in enumerate(rows, 1) if row['id'] == marker]
        if not found:
            raise exception.InvalidMarker(marker=marker[:255])
        start += found[0]
    shown = rows[start:start + min(_number(query, 'limit', MAX_LIMIT), MAX_LIMIT)]
    views = [*map(answer.view.documents(request), shown)]
    number = sizes.fitting(views)
    body: JsonObject = {answer.resource.plural: [*views[:number]]}
    if shown and len(rows) > start + number:
        body[f'{answer.resource.plural}_links'] = _next(request, shown[number - 1]['id'])
    return body


def _next(request: VolumeRequest, last_id: str) -> list[Json]:
    following = urllib.parse.urlencode({**{name: value for name, value in request.query.items() if name != 'offset'},
                                        'marker': last_id})
    return [{'rel': 'next', 'href': f'{request.url}?{following}'}]


def _sort(query: dict[str, str], columns: Sequence[str], first: str, default: str) -> list[tuple[str, str]]:
    """Return [(column, direction)].

    :param columns: columns by which lists can be sorted
    :param first, default: default column and direction
    """
    if not any(name in query for name in SORTED):
        return [(first, default), ('id', default)]
    words = [part.partition(':') for part in query.get('sort', '').split(',') if part]
    pairs = [(key.strip(), direction or 'desc') for key, _, direction in words] or [
        (query.get('sort_key', first), query.get('sort_dir', 'desc'))]
    for key, direction in pairs:
        if key not in columns or direction not in ('asc', 'desc'):
            raise exception.BadRequest(f'Invalid sort key or direction: {key[:40]}:{direction[:10]}')
    last = pairs[-1][1]
    return [*((key, direction) for key, direction in dict(pairs).items() if key != 'id'), ('id', last)]
