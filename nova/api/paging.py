"""Limits, markers and links of lists."""
import datetime
import operator
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from nova import exception
from nova.api.request import Request
from nova.json_types import JsonDocument
from nova.web import sizes

Row = TypeVar('Row', bound=Mapping[str, Any])
BY_ID = operator.itemgetter('id')


def limit(req: Request, name: str = 'limit') -> int:
    """Return the page size: the requested limit, at most [api] max_limit.

    ``limit=0`` requests an empty page.
    """
    maximum = req.services.conf.api.max_limit
    wanted = req.query.one(name)
    return maximum if wanted is None else min(wanted, maximum)


def marker(req: Request) -> str | None:
    """Return the ID after which the page begins, or None."""
    return req.query.one('marker')


def page(rows: Sequence[Row], req: Request, key: str = 'id') -> tuple[Sequence[Row], bool]:
    """Return one page of rows that are in memory, and whether more follow.

    :param key: column that markers refer to
    :raises InvalidMarker: no row has the marker
    """
    start, wanted = 0, marker(req)
    if wanted is not None:
        found = [number for number, row in enumerate(rows) if str(row[key]) == wanted]
        if not found:
            raise exception.InvalidMarker(marker=wanted)
        start = found[0] + 1
    size = limit(req)
    return rows[start:start + size], len(rows) > start + size


def next_links(req: Request, collection: str, last_id: str | int | None) -> list[dict[str, str]]:
    """Return [{rel: next, href}] with the URL of the page after ``last_id``."""
    pairs = [(name, value) for name, value in urllib.parse.parse_qsl(
        req.environ.get('QUERY_STRING', ''), keep_blank_values=True) if name != 'marker']
    query = urllib.parse.urlencode([*pairs, ('marker', last_id)])
    return [{'rel': 'next', 'href': f'{req.url(collection)}?{query}'}]


def add_links(body: dict[str, Any], req: Request, collection: str, key: str, last_id: str | int | None, more: bool,
              marker_of: Callable[[Any], str | int] | None = None) -> JsonDocument:
    """Add ``<key>_links`` to the body of a list that has another page.

    :param marker_of: returns the marker of an item; pass it if users control the size of items, to limit pages to
        sizes.PAGE bytes
    """
    if marker_of is not None and (kept := sizes.fitting(body[key])) < len(body[key]):
        body[key] = body[key][:kept]
        last_id, more = marker_of(body[key][-1]), True
    if more and last_id is not None:
        body[f'{key}_links'] = next_links(req, collection, last_id)
    return body


def check_period(since: datetime.datetime | None, before: datetime.datetime | None) -> None:
    """Refuse a period that ends before it begins.

    :raises BadRequest: changes-since is later than changes-before
    """
    if since and before and since > before:
        raise exception.BadRequest('The value of changes-since must be less than or equal to changes-before.')
