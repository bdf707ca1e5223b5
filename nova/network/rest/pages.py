"""Queries of lists: filters, fields and pagination links."""
import typing
import urllib.parse

from nova import exception
from nova.db.networks import listing
from nova.json_types import Json
from nova.network.rest.rows import View
from nova.web import params

Query = typing.Sequence[tuple[str, str]]


def parameters(names: typing.Iterable[str], closed: int | None = None, narrowed: bool = True) -> params.Pairs:
    """Return the query parameters of a list for ``select``.

    :param narrowed: whether the handler also calls ``fields``
    """
    return params.Pairs(*names, *(name for name in listing.PAGING if narrowed or name != 'fields'), closed=closed)


def select(query: Query, views: list[View], names: typing.Collection[str], closed: bool = False,
           key: str = 'id') -> list[View]:
    """Return the part of a complete list that a query selects, in the requested order.

    :param names: fields by which a query can filter and sort
    :param closed: whether other names in the query are refused, not ignored
    :param key: field with which a marker names the last view of the previous page
    :raises BadRequest: unknown name or invalid value
    :raises InvalidMarker: no selected view has this key
    """
    values = listing.grouped(query)
    for name, wanted in values.items():
        if name in names:
            texts = {value.lower() for value in wanted}
            views = [view for view in views if _text(view.get(name)).lower() in texts or (
                isinstance(view.get(name), bool) and view[name] in {listing.boolean(name, text) for text in texts})]
        elif closed and name not in listing.PAGING:
            raise listing.unknown(name)
    for name, direction in reversed(listing.sort_keys(values)):
        if name not in names or direction not in ('asc', 'desc'):
            raise listing.unsortable(name)
        views = sorted(views, key=lambda view: _rank(view.get(name)), reverse=direction == 'desc')
    step = -1 if listing.is_reverse(values) else 1
    views = views[::step]
    if marker := values.get('marker', [''])[0]:
        found = [number for number, view in enumerate(views) if view.get(key) == marker]
        if not found:
            raise exception.InvalidMarker(marker=marker[:255])
        views = views[found[-1] + 1:]
    return views[:listing.limit_of(values) or None][::step]


def _text(value: Json) -> str:
    return '' if value is None else str(value)


def _rank(value: Json) -> tuple[bool, int | str]:
    """Return a sort key; null comes first."""
    return value is not None, value if isinstance(value, int) else _text(value)


def named(query: Query) -> set[str]:
    """Return the requested fields, or an empty set for all."""
    return {value for name, value in query if name == 'fields' and value}


def fields(query: Query, views: list[View]) -> list[View]:
    """Return the views with only the requested fields."""
    wanted = named(query)
    if not wanted:
        return views
    return [{name: value for name, value in view.items() if name in wanted} for view in views]


def links(url: str, query: Query, page: listing.Page, number: int) -> list[dict[str, str]]:
    """Return the links to the next and the previous page.

    As in Neutron, a page has a link back if the client chose the page size.

    :param number: number of the page's rows in the response
    """
    rest = [(name, value) for name, value in query if name not in ('marker', 'page_reverse')]

    def link(backwards: bool, rows: list[View]) -> dict[str, str]:
        more = [*(('marker', row['id']) for row in rows), *([('page_reverse', 'True')] if backwards else [])]
        return {'rel': 'previous' if backwards else 'next', 'href': f'{url}?{urllib.parse.urlencode([*rest, *more])}'}
    found = []
    if len(page.rows) == page.limit or number < len(page.rows):
        found.append(link(page.reverse, page.rows[number - 1:number]))
    if page.by_client:
        found.append(link(not page.reverse, page.rows[:1]))
    return sorted(found, key=lambda each: each['rel'])
