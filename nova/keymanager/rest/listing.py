"""Pages of lists: filters, order, offsets and links."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TYPE_CHECKING
import urllib.parse

from nova.db.key_manager import records
from nova.keymanager.rest import forms
from nova.web import sizes

if TYPE_CHECKING:
    from nova.db.engine import Connection
    from nova.json_types import Json
    from nova.json_types import JsonObject
    from nova.keymanager.rest.request import KeyManagerRequest
    from nova.web.resource import Resource

    Prepare = Callable[[Connection, list[Any]], Sequence[Any]]

_TIMES = ('created_at', 'updated_at', 'expires_at')


def page(request: KeyManagerRequest, shown: Resource, prepare: Prepare | None = None) -> JsonObject:
    """Return a page of the rows of the caller's project.

    With ``acl_only``, return rows of all projects, but only rows with the caller in their access control list.

    :param prepare: adds to the rows what their view reads
    """
    query, table = request.query, shown.table
    assert table is not None
    compare: list[records.Comparison] = []
    for name, column in shown.filters.items():
        value = query.one(name)
        if value in (None, ''):
            continue
        compare += forms.comparisons(name, column, value) if column in _TIMES else [(column, 'eq', value)]
    listed = bool(query.one('acl_only'))
    limit, offset = bounds(request)
    with request.store.db.reader() as conn:
        rows, total = records.page(
            conn, table, None if listed else str(request.context.project_id), compare,
            forms.order(shown, query.one('sort', '')), limit, offset, request.context.user_id if listed else '')
        prepared = prepare(conn, rows) if prepare is not None else rows
    build = shown.view('show').documents(request)
    return linked(request, shown.plural, [build(row) for row in prepared], total)


def bounds(request: KeyManagerRequest) -> tuple[int, int]:
    """Return (number of rows, first row) of the requested page."""
    return min(request.query.one('limit', forms.DEFAULT_LIMIT), forms.MAX_LIMIT), request.query.one('offset', 0)


def linked(request: KeyManagerRequest, plural: str, documents: Sequence[Json], total: int) -> JsonObject:
    """Return the document of a page with its links.

    :param documents: items of the page; items beyond the maximum size of a response move to the next page
    :param total: number of all rows
    """
    limit, offset = bounds(request)
    shown = documents[:sizes.fitting(documents)]
    body: JsonObject = {plural: [*shown], 'total': total}
    if offset > 0:
        body['previous'] = _link(request, limit, max(0, offset - limit))
    if shown and offset + len(shown) < total:
        body['next'] = _link(request, limit, offset + len(shown))
    return body


def _link(request: KeyManagerRequest, limit: int, offset: int) -> str:
    others = {name: values[-1] for name, values in request.query.items() if name not in ('limit', 'offset')}
    return f'{request.url}?{urllib.parse.urlencode({"limit": limit, "offset": offset, **others})}'
