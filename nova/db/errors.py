"""What a driver's errors mean: a transaction to run again, or no server that accepts writes.

oslo.db knows most of them, and looks here for these, which it would take for a mistake of ours: the user got a 500.

And what of a driver's text may be published: servers quote the values that they refuse, which may be passwords.
"""
from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters

# A server that was the primary until a moment ago, or is being looked after: as if the connection were lost, so that
# the next connection is a new one and finds the current primary.
READ_ONLY = (r'(?is).*(\b(1290|1792|1836)\b.*read.only|in a read-only transaction|not currently accepting connections|'
             r'database system is (starting up|shutting down|in recovery))')


# libpq's words since PostgreSQL 14
CONNECTION_LOST = r'(?s).*connection to server .*(failed|closed)'
# The same of MariaDB, which says why it takes no connection: too many, a wrong password, another's database, a wrong
# host, a shutdown, an ended connection. Commands and daemons ended with a traceback.
REFUSED = r'(?s).*\((1040|1044|1045|1053|1129|1130|1203|1226|1698|1927), '


class Unwritable(db_exc.DBError):
    """The server's disk is full, or does not work."""


# What says that a database does not answer, for now.
UNAVAILABLE = (db_exc.DBConnectionError, db_exc.DBDeadlock, db_exc.DBNonExistentDatabase, Unwritable,
               sa.exc.OperationalError, sa.exc.TimeoutError)


@exc_filters.filters('sqlite', sa.exc.OperationalError, r'.*database (table )?is locked')
@exc_filters.filters('postgresql', sa.exc.OperationalError,
                     r'(?s).*(canceling statement due to lock timeout|could not serialize access)')
def _run_again(error: Any, match: Any, engine_name: str, is_disconnect: bool) -> None:
    raise db_exc.DBDeadlock(error)


@exc_filters.filters('mysql', sa.exc.DBAPIError, r'(?s).*\((3, |28, |1021, |1026, |1114, |1030, .*error 28\b)')
@exc_filters.filters('postgresql', sa.exc.OperationalError, r'(?s).*(No space left on device|DiskFull\))')
@exc_filters.filters('sqlite', sa.exc.OperationalError,
                     r'.*(database or disk is full|disk I/O error)')
def _unwritable(error: Any, match: Any, engine_name: str, is_disconnect: bool) -> None:
    raise Unwritable(error)


class Locked(db_exc.DBDeadlock):
    """Another process holds SQLite's one write lock for longer than a transaction waits."""


# SQLite's words, the numbers of MariaDB (errno 28 comes as 1021, 1026, 1030 or 1114), and PostgreSQL's SQLSTATE
_FULL = re.compile(r'database or disk is full|\((1021|1026|1114), |\(1030, .*error 28\b|DiskFull\)')


def is_full(error: BaseException) -> bool:
    """Whether the disk of a database has no room for a write."""
    return isinstance(error, (sa.exc.DBAPIError, db_exc.DBError)) and _FULL.search(reason(error)) is not None


class Forbidden(db_exc.DBError):
    """The account has not the right to a table, or to a column, that a statement needs."""


@exc_filters.filters('mysql', sa.exc.OperationalError, r'(?s).*\((1142|1143), ')
@exc_filters.filters('postgresql', sa.exc.ProgrammingError, r'(?s).*InsufficientPrivilege\)')
def _forbidden(error: Any, match: Any, engine_name: str, is_disconnect: bool) -> None:
    raise Forbidden(error)


def _away(error: Any, match: Any, engine_name: str, is_disconnect: bool) -> None:
    raise db_exc.DBConnectionError(error)


exc_filters.filters('postgresql', sa.exc.OperationalError, CONNECTION_LOST)(_away)
exc_filters.filters('mysql', sa.exc.OperationalError, REFUSED)(_away)
for _dialect in ('mysql', 'postgresql', 'sqlite'):
    for _kind in (sa.exc.OperationalError, sa.exc.InternalError):
        exc_filters.filters(_dialect, _kind, READ_ONLY)(_away)


def reason(error: Any) -> str:
    """What the database says, in one line, without the statement and its values: SQLAlchemy puts them behind it."""
    return (str(getattr(error, 'inner_exception', None) or error).splitlines() or [type(error).__name__])[0]


# ---- the driver's own words

HIDDEN = '***'
# Errors of MySQL and MariaDB that quote names alone: of columns, tables, users and hosts. 2000 and more are the
# client's: connections. 1021, 1026, 1030, 1114: the disk, or a table, is full.
_MYSQL_NAMES = {1021, 1026, 1030, 1040, 1044, 1045, 1048, 1049, 1050, 1051, 1054, 1060, 1061, 1072, 1091, 1114,
                1129, 1130, 1142, 1143, 1146, 1203, 1205, 1213, 1216, 1217, 1226, 1264, 1290, 1317, 1364, 1406,
                1451, 1452, 1698, 1792, 1836, 1927}
_MYSQL_CLIENT = range(2000, 3000)
_MYSQL_DUPLICATE = re.compile(r"(Duplicate entry )'.*'( for key '[^']*')", re.S)
# SQLSTATEs of PostgreSQL whose first line quotes names alone: classes, and of class 42 some.
_POSTGRESQL_NAMES = re.compile('08|23|25|28|3D|40|53|55|57|58|42(501|703|804|883|P01|P07)')
_POSTGRESQL_KEY = re.compile(r'(DETAIL: +Key \(.*?\)=\().*(\) (?:already exists|is not present in table "[^"]*"|'
                             r'is still referenced from table "[^"]*")\.)', re.S)
_QUOTE = re.compile('["\'`«»„“”‘’「]')                # a server speaks the language that it was set up for


def conceal(context: Any) -> None:
    """Take the values out of the text of a driver's error, before anybody has seen it: SQLAlchemy's event handle_error.

    What oslo.db reads from it stays: the number, the kind, the names of tables, columns and keys.
    """
    error, wrapped = context.original_exception, context.sqlalchemy_exception
    if not isinstance(wrapped, sa.exc.DBAPIError):
        return
    if context.dialect.name == 'mysql' and len(error.args) > 1 and isinstance(error.args[0], int):
        error.args = error.args[0], _mysql(error.args[0], str(error.args[1]))
    elif context.dialect.name == 'postgresql' and error.args:
        state = getattr(error, 'pgcode', None) or getattr(error, 'sqlstate', None)
        error.args = (_postgresql(state, isinstance(wrapped, sa.exc.OperationalError), str(error.args[0])),)
    else:                                            # SQLite quotes names alone
        return
    kind = type(error)
    wrapped.args = (f'({kind.__module__}.{kind.__name__}) {error}', *wrapped.args[1:])


def _mysql(code: int, text: str) -> str:
    if code in _MYSQL_NAMES or code in _MYSQL_CLIENT:
        return text
    found = _MYSQL_DUPLICATE.match(text)
    return f"{found[1]}'{HIDDEN}'{found[2]}" if found else _cut(text)


def _postgresql(state: Any, operational: Any, text: str) -> Any:
    if state is None and operational:                # of libpq: the connection
        return text
    first = text.partition('\n')[0]
    if not _POSTGRESQL_NAMES.match(state or ''):
        return _cut(first)
    found = _POSTGRESQL_KEY.search(text)
    return f'{first}\n{found[1]}{HIDDEN}{found[2]}\n' if found else first


def _cut(text: str) -> Any:
    """A text up to what it quotes."""
    found = _QUOTE.search(text)
    return text[:found.start()] + HIDDEN if found else text
