"""Pages of lists: filters, order, markers and links of a query string."""
from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from oslo_utils import strutils

from nova import context as nova_context
from nova import exception
from nova.db import engine
from nova.db.volumes import volumes as db

if TYPE_CHECKING:
    from nova.volume.face.app import VolumeRequest

MAX_LIMIT = 1000
SORT = ('created_at', 'updated_at', 'name', 'status', 'size', 'bootable', 'id')


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


def page(request: VolumeRequest, table: engine.Table, key: str,
         view: Callable[[engine.Connection, list[dict[str, Any]]], list[Any]],
         filters: dict[str, str]) -> dict[str, Any]:
    """A page of rows of the caller's project, of all for an administrator who asks for them.

    What is of volumes of administrative servers is for administrators and services.
    """
    query = request.query
    if 'metadata' in query:              # else a client would take all for those that it requested
        raise exception.BadRequest('Lists are not filtered by metadata here.')
    everyone = flag('all_tenants', query.get('all_tenants', query.get('all_projects'))) and request.context.is_admin
    project_id = query.get('project_id') or nova_context.ALL_PROJECTS if everyone else request.context.project_id
    equal = {column: _value(db.kind_of(table, column), query, name) for name, column in filters.items()
             if query.get(name) is not None}
    limit = min(_number(query, 'limit', MAX_LIMIT), MAX_LIMIT)
    sort = _sort(query, table)
    with request.store.db.reader() as conn:
        rows = db.page(conn, table, project_id, equal, administrative=request.trusted, sort=sort,
                       marker=query.get('marker'), limit=limit + 1, offset=_number(query, 'offset', 0))
        shown = view(conn, rows[:limit])
    body: dict[str, Any] = {key: shown}
    if len(rows) > limit > 0:
        following = urllib.parse.urlencode({**query, 'marker': rows[limit - 1]['id']})
        body[f'{key}_links'] = [{'rel': 'next', 'href': f'{request.url}?{following}'}]
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


def _sort(query: dict[str, str], table: engine.Table) -> list[tuple[str, str]]:
    words = [part.partition(':') for part in query.get('sort', '').split(',') if part]
    pairs = [(key.strip(), direction or 'desc') for key, _, direction in words] or [
        (query.get('sort_key', 'created_at'), query.get('sort_dir', 'desc'))]
    for key, direction in pairs:
        if key not in SORT or key not in table.c or direction not in ('asc', 'desc'):
            raise exception.BadRequest(f'Invalid sort key or direction: {key[:40]}:{direction[:10]}')
    last = pairs[-1][1]
    return [*((key, direction) for key, direction in dict(pairs).items() if key != 'id'), ('id', last)]
