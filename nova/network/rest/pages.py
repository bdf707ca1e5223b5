"""Fields and pagination links of lists."""
import typing
import urllib.parse

from nova.network.rest.resource import View

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


def next_link(url: str, query: Query, last: View) -> list[dict[str, str]]:
    """Return the link to the page after the row ``last``."""
    rest = [(name, value) for name, value in query if name != 'marker']
    return [{'rel': 'next', 'href': f'{url}?{urllib.parse.urlencode([*rest, ("marker", last["id"])])}'}]
