"""Consistent dumps of several databases (SQLite, MariaDB or PostgreSQL), and their restoration.

    with moment([api_db, cell_db]) as (api, cell):
        for table, rows in batches(api, 'api'):
            …

Rows are lists of JSON values in the order of the table's columns. A dump can be restored to another kind of database.
"""
import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import datetime
import logging
import random
import time
from typing import Any

from oslo_db import exception as db_exc
import sqlalchemy as sa

from nova import exception
from nova.db import conversion
from nova.db import engine
from nova.db import errors
from nova.db import schema
from nova.db import types
from nova.db.tables import cell as tables
from nova.json_types import Json

LOG = logging.getLogger(__name__)

BARRIER_S = 60               # maximum wait in seconds for the end of all writing transactions
LOCK_S = 2                   # maximum wait in seconds for one database while others are locked
BATCH_ROWS = 500
BATCH_BYTES = 4 << 20        # approximate text size of a batch
RESTORING = 'restoring'      # revision of a database during its restoration; services refuse to use the database
ROW_TYPES = (str, int, float, bool, type(None))

_Scalar = str | int | float | bool | None
Batch = list[list[Any]]


# ---- consistent snapshot of several databases

@contextlib.contextmanager
def moment(databases: Sequence[engine.Database],
           within: Callable[[], None] = lambda: None) -> Iterator[list[engine.Connection]]:
    """Provide connections that read the databases in one consistent state.

    Writers wait until all open transactions have ended and the snapshots are taken, which takes some milliseconds.
    :param within: function that is called while writers wait
    :raises Unavailable: a transaction did not end within BARRIER_S seconds
    """
    with contextlib.ExitStack() as readers:
        with _barrier(databases):
            connections = [readers.enter_context(_snapshot(db)) for db in databases]
            within()
        yield connections


@contextlib.contextmanager
def _barrier(databases: Sequence[engine.Database]) -> Iterator[None]:
    """Block commits in all databases during the ``with`` block.

    If a database cannot be locked within LOCK_S seconds, all locks are released before the next attempt. This avoids
    a deadlock with a process that writes to one database and waits for another.
    """
    deadline = time.monotonic() + BARRIER_S
    while True:
        with contextlib.ExitStack() as locks:
            try:
                for db in databases:
                    locks.enter_context(_LOCKS[db.url.get_backend_name()](db))
            except (db_exc.DBDeadlock, sa.exc.OperationalError, db_exc.DBError) as error:
                if isinstance(error, (db_exc.DBConnectionError, errors.Forbidden)):
                    raise
                if time.monotonic() > deadline:
                    raise exception.Unavailable(
                        f'Writing transactions did not end within {BARRIER_S} s: '
                        f'{errors.reason(error)}. Try again when the cloud is less busy.') from None
                LOG.info('The backup waits for the end of an open transaction.')
            else:
                yield
                return
        time.sleep(random.uniform(0.05, 0.5))


def _tables(conn: engine.Connection) -> list[str]:
    quote = conn.dialect.identifier_preparer.quote
    return [quote(name) for name in sa.inspect(conn).get_table_names()]


@contextlib.contextmanager
def _lock_sqlite(db: engine.Database) -> Iterator[None]:
    with db.only_writer(LOCK_S) as free, db.engine.connect() as conn:
        if not free:
            raise db_exc.DBDeadlock('another thread writes')
        conn.detach()                        # the connection is closed afterwards, which resets its pragma
        conn.exec_driver_sql(f'PRAGMA busy_timeout={LOCK_S * 1000}')
        conn.exec_driver_sql('BEGIN IMMEDIATE')
        try:
            yield
        finally:
            conn.exec_driver_sql('ROLLBACK')


@contextlib.contextmanager
def _lock_mysql(db: engine.Database) -> Iterator[None]:
    with db.engine.connect() as conn:
        conn.detach()
        tables = _tables(conn)
        conn.exec_driver_sql(f'SET SESSION lock_wait_timeout = {LOCK_S}')
        conn.exec_driver_sql('LOCK TABLES ' + ', '.join(f'{name} READ' for name in tables))
        try:
            yield
        finally:
            conn.exec_driver_sql('UNLOCK TABLES')


@contextlib.contextmanager
def _lock_postgresql(db: engine.Database) -> Iterator[None]:
    with db.engine.connect() as conn:
        conn.detach()
        tables = _tables(conn)
        conn.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_S}s'")
        conn.exec_driver_sql(f'LOCK TABLE {", ".join(tables)} IN SHARE MODE')
        try:
            yield
        finally:
            conn.rollback()


_LOCKS = {'sqlite': _lock_sqlite, 'mysql': _lock_mysql, 'postgresql': _lock_postgresql}


@contextlib.contextmanager
def _snapshot(db: engine.Database) -> Iterator[engine.Connection]:
    """Provide a connection with a snapshot for the duration of the block."""
    if db.sqlite:
        with db.reader() as conn:
            conn.exec_driver_sql('SELECT count(*) FROM sqlite_master').scalar()
            yield conn
        return
    with db.engine.connect() as conn:
        conn.detach()                        # the connection is closed afterwards, which resets its settings
        if db.url.get_backend_name() == 'mysql':
            if getattr(conn.dialect, 'is_mariadb', False):
                conn.exec_driver_sql('SET SESSION idle_transaction_timeout = 0')
            conn.exec_driver_sql('SET SESSION net_write_timeout = 600')
            conn.exec_driver_sql('SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ')
            conn.exec_driver_sql('START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY')
        else:
            conn.exec_driver_sql('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
            conn.exec_driver_sql('SET LOCAL idle_in_transaction_session_timeout = 0')
            conn.exec_driver_sql('SELECT 1').scalar()
        yield conn


# ---- dump

def revision(conn: engine.Connection, branch: str) -> str:
    """Return the revision of a database.

    :raises DatabaseNotReady: the revision is not the newest one, and not the one before or after nova.db.conversion
    """
    found = schema.version_of(conn)
    if found in (schema.PREDECESSORS[branch], schema.revisions(branch)[0]):     # before or after nova.db.conversion
        return found
    if found != schema.head(branch) or schema.version_of(conn, schema.CONTRACT) != schema.head(branch, schema.CONTRACT):
        raise exception.DatabaseNotReady(branch=branch, found=found or 'none', expected=schema.head(branch),
                                         command=schema.BRANCHES[branch][1])
    return str(found)


def batches(conn: engine.Connection, branch: str) -> Iterator[tuple[str, list[str], Batch]]:
    """Yield (table, names of columns, rows) of all tables of a branch; large tables come in several batches."""
    for name, columns in _present(conn, branch).items():
        table, batch, size = _table(name, columns), [], 0
        found = conn.execute(sa.select(table), execution_options={'yield_per': BATCH_ROWS})
        for row in found:
            values = [_dump(value) for value in row]
            batch.append(values)
            size += sum(len(value) if isinstance(value, str) else 8 for value in values)
            if len(batch) == BATCH_ROWS * 10 or size > BATCH_BYTES:
                yield name, list(columns), batch
                batch, size = [], 0
        if batch:
            yield name, list(columns), batch


def _present(conn: engine.Connection, branch: str) -> dict[str, dict[str, Any]]:
    """Return those tables and columns of ``_raw_tables`` that a database has; an old revision lacks some."""
    tables = _raw_tables(branch)
    if schema.version_of(conn) == schema.revisions(branch)[-1]:
        return tables
    inspector = sa.inspect(conn)
    known = {name: {column['name'] for column in inspector.get_columns(name)} for name in inspector.get_table_names()}
    found: dict[str, dict[str, Any]] = {}
    for name, columns in tables.items():
        if name in known:
            former = {new: old for old, new in conversion.renamed_columns(branch, name).items()}
            found[name] = {present: kind for column, kind in columns.items()
                           for present in (column, former.get(column)) if present in known[name]}
    return found


def _raw_tables(branch: str) -> dict[str, dict[str, Any]]:
    """Return {table: {column: type}} of a branch. JSON columns have a text type."""
    return {table.name: {column.name: types.LongText if isinstance(column.type, types.Json) else column.type
                         for column in table.columns}
            for table in sorted(schema.metadata(branch).tables.values(), key=lambda table: str(table.name))}


def _table(name: str, columns: dict[str, Any]) -> engine.Table:
    """Return a table of only these columns, because an older revision may lack columns of nova.db.tables."""
    return types.Table(name, sa.MetaData(), *(sa.Column(column, kind) for column, kind in columns.items()))


def _dump(value: _Scalar | datetime.datetime | bytes) -> _Scalar:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime.datetime) else value


_LOADERS: dict[type[Any], Callable[[Any], Any]] = {
    sa.DateTime: datetime.datetime.fromisoformat, sa.LargeBinary: lambda text: base64.b64decode(text, validate=True)}


# ---- restoration

def check(branch: str, table: str, columns: Json, rows: Json) -> None:
    """Check a batch of rows.

    :raises InvalidInput: the batch does not match a table of the branch
    """
    known = _raw_tables(branch).get(table)
    if known is None or not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        raise exception.InvalidInput(f'The backup has rows of an unknown table, or with unknown columns: {table}.')
    names = _present_names(branch, table, columns)
    if not names or len(set(names)) != len(names) or not set(names) <= set(known):
        raise exception.InvalidInput(f'The backup has rows of an unknown table, or with unknown columns: {table}.')
    if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == len(names) and all(isinstance(value, ROW_TYPES) for value in row)
            for row in rows):
        raise exception.InvalidInput(f'The backup has malformed rows of {table}.')
    _values(known, names, rows)


def _present_names(branch: str, table: str, columns: list[Any]) -> list[str]:
    """Replace column names from before nova.db.conversion by the names with which ``prepare`` creates the tables."""
    renamed = conversion.renamed_columns(branch, table)
    return [renamed.get(column, column) for column in columns]


def _values(known: dict[str, Any], columns: list[Any], rows: list[Any]) -> list[dict[str, Any]]:
    loaders = [next((load for kind, load in _LOADERS.items() if isinstance(known[column], kind)), None)
               for column in columns]
    try:
        return [{column: load(value) if load is not None and value is not None else value
                 for column, value, load in zip(columns, row, loaders)} for row in rows]
    except (TypeError, ValueError):
        raise exception.InvalidInput('The backup has a malformed time or binary value.') from None


def knows(branch: str, revision: Json) -> bool:
    """Tell whether this code can create a database with this revision and upgrade it."""
    return revision in (*schema.revisions(branch), schema.PREDECESSORS[branch])


def is_empty(db: engine.Database, branch: str) -> bool:
    """Tell whether a database has no table of a branch."""
    with db.reader() as conn:
        return not _ours(conn, branch)


def _ours(conn: engine.Connection, branch: str) -> set[str]:
    ours = {*_raw_tables(branch), schema.EXPAND, schema.CONTRACT}
    return ours & set(sa.inspect(conn).get_table_names())


def services(conn: engine.Connection) -> list[Mapping[str, Any]]:
    """Return binary, host, last_seen_at and forced_down of the services in a database of any release."""
    if tables.services.name not in sa.inspect(conn).get_table_names():
        return []
    columns = tables.services.c
    found = conn.execute(sa.select(columns.binary, columns.host, columns.last_seen_at, columns.forced_down))
    return [dict(row) for row in found.mappings()]


def prepare(db: engine.Database, branch: str, revision: str) -> None:
    """Drop existing tables of the branch in a database, and create the empty tables of a revision."""
    with db.writer() as conn:
        for name in sorted(_ours(conn, branch)):
            conn.exec_driver_sql(f'DROP TABLE {conn.dialect.identifier_preparer.quote(name)}')
    with db.writer() as conn:
        first = schema.revisions(branch)[0]
        schema.create(conn, branch, first if revision == schema.PREDECESSORS[branch] else revision)
        for name in _ours(conn, branch) & set(_raw_tables(branch)):
            conn.execute(sa.delete(sa.table(name)))
        schema.stamp(conn, RESTORING)


def insert(db: engine.Database, branch: str, table: str, columns: list[str], rows: Batch) -> None:
    """Insert a batch that ``check`` has accepted."""
    known, columns = _raw_tables(branch)[table], _present_names(branch, table, columns)
    values = _values(known, columns, rows)
    target = _table(table, {column: known[column] for column in columns})
    with db.writer() as conn:
        for begin in range(0, len(values), BATCH_ROWS):
            conn.execute(sa.insert(target), values[begin:begin + BATCH_ROWS])


def finish(db: engine.Database, branch: str, revision: str) -> None:
    """Complete the restoration: upgrade the database to this code's revision and allow services to use it."""
    with db.writer() as conn:
        if conn.dialect.name == 'postgresql':
            _follow_sequences(conn, branch)
        schema.stamp(conn, revision)
    conversion.convert(db, branch)
    schema.sync(db, branch)


def _follow_sequences(conn: engine.Connection, branch: str) -> None:
    """Advance PostgreSQL's id sequences beyond the restored ids."""
    there = _ours(conn, branch)
    for table in schema.metadata(branch).tables.values():
        column = table.autoincrement_column
        if column is not None and table.name in there:
            conn.execute(sa.select(sa.func.setval(
                sa.func.pg_get_serial_sequence(f'"{table.name}"', column.name),
                sa.select(sa.func.coalesce(sa.func.max(column), 0) + 1).scalar_subquery(), False)))
