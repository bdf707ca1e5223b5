"""What a list shows of its rows: the fields that a query names, and the link to the next page."""
import typing
import urllib.parse

Query = typing.Sequence[tuple[str, str]]
View = dict[str, typing.Any]


def named(query: Query) -> set[str]:
    """The fields that a query names; none: all are shown."""
    return {value for name, value in query if name == 'fields' and value}


def fields(query: Query, views: list[View]) -> list[View]:
    """The views with only the fields that the query names, all when it names none."""
    wanted = named(query)
    if not wanted:
        return views
    return [{name: value for name, value in view.items() if name in wanted} for view in views]


def next_link(url: str, query: Query, last: View) -> list[dict[str, str]]:
    """The link to the page after the row ``last``."""
    rest = [(name, value) for name, value in query if name != 'marker']
    return [{'rel': 'next', 'href': f'{url}?{urllib.parse.urlencode([*rest, ("marker", last["id"])])}'}]
