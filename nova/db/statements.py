"""Statements that are made once: to make one takes several times as long as to run it.

What every request or message runs is kept: here where its conditions are columns that equal a value, in its own module
as a constant with ``sa.bindparam`` where they are others.

    row = statements.first(conn, flavors, flavor_id='1')
    statements.update(conn, instances, {'task_state': None}, uuid=uuid)

Values compared with are never None, and those written are plain ones, no expressions.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
import functools
import re
from typing import Any

import sqlalchemy as sa

_WORD = re.compile('[A-Za-z0-9_ -]+')

insert = functools.cache(sa.insert)           # of a table; the rows are the parameters


# of a row: dict, whose result the checker takes for the row type that the caller returns
to_dict: Callable[[Any], Any] = dict


def equal(table: sa.Table, names: tuple[str, ...]) -> Any:
    """The condition that these columns equal the parameters that ``keys`` makes."""
    return sa.and_(sa.true(), *(table.c[name] == sa.bindparam(_key(name)) for name in names))


def keys(match: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a statement for {column: value}; not named as columns, because an UPDATE sets those."""
    return {_key(name): value for name, value in match.items()}


def _key(name: str) -> str:
    return 'key_' + name


def one_of(column: sa.ColumnElement[Any], values: Iterable[str]) -> sa.ColumnElement[bool]:
    """The condition that a column has one of these words, which stand in the text: they are constants of the code.

    As parameters they would be put into the text at each execution.
    """
    words = sorted(values)
    if not all(_WORD.fullmatch(word) for word in words):
        raise ValueError(f'Not all of these are words: {words}')
    return column.in_([sa.literal_column(f"'{word}'") for word in words])


@functools.cache
def _select(table: sa.Table, names: tuple[str, ...], order: tuple[str, ...]) -> sa.Select[Any]:
    return sa.select(table).where(equal(table, names)).order_by(*(table.c[name] for name in order))


@functools.cache
def _update(table: sa.Table, names: tuple[str, ...]) -> Any:
    return sa.update(table).where(equal(table, names))


@functools.cache
def _delete(table: sa.Table, names: tuple[str]) -> Any:
    return sa.delete(table).where(equal(table, names))


@functools.cache
def _count(table: sa.Table, names: tuple[str, ...]) -> Any:
    some = sa.select(table.c[names[0]]).where(equal(table, names)).limit(sa.bindparam('most')).subquery()
    return sa.select(sa.func.count()).select_from(some)


def more_than(conn: sa.Connection, table: sa.Table, most: int, **match: Any) -> bool:
    """Whether a table has more than so many rows whose columns equal these values; no more of them are counted."""
    return bool(conn.execute(_count(table, tuple(match)), {'most': most + 1, **keys(match)}).scalar_one() > most)


def dicts(result: Any) -> list[Any]:
    """All rows of a result as dicts; for many of them several times as fast as its mappings."""
    names = tuple(result.keys())
    return [dict(zip(names, row)) for row in result.all()]


def rows(conn: sa.Connection, table: sa.Table, order: tuple[str, ...] = (), **match: Any) -> list[Any]:
    """The rows whose columns equal ``match``, as dicts.

    :param order: names of the columns that they are sorted by, a tuple
    """
    return dicts(conn.execute(_select(table, tuple(match), order), keys(match)))


def first(conn: sa.Connection, table: sa.Table, **match: Any) -> Any:
    """One row whose columns equal ``match`` as a dict, None when there is none."""
    row = conn.execute(_select(table, tuple(match), ()), keys(match)).mappings().first()
    return None if row is None else dict(row)


def update(conn: sa.Connection, table: sa.Table, values: dict[str, Any], **match: Any) -> int:
    """UPDATE the rows whose columns equal ``match``; their number."""
    return conn.execute(_update(table, tuple(match)), {**values, **keys(match)}).rowcount


def delete(conn: sa.Connection, table: sa.Table, **match: Any) -> int:
    """DELETE the rows whose columns equal ``match``; their number."""
    return conn.execute(_delete(table, tuple(match)), keys(match)).rowcount
