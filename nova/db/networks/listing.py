"""Lists of network resources: a query string of the Networking API selects and sorts the rows."""
from collections.abc import Callable, Iterable, Sequence
import dataclasses
import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from nova import exception
from nova.db.networks import networks
from nova.db.networks import tags

MAX_LIMIT = 1000
MAX_VALUES = 500            # maximum number of values of one filter
PAGING = ('limit', 'marker', 'sort_key', 'sort_dir', 'page_reverse', 'fields')
# {filter: (whether all tags must match, whether the filter selects the resources that do not match)}
TAG_FILTERS = {'tags': (True, False), 'tags-any': (False, False), 'not-tags': (True, True),
               'not-tags-any': (False, True)}
CHANGED_SINCE = 'changed_since'
SECOND = datetime.timedelta(seconds=1)              # resolution of times in the API
TRUE, FALSE = ('true', '1'), ('false', '0')


class Page(NamedTuple):
    """One page of a list.

    limit      maximum number of rows
    reverse    page_reverse: the page before the marker, or without a marker the last page; rows are in reverse order
    by_client  whether the query sets the limit
    """

    rows: list[dict[str, Any]]
    limit: int
    reverse: bool
    by_client: bool


@dataclasses.dataclass
class Listing:
    """Filters and sort keys for the list of one type of resource.

    columns    {name in the query: column}
    constants  {name: value} of attributes that have this value in all resources
    special    {name: function(values) -> condition} of filters that are not just a comparison with a column
    shares     whether the filter ``shared`` selects rows that are shared with the caller's project
    """

    table: sa.Table
    columns: dict[str, sa.Column[Any]]
    constants: dict[str, Any] = dataclasses.field(default_factory=dict)
    special: dict[str, Callable[[list[str]], sa.ColumnElement[bool]]] = dataclasses.field(default_factory=dict)
    shares: bool = False

    def __post_init__(self) -> None:
        if 'revision' in self.table.c:
            self.columns.setdefault('revision_number', self.table.c.revision)

    def page(self, conn: sa.Connection, query: Iterable[tuple[str, str]], condition: sa.ColumnElement[bool],
             columns: Sequence[str] | None = None, project_id: str | None = None) -> Page:
        """Return the rows selected by the query and the condition.

        :param query: [(name, value)]
        :param columns: columns of the rows, or None for all
        :param project_id: project of the caller
        """
        values = grouped(query)
        condition_of_query = self.condition(query, project_id)
        limit, marker, sort = limit_of(values), None, self._sort(values)
        reverse = is_reverse(values)
        if reverse:
            sort = [(name, 'desc' if direction == 'asc' else 'asc') for name, direction in sort]
        if values.get('marker', [''])[0]:
            # a marker that belongs to another project counts as unknown
            marker = conn.execute(sa.select(self.table).where(
                condition, self.table.c.id == values['marker'][0][:255])).mappings().first()
            if marker is None:
                raise exception.InvalidMarker(marker=values['marker'][0][:255])
        most = limit or MAX_LIMIT
        rows = networks.page(conn, self.table, condition & condition_of_query, sort, marker, most, columns)
        return Page(rows, most, reverse, bool(limit))

    def condition(self, query: Iterable[tuple[str, str]], project_id: str | None = None) -> sa.ColumnElement[bool]:
        """Return the condition of the filters of a query.

        :raises BadRequest: a name is not a filter, or a value is invalid
        """
        return sa.and_(sa.true(), *[self._condition(name, found, project_id) for name, found in grouped(query).items()
                                    if name not in PAGING])

    def _condition(self, name: str, values: list[str], project_id: str | None) -> sa.ColumnElement[bool]:
        if len(values) > MAX_VALUES:
            raise exception.BadRequest(f"At most {MAX_VALUES} values of '{name}' are allowed.")
        if name in self.special:
            return self.special[name](values)
        if name == 'shared' and self.shares:
            shared: sa.ColumnElement[bool] = self.table.c.id.in_(networks.shared_with(project_id))
            shared = sa.or_(shared, self.table.c.shared) if 'shared' in self.table.c else shared
            return sa.or_(*(shared if wanted else ~shared for wanted in {boolean(name, each) for each in values}))
        if name in self.columns:
            column = self.columns[name]
            if isinstance(column.type, sa.Boolean):
                return column.in_([boolean(name, value) for value in values])
            if isinstance(column.type, sa.Integer):
                return column.in_([_integer(name, value) for value in values])
            if isinstance(column.type, sa.DateTime):
                return sa.or_(*(sa.and_(column >= moment, column < moment + SECOND)
                                for moment in [_moment(name, value) for value in values]))
            # an empty value selects NULL and ''
            return among(column, values, nothing=not all(values))
        if name == CHANGED_SINCE and 'updated_at' in self.table.c:
            return self.table.c.updated_at >= max(_moment(name, value) for value in values)
        if name in TAG_FILTERS:
            wanted = [tag for value in values for tag in value.split(',') if tag][:MAX_VALUES]
            return tags.having(self.table.c.id, wanted, *TAG_FILTERS[name]) if wanted else sa.true()
        if name in self.constants:
            known = self.constants[name]
            equal = any(str(known).lower() == value.lower() or (known is True and value in TRUE)
                        or (known is False and value in FALSE) for value in values)
            return sa.true() if equal else sa.false()
        raise unknown(name)

    def _sort(self, values: dict[str, list[str]]) -> list[tuple[str, str]]:
        sort: dict[str, str] = {}
        for key, direction in sort_keys(values):
            if (key in self.constants or key in self.special) and direction in ('asc', 'desc'):
                continue                             # ignored: a constant, or an attribute without a column
            column = self.columns.get(key)
            if column is None or column.nullable or direction not in ('asc', 'desc'):
                raise unsortable(key)
            sort.setdefault(column.name, direction)
        sort.setdefault('id', 'asc')
        return list(sort.items())


def comparable(table: sa.Table, name: str) -> sa.Column[Any] | None:
    """Return the column of this name, or None if it does not exist or a filter cannot compare it with text."""
    column = table.c.get(name)
    return None if column is None or isinstance(column.type, sa.TypeDecorator) else column


# ---- queries -----------------------------------------------------------------

def grouped(query: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return a query [(name, value)] as {name: [value]}."""
    found: dict[str, list[str]] = {}
    for name, value in query:
        found.setdefault(name, []).append(value)
    return found


def limit_of(values: dict[str, list[str]]) -> int:
    """Return the page size in a query, or 0 if the query sets none; raises BadRequest."""
    text = values.get('limit', ['0'])[0]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise exception.BadRequest(f"Limit must be an integer 0 or greater and not '{text[:40]}'")
    return min(int(text), MAX_LIMIT)


def is_reverse(values: dict[str, list[str]]) -> bool:
    """Return whether a query asks for the page before the marker; raises BadRequest."""
    return boolean('page_reverse', values.get('page_reverse', ['false'])[0])


def sort_keys(values: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return [(sort key, direction)] of a query.

    :raises BadRequest: too many keys, or not as many directions as keys
    """
    keys, directions = values.get('sort_key', []), values.get('sort_dir', [])
    if len(keys) > 10 or directions and len(keys) != len(directions):
        raise exception.BadRequest('The number of sort_keys and sort_dirs must be same')
    return list(zip(keys, directions or ['asc'] * len(keys), strict=True))


def unknown(name: str) -> exception.BadRequest:
    """Return the error for a filter that a list does not have."""
    return exception.BadRequest(f"['{name[:60]}'] is invalid attribute for filtering")


def unsortable(key: str) -> exception.BadRequest:
    """Return the error for an unknown sort key or direction."""
    return exception.BadRequest(f"['{key[:60]}'] is invalid attribute for sort_keys, or not 'asc' or 'desc'")


def among(column: sa.Column[Any], values: Iterable[str], nothing: bool) -> sa.ColumnElement[bool]:
    """Return a condition on rows with one of these values in a column.

    :param nothing: whether to include rows without a value
    """
    present = column.in_([value for value in values if value])
    return sa.or_(present, column.is_(None), column == '') if nothing else present


def boolean(name: str, value: str) -> bool:
    """Return the value of a filter; raises BadRequest for another text than true, false, 1 or 0."""
    if value.lower() in TRUE + FALSE:
        return value.lower() in TRUE
    raise exception.BadRequest(f"'{value[:40]}' is not a boolean for '{name}'")


def _moment(name: str, value: str) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(value)
        found = found.astimezone(datetime.UTC).replace(tzinfo=None) if found.tzinfo else found
        return min(found, datetime.datetime.max - SECOND)
    except (ValueError, OverflowError):
        raise exception.BadRequest(f"'{value[:40]}' is not a time for '{name}', such as 2026-01-31T12:00:00Z") from None


def _integer(name: str, value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    raise exception.BadRequest(f"'{value[:40]}' is not an integer for '{name}'")
