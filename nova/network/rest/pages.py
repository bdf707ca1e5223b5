"""Fields and pagination links of lists."""
import typing
import urllib.parse

from nova.db.networks.listing import Page
from nova.network.rest.rows import View

Query = typing.Sequence[tuple[str, str]]


def named(query: Query) -> set[str]:
    """Return the requested fields, or an empty set for all."""
    return {value for name, value in query if name == 'fields' and value}


def fields(query: Query, views: list[View]) -> list[View]:
    """Return the views with only the requested fields."""
    wanted = named(query)
    if not wanted:
        return views
    return [{name: value for name, value in view.items() if name in wanted} for view in views]


def links(url: str, query: Query, page: Page, number: int) -> list[dict[str, str]]:
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
