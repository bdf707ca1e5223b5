"""Pages of lists: filters, order, markers and links of a query string."""
from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TYPE_CHECKING

from oslo_utils import strutils

from nova import context as nova_context
from nova import exception
from nova.db import engine
from nova.db.volumes import volumes as db
from nova.volume.face import schemas
from nova.web import sizes

if TYPE_CHECKING:
    from nova.volume.face.app import VolumeRequest

MAX_LIMIT = 1000
SORT = ('created_at', 'updated_at', 'name', 'status', 'size', 'bootable', 'id')
SORTED = ('sort', 'sort_key', 'sort_dir')
PAGED = ('limit', 'marker', 'offset')
EVERYONE = ('all_tenants', 'all_projects')
MOST_NAMED = 3                           # names that a refusal shows


def flag(name: str, value: object, default: bool = False) -> bool:
    """What a flag of a body or a query says.

    :raises BadRequest: it is neither true nor false: a word that is misspelt must not count as the other one
    """
    if value in (None, ''):
        return default
    try:
        return strutils.bool_from_string(value, strict=True)
    except ValueError:
        raise exception.BadRequest(f'{name} is true or false, not {str(value)[:40]!r}.') from None


def check(request: VolumeRequest, known: Iterable[str]) -> None:
    """A client that has misspelt a filter, or has one that does not exist here, would take all for what it requested.

    :param known: names that the query may have
    :raises BadRequest: it has another one
    """
    known = sorted(known)
    unknown = ', '.join(name[:schemas.MOST_SHOWN] for name in sorted(request.query.keys() - set(known))[:MOST_NAMED])
    if unknown:
        raise exception.BadRequest(f'Invalid filters {unknown} are found in query options. There are here: '
                                   f'{", ".join(known) or "none"}.')


def asked_of(request: VolumeRequest) -> nova_context.Projects | str:
    """The caller's project, or all of them where an administrator asks for these."""
    everyone = flag('all_tenants', request.query.get('all_tenants', request.query.get('all_projects')))
    return nova_context.ALL_PROJECTS if everyone and request.context.is_admin else request.context.project_id or ''


def page(request: VolumeRequest, table: engine.Table, key: str,
         view: Callable[[engine.Connection, list[dict[str, Any]]], list[Any]],
         filters: dict[str, str], direction: str = 'desc') -> dict[str, Any]:
    """A page of rows of the caller's project, of all for an administrator who asks for them.

    What is of volumes of administrative servers is for administrators and services.

    :param filters: {name in a query: column}, besides the project's id
    :param direction: of the usual order, by the moment when they were made
    """
    query, filters = request.query, {**filters, 'project_id': 'project_id'}
    check(request, {*filters, *EVERYONE, *PAGED, *SORTED, 'with_count'})
    project_id = asked_of(request)
    equal = {column: _value(db.kind_of(table, column), query, name) for name, column in filters.items()
             if query.get(name) is not None}
    limit = min(_number(query, 'limit', MAX_LIMIT), MAX_LIMIT)
    sort = _sort(query, [name for name in SORT if name in table.c], 'created_at', direction)
    with request.store.db.reader() as conn:
        rows = db.page(conn, table, project_id, equal, administrative=request.trusted, sort=sort,
                       marker=query.get('marker'), limit=limit + 1, offset=_number(query, 'offset', 0))
        shown = view(conn, rows[:limit])
    number = sizes.fitting(shown)
    body: dict[str, Any] = {key: shown[:number]}
    if len(rows) > limit > 0 or number < len(shown):
        body[f'{key}_links'] = _next(request, rows[min(limit, number) - 1])
    if flag('with_count', query.get('with_count')):
        with request.store.db.reader() as conn:
            body['count'] = db.count(conn, table, project_id, equal, request.trusted)
    return body


def _value(kind: type, query: dict[str, str], name: str) -> bool | int | str:
    """The value that a filter names, of the kind that its column has."""
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


def kept(request: VolumeRequest, key: str, rows: Sequence[dict[str, Any]],
         view: Callable[[dict[str, Any]], Any], filters: Iterable[str]) -> dict[str, Any]:
    """A page of rows that are all in memory already, and filtered; their order is kept where the query has none.

    :param filters: names of the filters that were applied
    :raises InvalidMarker: no row has the marker
    """
    query = request.query
    check(request, {*filters, *EVERYONE, *PAGED, *SORTED})
    if any(name in query for name in SORTED):
        for column, direction in reversed(_sort(query, ['name', 'id'], 'name', 'asc')):
            rows = sorted(rows, key=lambda row: str(row[column]), reverse=direction == 'desc')
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
    body: dict[str, Any] = {key: views[:number]}
    if shown and len(rows) > start + number:
        body[f'{key}_links'] = _next(request, shown[number - 1])
    return body


def _next(request: VolumeRequest, last: dict[str, Any]) -> list[dict[str, str]]:
    following = urllib.parse.urlencode({**{name: value for name, value in request.query.items() if name != 'offset'},
                                        'marker': last['id']})
    return [{'rel': 'next', 'href': f'{request.url}?{following}'}]


def _sort(query: dict[str, str], columns: Sequence[str], first: str, default: str) -> list[tuple[str, str]]:
    """
    :param columns: that there are
    :param first: the column, and ``default`` the direction, where the query names none
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
