"""Cached statements, because building a statement takes several times as long as running it.

Statements that run for every request or message are cached. This module builds and caches statements that compare
columns for equality. Other statements are constants with ``sa.bindparam`` in the modules that use them.

    row = statements.first(conn, flavors, flavor_id='1')
    statements.update(conn, instances, {'task_state': None}, uuid=uuid)

Values to compare must not be None, and values to write must not be SQL expressions.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
import functools
import re
from typing import Any, cast, TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from nova.db.types import ColumnValues, RowT, Table

_WORD = re.compile('[A-Za-z0-9_ -]+')

insert = functools.cache(sa.insert)           # INSERT into a table; the rows are the parameters


# function that converts a row to a dict; the result has the type Any, so that callers can return it as their row type
to_dict: Callable[[Any], Any] = dict


def equal(table: sa.Table, names: tuple[str, ...]) -> sa.ColumnElement[bool]:
    """Return the condition that these columns equal the parameters of ``_keys``."""
    return sa.and_(sa.true(), *(table.c[name] == sa.bindparam(_key(name)) for name in names))


def _keys(match: dict[str, object]) -> dict[str, object]:
    """Return {column: value} as parameters of a statement; a prefix distinguishes them from the values of an UPDATE."""
    return {_key(name): value for name, value in match.items()}


def _key(name: str) -> str:
    return 'key_' + name


def one_of(column: sa.ColumnElement[Any], values: Iterable[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a column has one of these constant words, which become part of the statement's text.

    With an expanding parameter, SQLAlchemy would rebuild the text at each execution.
    """
    words = sorted(values)
    if not all(_WORD.fullmatch(word) for word in words):
        raise ValueError(f'Not all of these are words: {words}')
    return column.in_([sa.literal_column(f"'{word}'") for word in words])


@functools.cache
def _select(table: sa.Table, names: tuple[str, ...], order: tuple[str, ...]) -> sa.Select[Any]:
    return sa.select(table).where(equal(table, names)).order_by(*(table.c[name] for name in order))


@functools.cache
def _update(table: sa.Table, names: tuple[str, ...]) -> sa.Update:
    return sa.update(table).where(equal(table, names))


@functools.cache
def _delete(table: sa.Table, names: tuple[str, ...]) -> sa.Delete:
    return sa.delete(table).where(equal(table, names))


@functools.cache
def _count(table: sa.Table, names: tuple[str, ...]) -> sa.Select[int]:
    some = sa.select(table.c[names[0]]).where(equal(table, names)).limit(sa.bindparam('most')).subquery()
    return sa.select(sa.func.count()).select_from(some)


def more_than(conn: sa.Connection, table: sa.Table, most: int, **match: object) -> bool:
    """Tell whether a table has more than ``most`` rows with these column values, without counting further rows."""
    return bool(conn.execute(_count(table, tuple(match)), {'most': most + 1, **_keys(match)}).scalar_one() > most)


def dicts(result: sa.Result[*tuple[Any, ...]]) -> list[Any]:
    """Return all rows of a result as dicts. This function is several times faster than the result's ``mappings()``."""
    names = tuple(result.keys())
    return [dict(zip(names, row)) for row in result.all()]


def rows(conn: sa.Connection, table: Table[RowT], order: tuple[str, ...] = (), **match: object) -> list[RowT]:
    """Return the rows with columns equal to ``match`` as dicts.

    :param order: tuple of the names of the sort columns
    """
    return dicts(conn.execute(_select(table, tuple(match), order), _keys(match)))


def first(conn: sa.Connection, table: Table[RowT], **match: object) -> RowT | None:
    """Return one row with columns equal to ``match`` as a dict, or None."""
    row = conn.execute(_select(table, tuple(match), ()), _keys(match)).mappings().first()
    return None if row is None else cast('RowT', dict(row))        # RowT is generated from the columns of the table


def one(conn: sa.Connection, table: Table[RowT], **match: object) -> RowT:
    """Return the row with columns equal to ``match`` as a dict. The row must exist."""
    row = first(conn, table, **match)
    assert row is not None
    return row


def update(conn: sa.Connection, table: sa.Table, values: ColumnValues, **match: object) -> int:
    """Update the rows with columns equal to ``match``; return their number."""
    return conn.execute(_update(table, tuple(match)), {**values, **_keys(match)}).rowcount


def delete(conn: sa.Connection, table: sa.Table, **match: object) -> int:
    """Delete the rows with columns equal to ``match``; return their number."""
    return conn.execute(_delete(table, tuple(match)), _keys(match)).rowcount
