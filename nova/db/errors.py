"""Classification of driver errors, to find transactions to repeat and servers that accept no writes.

oslo.db classifies most errors. The filters here are for errors that oslo.db would treat as programming errors; users
would then get status 500. This module also removes values from error texts, because servers quote refused values,
which may be passwords.
"""
import re

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters

# Errors of a server that was the primary until recently, or is under maintenance. They count as a lost connection: the
# next connection reaches the current primary.
READ_ONLY = (r'(?is).*(\b(1290|1792|1836)\b.*read.only|in a read-only transaction|not currently accepting connections|'
             r'database system is (starting up|shutting down|in recovery))')


# libpq's texts for a failed connection, since PostgreSQL 14
CONNECTION_LOST = r'(?s).*connection to server .*(failed|closed)'
# MariaDB's reasons for refusing a connection: too many connections, wrong password, database or host, a shutdown, an
# ended connection. Without this filter, commands and daemons would end with a traceback.
REFUSED = r'(?s).*\((1040|1044|1045|1053|1129|1130|1203|1226|1698|1927), '


class Unwritable(db_exc.DBError):
    """The server's disk is full or broken."""


# errors of a temporarily unavailable database
UNAVAILABLE = (db_exc.DBConnectionError, db_exc.DBDeadlock, db_exc.DBNonExistentDatabase, Unwritable,
               sa.exc.OperationalError, sa.exc.TimeoutError)


@exc_filters.filters('sqlite', sa.exc.OperationalError, r'.*database (table )?is locked')
@exc_filters.filters('postgresql', sa.exc.OperationalError,
                     r'(?s).*(canceling statement due to lock timeout|could not serialize access)')
def _run_again(error: sa.exc.DBAPIError, match: re.Match[str], engine_name: str, is_disconnect: bool) -> None:
    raise db_exc.DBDeadlock(error)


@exc_filters.filters('mysql', sa.exc.DBAPIError, r'(?s).*\((3, |28, |1021, |1026, |1114, |1030, .*error 28\b)')
@exc_filters.filters('postgresql', sa.exc.OperationalError, r'(?s).*(No space left on device|DiskFull\))')
@exc_filters.filters('sqlite', sa.exc.OperationalError,
                     r'.*(database or disk is full|disk I/O error)')
def _unwritable(error: sa.exc.DBAPIError, match: re.Match[str], engine_name: str, is_disconnect: bool) -> None:
    raise Unwritable(error)


class Locked(db_exc.DBDeadlock):
    """Another transaction of this process holds the lock for writes to an SQLite file for too long."""


# a full disk: SQLite's texts, MariaDB's numbers (errno 28 appears as 1021, 1026, 1030 or 1114), PostgreSQL's SQLSTATE
_FULL = re.compile(r'database or disk is full|\((1021|1026|1114), |\(1030, .*error 28\b|DiskFull\)')


def is_full(error: BaseException) -> bool:
    """Tell whether a database has no disk space for a write."""
    return isinstance(error, (sa.exc.DBAPIError, db_exc.DBError)) and _FULL.search(reason(error)) is not None


class Forbidden(db_exc.DBError):
    """The account has no privilege for a table or column of a statement."""


@exc_filters.filters('mysql', sa.exc.OperationalError, r'(?s).*\((1142|1143), ')
@exc_filters.filters('postgresql', sa.exc.ProgrammingError, r'(?s).*InsufficientPrivilege\)')
def _forbidden(error: sa.exc.DBAPIError, match: re.Match[str], engine_name: str, is_disconnect: bool) -> None:
    raise Forbidden(error)


def _away(error: sa.exc.DBAPIError, match: re.Match[str], engine_name: str, is_disconnect: bool) -> None:
    raise db_exc.DBConnectionError(error)


exc_filters.filters('postgresql', sa.exc.OperationalError, CONNECTION_LOST)(_away)
exc_filters.filters('mysql', sa.exc.OperationalError, REFUSED)(_away)
for _dialect in ('mysql', 'postgresql', 'sqlite'):
    for _kind in (sa.exc.OperationalError, sa.exc.InternalError):
        exc_filters.filters(_dialect, _kind, READ_ONLY)(_away)


def reason(error: BaseException) -> str:
    """Return the database's error text in one line, without the statement and values that SQLAlchemy appends."""
    return (str(getattr(error, 'inner_exception', None) or error).splitlines() or [type(error).__name__])[0]


# ---- texts of drivers

HIDDEN = '***'
# Errors of MySQL and MariaDB that quote names of columns, tables, users or hosts, but no values. Numbers from 2000 are
# client errors about connections. 1021, 1026, 1030, 1114: the disk or a table is full.
_MYSQL_NAMES = {1021, 1026, 1030, 1040, 1044, 1045, 1048, 1049, 1050, 1051, 1054, 1060, 1061, 1072, 1091, 1114,
                1129, 1130, 1142, 1143, 1146, 1203, 1205, 1213, 1216, 1217, 1226, 1264, 1290, 1317, 1364, 1406,
                1451, 1452, 1698, 1792, 1836, 1927}
_MYSQL_CLIENT = range(2000, 3000)
_MYSQL_DUPLICATE = re.compile(r"(Duplicate entry )'.*'( for key '[^']*')", re.S)
# SQLSTATEs of PostgreSQL with first lines that quote only names: whole classes, and some of class 42
_POSTGRESQL_NAMES = re.compile('08|23|25|28|3D|40|53|55|57|58|42(501|703|804|883|P01|P07)')
_POSTGRESQL_KEY = re.compile(r'(DETAIL: +Key \(.*?\)=\().*(\) (?:already exists|is not present in table "[^"]*"|'
                             r'is still referenced from table "[^"]*")\.)', re.S)
_QUOTE = re.compile('["\'`«»„“”‘’「]')                # the quotes depend on the server's language


def conceal(context: sa.ExceptionContext) -> None:
    """Remove values from the text of a driver's error before it is visible; this is a handler of SQLAlchemy's event
    handle_error.

    The parts that oslo.db evaluates are kept: number, kind, and names of tables, columns and keys.
    """
    error, wrapped = context.original_exception, context.sqlalchemy_exception
    if not isinstance(wrapped, sa.exc.DBAPIError):
        return
    if context.dialect.name == 'mysql' and len(error.args) > 1 and isinstance(error.args[0], int):
        error.args = error.args[0], _mysql(error.args[0], str(error.args[1]))
    elif context.dialect.name == 'postgresql' and error.args:
        state = getattr(error, 'pgcode', None) or getattr(error, 'sqlstate', None)
        error.args = (_postgresql(state, isinstance(wrapped, sa.exc.OperationalError), str(error.args[0])),)
    else:                                            # SQLite quotes only names
        return
    kind = type(error)
    wrapped.args = (f'({kind.__module__}.{kind.__name__}) {error}', *wrapped.args[1:])


def _mysql(code: int, text: str) -> str:
    if code in _MYSQL_NAMES or code in _MYSQL_CLIENT:
        return text
    found = _MYSQL_DUPLICATE.match(text)
    return f"{found[1]}'{HIDDEN}'{found[2]}" if found else _cut(text)


def _postgresql(state: str | None, operational: bool, text: str) -> str:
    if state is None and operational:                # an error of libpq about the connection
        return text
    first = text.partition('\n')[0]
    if not _POSTGRESQL_NAMES.match(state or ''):
        return _cut(first)
    found = _POSTGRESQL_KEY.search(text)
    return f'{first}\n{found[1]}{HIDDEN}{found[2]}\n' if found else first


def _cut(text: str) -> str:
    """Return a text up to its first quotation."""
    found = _QUOTE.search(text)
    return text[:found.start()] + HIDDEN if found else text
