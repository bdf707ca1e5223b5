"""What a list shows of its rows: the fields that a query names, and the link to the next page."""
import typing
import urllib.parse

Query = list[tuple[str, str]]
View = dict[str, typing.Any]


def fields(query: Query, views: list[View]) -> list[View]:
    """The views with only the fields that the query names, all when it names none."""
    wanted = {value for name, value in query if name == 'fields' and value}
    if not wanted:
        return views
    return [{name: value for name, value in view.items() if name in wanted} for view in views]


def next_link(url: str, query: Query, last: View) -> list[dict[str, str]]:
    """The link to the page after the row ``last``."""
    rest = [(name, value) for name, value in query if name != 'marker']
    return [{'rel': 'next', 'href': f'{url}?{urllib.parse.urlencode([*rest, ("marker", last["id"])])}'}]
