"""Lists of servers. One SELECT (keyset pagination) reads a page of servers: dicts of the columns that a view needs.

The order is (sort keys…, id), so that the next page starts after the last row, without OFFSET. With several cells the
order is (sort keys…, uuid), and text is compared by bytes. So all cells and ``merge`` agree on the order, and a server
has the same position after its row has moved to another cell.

Regular expressions of users are not sent to a database. A pattern of plain text becomes an SQL condition. For other
patterns this module reads batches of ``BATCH`` rows and matches them with RE2, for at most ``MATCH_S`` seconds. RE2
takes time linear in the length of the text, whatever the pattern is.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
import dataclasses
import datetime
import functools
import operator
import time
from typing import Any

import orjson
import re2
import sqlalchemy as sa

from nova import context as nova_context
from nova import states
from nova import utils
from nova.db import functions
from nova.db import statements
from nova.db import types
from nova.db.moves import cell_steps
from nova.db.tables import cell as tables_cell
from nova.db.tables.rows import InstancesRow
from nova.objects import network_info


Row = dict[str, Any]           # the requested columns of a server
Sort = tuple[tuple[str, str], ...]         # ((column, 'asc' or 'desc'), …)
Clause = Callable[[types.Columns], sa.ColumnElement[bool]]

BATCH = 1000                   # rows per SELECT when this module matches patterns
SECOND = datetime.timedelta(seconds=1)
MATCH_S = 20                   # maximum seconds of matching for one page
PATTERN_MEMORY = 1 << 20       # maximum bytes of one compiled pattern

LIVE = tables_cell.instances
HISTORY = tables_cell.instances_history
INDEXED = frozenset({'created_at'})        # sort columns with an index
COLUMNS = tuple(LIVE.columns.keys())
_JSON = frozenset(column.name for column in LIVE.columns if isinstance(column.type, types.Json))


@dataclasses.dataclass(frozen=True)
class Query:
    """A query of servers.

    project_id   id of a project, or ALL_PROJECTS
    filters   {column, or key of CONDITIONS: value}; a list for a column matches rows with any value in the list
    matches   {column, 'ip' or 'ip6': regular expression}
    sort      sort keys; a unique key is added at the end
    marker    uuid of the last server of the previous page
    limit     maximum number of rows, or None for all
    rows      'live', 'deleted' (the history) or 'all' (both)
    several   whether the pages of several cells will be merged
    """

    project_id: str | nova_context.Projects
    filters: dict[str, Any] = dataclasses.field(default_factory=dict)
    matches: dict[str, Any] = dataclasses.field(default_factory=dict)
    sort: Sort = (('created_at', 'desc'),)
    marker: str | None = None
    limit: int | None = None
    rows: str = 'live'
    several: bool = False


class TooSlow(Exception):
    """Matching the rows of one page took too long."""


class MarkerNotFound(LookupError):
    """The marker's server is not in the list."""


class BadPattern(ValueError):
    """The pattern is not a regular expression that RE2 supports."""


# ---- conditions --------------------------------------------------------------

def _status(columns: types.Columns, wanted: list[str]) -> sa.ColumnElement[bool]:
    """Return the condition that vm and task state give one of these server statuses of the compute API."""
    clauses = []
    for vm_state, tasks, excluded in states.states_of_status(wanted):
        clause = columns.vm_state == vm_state
        if tasks is not None:
            clause = sa.and_(clause, columns.task_state.in_(tasks))
        elif excluded:
            clause = sa.and_(clause, sa.or_(columns.task_state.is_(None),
                                            columns.task_state.not_in(excluded)))
        clauses.append(clause)
    return sa.or_(sa.false(), *clauses)


def _tag(columns: types.Columns, tag: str) -> sa.ColumnElement[bool]:
    return functions.position(columns.tags, f',{tag},') > 0


def _within(name: str) -> Callable[..., Any]:
    """Return condition(columns, moment): the time ``name`` is less than one second after ``moment``, and not before."""
    return lambda columns, moment: sa.and_(columns[name] >= moment,
                                           columns[name] < min(moment, datetime.datetime.max - SECOND) + SECOND)


CONDITIONS: dict[str, Callable[[Any, Any], Any]] = {
    'created_at': _within('created_at'),
    'launched_at': _within('launched_at'),
    'terminated_at': _within('terminated_at'),
    'status': _status,
    'soft_deleted': lambda columns, shown: (
        columns.vm_state.in_((states.DELETED, states.SOFT_DELETED)) if shown
        else columns.vm_state != states.SOFT_DELETED),
    'changes-since': lambda columns, moment: columns.updated_at >= moment,
    'changes-before': lambda columns, moment: columns.updated_at <= utils.end_of_second(moment),
    'tags': lambda columns, tags: sa.and_(*(_tag(columns, tag) for tag in tags)),
    'tags-any': lambda columns, tags: sa.or_(*(_tag(columns, tag) for tag in tags)),
    'not-tags': lambda columns, tags: sa.not_(sa.and_(*(_tag(columns, tag) for tag in tags))),
    'not-tags-any': lambda columns, tags: sa.not_(sa.or_(*(_tag(columns, tag) for tag in tags))),
}


def _is_shown(columns: types.Columns) -> sa.ColumnElement[bool]:
    """Return a condition that excludes rows copied into this cell while the server is still in the source cell."""
    return sa.or_(columns.cell_move.is_(None), columns.cell_move != cell_steps.INCOMING)


def _condition(columns: types.Columns, name: str, value: object) -> sa.ColumnElement[bool]:
    if name in CONDITIONS:
        return CONDITIONS[name](columns, value)
    column = columns[name]
    if isinstance(value, (list, tuple)):
        return column.in_(value)
    return column.is_(None) if value is None else column == value


# ---- regular expressions -----------------------------------------------------

def literal(pattern: str) -> tuple[str, bool, bool] | None:
    """Return (text, whether anchored at the start, whether at the end), or None if the pattern is not plain text."""
    begin, end = pattern.startswith('^'), pattern.endswith('$') and not pattern.endswith('\\$')
    body = pattern[begin:len(pattern) - end]
    text, index = [], 0
    while index < len(body):
        char = body[index]
        if char == '\\':
            index += 1
            char = body[index:index + 1]
            if not char or char.isalnum():
                return None
        elif char in '.^$*+?{}[]|()':
            return None
        text.append(char)
        index += 1
    return ''.join(text), begin, end


@functools.lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Callable[[str], object]:
    """Return the search function of a compiled RE2 pattern.

    :raises BadPattern: RE2 does not support it
    """
    options = re2.Options()
    options.max_mem, options.log_errors = PATTERN_MEMORY, False
    try:
        return re2.compile(pattern, options=options).search
    except re2.error:
        raise BadPattern(pattern) from None


def _text_clause(name: str, pattern: str) -> Clause | None:
    """Return the SQL condition of a plain text pattern, or None if this module must match the rows with RE2."""
    plain = literal(pattern)
    if plain is None or name in ('ip', 'ip6'):
        return None
    text, begin, end = plain
    if begin and end:
        return lambda columns: functions.bytes_of(columns[name]) == text
    if end:
        return None
    if begin:
        return lambda columns: functions.position(columns[name], text) == 1
    return lambda columns: functions.position(columns[name], text) > 0


def _addresses(row: Row, version: int) -> list[str]:
    return [address for vif in row['network_info'] for address, kind in network_info.fixed_ips(vif)
            if kind == version]


_TEXTS: dict[str, Callable[[Row], list[str]]] = {
    'ip': lambda row: _addresses(row, 4), 'ip6': lambda row: _addresses(row, 6)}


def _matcher(name: str, pattern: str) -> Callable[[Row], bool]:
    search = compile_pattern(pattern)
    texts = _TEXTS.get(name) or (lambda row: [row[name] or ''])
    return lambda row: any(search(text) for text in texts(row))


# ---- reading -----------------------------------------------------------------

# built once, because building the statement is the largest cost of showing one server
_BY_UUID = sa.select(LIVE).where(LIVE.c.uuid == sa.bindparam('uuid'))
_DELETED_BY_UUID = sa.select(HISTORY).where(
    HISTORY.c.uuid == sa.bindparam('uuid')).order_by(HISTORY.c.id.desc()).limit(1)


def by_uuid(conn: sa.Connection, uuid: str, deleted: bool = False) -> InstancesRow | None:
    """Return the row of a server (of a deleted one if ``deleted``) as a dict, or None."""
    row = conn.execute(_DELETED_BY_UUID if deleted else _BY_UUID, {'uuid': uuid}).mappings().first()
    return None if row is None else statements.to_dict(row)


def page(conn: sa.Connection, query: Query, columns: Collection[str] = COLUMNS,
         place: tuple[Any, ...] | None = None) -> list[Row]:
    """Return the servers of one page: [{column: value}] with the requested ``columns`` and the sort columns.

    Equal JSON values may be the same object, so callers must not change them.
    :param place: position of the page (see ``place_of``) if the marker may be in another cell
    :raises MarkerNotFound: the marker is not in the list
    :raises BadPattern: a regular expression is not valid
    :raises TooSlow: matching took too long
    """
    if query.marker and place is None:
        place = place_of(conn, query)
        if place is None:
            raise MarkerNotFound(query.marker)
    return prepare(query, columns, place)(conn)


def prepare(query: Query, columns: Collection[str],
            place: tuple[Any, ...] | None) -> Callable[[sa.Connection], list[Row]]:
    """Return a function that reads the page on a connection, so that the statement is built only once for all
    databases.

    :raises BadPattern: a regular expression is not valid
    """
    sort = _complete(query)
    matchers: list[Callable[[Row], bool]] = []
    clauses: list[Clause] = []
    for name, pattern in query.matches.items():
        clause = _text_clause(name, pattern)
        if clause is None:
            matchers.append(_matcher(name, pattern))
        else:
            clauses.append(clause)
    clauses += [functools.partial(_condition, name=name, value=value)
                for name, value in _filters(query).items()]
    wanted = {*columns, *(name for name, _ in sort)}
    if query.several:
        clauses.append(_is_shown)
        wanted.add('cell_move')
    if matchers:
        wanted |= {'network_info' if name in _TEXTS else name for name in query.matches}
    source = _source(query.rows, tuple(name for name in COLUMNS if name in wanted), clauses)
    if matchers:
        return functools.partial(_matched, source=source, sort=sort, place=place, query=query, matchers=matchers)
    return functools.partial(_rows, statement=_select(source, sort, place, query.limit, query.several), texts={})


_COMPUTES = sa.select(tables_cell.services).where(
    tables_cell.services.c.host.in_(sa.bindparam('hosts', expanding=True)), tables_cell.services.c.topic == 'compute')


_COMPUTE = sa.select(tables_cell.services).where(
    tables_cell.services.c.host == sa.bindparam('host'), tables_cell.services.c.topic == 'compute')


def computes(conn: sa.Connection, hosts: set[str]) -> Sequence[sa.RowMapping]:
    """Return the rows of the compute services of these hosts."""
    if len(hosts) == 1:      # faster, because an expanding parameter doubles the cost of the statement
        return conn.execute(_COMPUTE, {'host': next(iter(hosts))}).mappings().all()
    return conn.execute(_COMPUTES, {'hosts': list(hosts)}).mappings().all()


def merge(pages: list[list[Row]], query: Query) -> list[Row]:
    """Merge the pages of several cells into one. A server that has just moved to another cell is listed once."""
    rows = [row for part in pages for row in part]
    if len(pages) > 1:
        here = {row['uuid'] for row in rows if row['cell_move'] is None}
        rows = [row for row in rows if row['cell_move'] is None or row['uuid'] not in here]
        rows = list({row['uuid']: row for row in rows}.values())     # a server in several pages keeps its last row
        _arrange(rows, query)
    return rows[:query.limit]


def precedes(row: Row, other: Row, query: Query) -> bool:
    """Tell whether ``row`` comes before ``other`` in the query's order."""
    pair = [other, row]
    _arrange(pair, query)
    return pair[0] is row


def place_after(row: Row, query: Query) -> tuple[Any, ...]:
    """Return the position after a row of a page: the row's values of the sort columns."""
    return tuple(row[name] for name, _ in _complete(query))


def _arrange(rows: list[Row], query: Query) -> None:
    """Sort rows in place by the query's order; the sort is stable."""
    for name, direction in reversed(_complete(query)):
        key = functools.partial(_nulls_last, name) if LIVE.c[name].nullable else operator.itemgetter(name)
        rows.sort(key=key, reverse=direction == 'desc')


def _nulls_last(name: str, row: Row) -> tuple[bool, Any]:
    return row[name] is None, 0 if row[name] is None else row[name]


def _filters(query: Query) -> dict[str, Any]:
    """Return the filters of a query including its project."""
    return {**query.filters, 'project_id': query.project_id} if nova_context.one_project(
        query.project_id) else query.filters


def _complete(query: Query) -> Sort:
    """Return the sort keys with unique keys at the end; an id is unique only in one table of one cell."""
    names = [name for name, _ in query.sort]
    direction = query.sort[-1][1] if query.sort else 'desc'
    extra = ('uuid',) if query.several else ('id', 'uuid') if query.rows == 'all' else ('id',)
    return (*query.sort, *((name, direction) for name in extra if name not in names))


def _source(rows: str, names: tuple[str, ...], clauses: list[Clause]) -> tuple[sa.Select[Any], types.Columns]:
    """Return a SELECT without ORDER BY, and its columns. JSON is read as text, so that equal texts are parsed once."""
    def select(table: sa.Table) -> sa.Select[Any]:
        columns = [sa.type_coerce(table.c[name], types.LongText).label(name) if name in _JSON
                   else table.c[name] for name in names]
        return sa.select(*columns).where(*(clause(table.c) for clause in clauses))
    if rows == 'all':
        union = sa.union_all(select(LIVE), select(HISTORY)).subquery()
        return sa.select(union), union.c
    table = HISTORY if rows == 'deleted' else LIVE
    return select(table), table.c


def place_of(conn: sa.Connection, query: Query) -> tuple[Any, ...] | None:
    """Return the position after the query's marker: the marker's values of the sort columns. Return None if the marker
    is not in this cell.
    """
    names = [name for name, _ in _complete(query)]
    for table in {'live': (LIVE,), 'deleted': (HISTORY,), 'all': (LIVE, HISTORY)}[query.rows]:
        statement = sa.select(*(table.c[name] for name in names)).where(table.c.uuid == query.marker)
        filters = _filters(query)
        for owner in ('project_id', 'category'):
            if owner in filters:
                statement = statement.where(table.c[owner] == filters[owner])
        row = conn.execute(statement.limit(1)).first()
        if row is not None:
            return tuple(row)
    return None


def _keys(columns: types.Columns, sort: Sort, several: bool) -> Iterator[tuple[sa.ColumnElement[Any], bool]]:
    """Yield (expression, whether descending) for each sort key. In ascending order, NULL is last."""
    for name, direction in sort:
        column = columns[name]
        if LIVE.c[name].nullable:
            yield sa.case((column.is_(None), 1), else_=0), direction == 'desc'
        if isinstance(column.type, sa.Boolean):
            column = sa.case((column.is_(sa.true()), 1), else_=0)
        elif several and isinstance(column.type, sa.String):
            column = functions.bytes_of(column)
        yield column, direction == 'desc'


def _after(columns: types.Columns, sort: Sort, place: tuple[Any, ...], several: bool) -> sa.ColumnElement[bool]:
    """Return the condition that a row comes after ``place``, a tuple of values of the sort columns."""
    values = []
    for (name, _), value in zip(sort, place):
        if LIVE.c[name].nullable:
            values.append(int(value is None))
        values.append(int(value) if isinstance(value, bool) else value)
    clauses: list[sa.ColumnElement[bool]] = []
    equal: list[sa.ColumnElement[bool]] = []
    for (key, descending), value in zip(_keys(columns, sort, several), values):
        if value is not None:
            clauses.append(sa.and_(*equal, key < value if descending else key > value))
            equal.append(key == value)
    # a separate condition on the first key lets every database use its index
    key, descending = next(_keys(columns, sort, several))
    return sa.and_(key <= values[0] if descending else key >= values[0], sa.or_(*clauses))


def _select(source: tuple[sa.Select[Any], types.Columns], sort: Sort, place: tuple[Any, ...] | None,
            limit: int | None, several: bool) -> sa.Select[Any]:
    """Return the SELECT of the rows after ``place``, sorted."""
    statement, columns = source
    if place is not None:
        statement = statement.where(_after(columns, sort, place, several))
    order = [key.desc() if descending else key.asc() for key, descending in _keys(columns, sort, several)]
    if limit is not None and sort[0][0] not in INDEXED and columns in (LIVE.c, HISTORY.c):
        # sort only ids, then read the other columns of the rows of this page
        chosen = statement.with_only_columns(columns.id).order_by(*order).limit(limit).subquery()
        statement = sa.select(*statement.selected_columns).where(columns.id == chosen.c.id)
    statement = statement.order_by(*order)
    return statement if limit is None else statement.limit(limit)


def _rows(conn: sa.Connection, statement: sa.Select[Any], texts: dict[str, Any]) -> list[Row]:
    """Return the rows of a SELECT.

    :param texts: cache {text of a JSON column: its value}
    """
    result = conn.execute(statement)
    names = tuple(result.keys())
    rows = [dict(zip(names, row)) for row in result.all()]
    _parse(rows, [name for name in names if name in _JSON], texts)
    return rows


def _parse(rows: list[Row], names: list[str], texts: dict[str, Any]) -> None:
    """Parse the texts of JSON columns."""
    loads = orjson.loads
    for name in names:
        for row in rows:
            text = row[name]
            if text is None:
                continue
            if text in texts:
                row[name] = texts[text]
            else:
                row[name] = texts[text] = loads(text)


def _matched(conn: sa.Connection, source: tuple[sa.Select[Any], types.Columns], sort: Sort,
             place: tuple[Any, ...] | None, query: Query, matchers: list[Callable[[Row], bool]]) -> list[Row]:
    limit = query.limit
    found: list[Row] = []
    ends = time.monotonic() + MATCH_S
    while limit is None or len(found) < limit:
        if time.monotonic() > ends:
            raise TooSlow
        rows = _rows(conn, _select(source, sort, place, BATCH, query.several), {})
        found += [row for row in rows if all(matches(row) for matches in matchers)]
        if len(rows) < BATCH:
            break
        place = tuple(rows[-1][name] for name, _ in sort)
    return found[:limit]
