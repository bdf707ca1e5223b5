"""Pagination of lists: filters, order, markers and links of a query string."""
from __future__ import annotations

import ast
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from typing import cast, TYPE_CHECKING, TypedDict, TypeVar

from oslo_utils import strutils

from nova import context as nova_context
from nova import exception
from nova.db import engine
from nova.db.volumes import volumes as db
from nova.volume.rest import schemas
from nova.web import formats
from nova.web import sizes

if TYPE_CHECKING:
    from nova.json_types import Json
    from nova.json_types import JsonObject
    from nova.volume.rest.request import VolumeRequest
    from nova.volume.store.types import Type

class Identified(TypedDict):
    """Any row of a list."""

    id: str


_Row = TypeVar('_Row', bound=Identified)

MAX_LIMIT = 1000
SORT = ('created_at', 'updated_at', 'name', 'status', 'size', 'bootable', 'id')
SORTED = ('sort', 'sort_key', 'sort_dir')
PAGED = ('limit', 'marker', 'offset')
EVERYONE = ('all_tenants', 'all_projects')
TIMES = ('created_at', 'updated_at')
COMPARED_TIMES = 60                      # microversion of these filters
TIME_OPERATORS = ('gt', 'gte', 'lt', 'lte', 'eq', 'neq')
MAX_TIMES = 8                            # conditions of one filter
MAX_ITEMS = 4096                         # characters of a metadata filter
MOST_NAMED = 3                           # names in an error message


def flag(name: str, value: object, default: bool = False) -> bool:
    """Parse a boolean of a body or query.

    :raises BadRequest: neither true nor false: a misspelt word must not count as the default
    """
    if value in (None, ''):
        return default
    try:
        return strutils.bool_from_string(value, strict=True)
    except ValueError:
        raise exception.BadRequest(f'{name} must be true or false, not {str(value)[:40]!r}.') from None


def check(request: VolumeRequest, known: Iterable[str]) -> None:
    """Refuse unknown query parameters: a client must not take an unfiltered list for a filtered one.

    :param known: allowed names
    :raises BadRequest: an unknown name
    """
    known = sorted(known)
    unknown = ', '.join(name[:schemas.MOST_SHOWN] for name in sorted(request.query.keys() - set(known))[:MOST_NAMED])
    if unknown:
        raise exception.BadRequest(f'Invalid filters {unknown} are found in query options. Supported are: '
                                   f'{", ".join(known) or "none"}.')


def asked_of(request: VolumeRequest) -> nova_context.Projects | str:
    """Return the caller's project, or all projects at an administrator's request."""
    everyone = flag('all_tenants', request.query.get('all_tenants', request.query.get('all_projects')))
    return nova_context.ALL_PROJECTS if everyone and request.context.is_admin else request.context.project_id or ''


def each(request: VolumeRequest, view: Callable[[_Row, VolumeRequest], JsonObject],
         ) -> Callable[[engine.Connection, list[_Row]], list[JsonObject]]:
    """Return a view of rows that needs nothing else from the database."""
    return lambda conn, rows: [view(row, request) for row in rows]


def page(request: VolumeRequest, table: engine.Table, key: str,
         view: Callable[[engine.Connection, list[_Row]], list[JsonObject]],
         filters: dict[str, str], direction: str = 'desc') -> JsonObject:
    """Return a page of the project's rows, or of all projects for an administrator.

    Resources of administrative servers are visible to administrators and services only.

    :param view: makes the documents of rows of the table
    :param filters: {query parameter: column}, in addition to project_id
    :param direction: default direction, by creation time
    """
    query, filters = request.query, {**filters, 'project_id': 'project_id'}
    times = [name for name in TIMES if name in table.c and request.microversion >= COMPARED_TIMES]
    items = [name for name in ('metadata',) if name in table.c]
    check(request, {*filters, *times, *items, *EVERYONE, *PAGED, *SORTED, 'with_count'})
    project_id = asked_of(request)
    compare = [*(found for name in items for found in _items(query.get(name))),
               *(found for name in times for found in _times(name, query.get(name)))]
    equal = {column: _value(db.kind_of(table, column), query, name) for name, column in filters.items()
             if query.get(name) is not None}
    limit = min(_number(query, 'limit', MAX_LIMIT), MAX_LIMIT)
    sort = _sort(query, [name for name in SORT if name in table.c], 'created_at', direction)
    with request.store.db.reader() as conn:
        rows = cast(list[_Row], db.page(
            conn, table, project_id, equal, administrative=request.trusted, sort=sort, compare=compare,
            marker=query.get('marker'), limit=limit + 1, offset=_number(query, 'offset', 0)))
        shown = view(conn, rows[:limit])
    number = sizes.fitting(shown)
    body: JsonObject = {key: [*shown[:number]]}
    if len(rows) > limit > 0 or number < len(shown):
        body[f'{key}_links'] = _next(request, rows[min(limit, number) - 1]['id'])
    if flag('with_count', query.get('with_count')):
        with request.store.db.reader() as conn:
            body['count'] = db.count(conn, table, project_id, equal, request.trusted, compare)
    return body


def _items(text: str | None) -> list[tuple[str, str, object]]:
    """Parse ``metadata={'key': 'value'}``: clients send a Python or JSON dictionary."""
    if text is None:
        return []
    try:
        items = ast.literal_eval(text) if len(text) <= MAX_ITEMS else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        items = None
    if not isinstance(items, dict) or not all(isinstance(each, str) for pair in items.items() for each in pair):
        raise exception.BadRequest(f'metadata must be {{"key": "value", ...}} of at most {MAX_ITEMS} characters.')
    return [('metadata', 'has', items)] if items else []


def _times(name: str, text: str | None) -> list[tuple[str, str, object]]:
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
    if text is not None and not 0 < len(found) <= MAX_TIMES:
        raise exception.BadRequest(f'{name} must be an ISO 8601 time, or up to {MAX_TIMES} of them separated by '
                                   f'commas, each with one of {", ".join(TIME_OPERATORS)} and a colon before it.')
    return found


def _value(kind: type, query: dict[str, str], name: str) -> bool | int | str:
    """Return a filter's value with the type of its column."""
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


def page_of_rows(request: VolumeRequest, key: str, rows: Sequence[Type],
                 view: Callable[[Type], JsonObject], filters: Iterable[str]) -> JsonObject:
    """Return a page of filtered rows in memory; they keep their order unless the query has one.

    :param filters: names of the applied filters
    :raises InvalidMarker: no row has the marker
    """
    query = request.query
    check(request, {*filters, *EVERYONE, *PAGED, *SORTED})
    if any(name in query for name in SORTED):
        for column, direction in reversed(_sort(query, ['name', 'id'], 'name', 'asc')):
            rows = sorted(rows, key=lambda row: row['name' if column == 'name' else 'id'], reverse=direction == 'desc')
    start, marker = _number(query, 'offset', 0), query.get('marker')
    if marker:
        found = [number for number, row in enumerate(rows, 1) if row['id'] == marker]
        if not found:
            raise exception.InvalidMarker(marker=marker[:255])
        start += found[0]
    limit = min(_number(query, 'limit', MAX_LIMIT), MAX_LIMIT)
    shown = rows[start:start + limit]
    views = [view(row) for row in shown]
    number = sizes.fitting(views)
    body: JsonObject = {key: [*views[:number]]}
    if shown and len(rows) > start + number:
        body[f'{key}_links'] = _next(request, shown[number - 1]['id'])
    return body


def _next(request: VolumeRequest, last_id: str) -> list[Json]:
    following = urllib.parse.urlencode({**{name: value for name, value in request.query.items() if name != 'offset'},
                                        'marker': last_id})
    return [{'rel': 'next', 'href': f'{request.url}?{following}'}]


def _sort(query: dict[str, str], columns: Sequence[str], first: str, default: str) -> list[tuple[str, str]]:
    """Return [(column, direction)].

    :param columns: existing columns
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
