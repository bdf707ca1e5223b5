"""Limits, markers and links of lists."""
import datetime
import operator
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from nova import exception
from nova.web import sizes

Row = TypeVar('Row', bound=Mapping[str, Any])


OF_ID = operator.itemgetter('id')


def limit(req: Any, name: str = 'limit') -> int:
    """How many items this page has at most: what was requested, within [api] max_limit.

    ``limit=0`` is an empty page.
    """
    maximum = req.services.conf.api.max_limit
    wanted = req.query.one(name)
    return maximum if wanted is None else min(wanted, maximum)


def marker(req: Any) -> str | None:
    """The id after which the page begins, or None."""
    return req.query.one('marker')


def page(rows: Sequence[Row], req: Any, key: str = 'id') -> tuple[Sequence[Row], bool]:
    """One page of rows that are all in memory already.

    :param key: the column that markers name
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


def next_links(req: Any, collection: str, last_id: object) -> list[dict[str, str]]:
    """[{rel: next, href}]: the same list, after ``last_id``."""
    pairs = [(name, value) for name, value in urllib.parse.parse_qsl(
        req.environ.get('QUERY_STRING', ''), keep_blank_values=True) if name != 'marker']
    query = urllib.parse.urlencode([*pairs, ('marker', last_id)])
    return [{'rel': 'next', 'href': f'{req.url(collection)}?{query}'}]


def add_links(body: dict[str, Any], req: Any, collection: str, key: str, last_id: object, more: bool,
              marker_of: Callable[[Any], object] | None = None) -> dict[str, Any]:
    """Put ``<key>_links`` into a list's body when there is another page.

    :param marker_of: the marker of an item, in a list whose items callers can extend: its pages end at sizes.PAGE
    """
    if marker_of is not None and (kept := sizes.fitting(body[key])) < len(body[key]):
        body[key] = body[key][:kept]
        last_id, more = marker_of(body[key][-1]), True
    if more and last_id is not None:
        body[f'{key}_links'] = next_links(req, collection, last_id)
    return body


def check_period(since: datetime.datetime | None, before: datetime.datetime | None) -> None:
    """:raises BadRequest: both ends of a period of changes were given, and it ends before it begins"""
    if since and before and since > before:
        raise exception.BadRequest('The value of changes-since must be less than or equal to changes-before.')
