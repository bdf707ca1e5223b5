"""Engines and transactions. The caller defines the transaction; query functions take a connection.

    with cell.writer() as conn:
        instances.update(conn, uuid, {'task_state': None}, expect={'task_state': ['spawning']})
"""
from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import contextvars
import functools
import os
import random
import sqlite3
import threading
import time
from typing import Any, cast, Concatenate, ParamSpec, TYPE_CHECKING, TypeVar
import weakref

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters

from nova import exception
from nova import utils
from nova.db import errors
from nova.db import server_engines
from nova.db import spare_room
from nova.db import types
from nova.runtime import commits
from nova.runtime import metrics
from nova.runtime.hooks import sqlalchemy as sqlalchemy_hooks

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

DEADLOCK_RETRIES = 10            # repetitions of a transaction after deadlocks or lost races for locks
RECONNECT_PAUSES_S = (0.2, 0.5, 1)      # pauses before a transaction restarts after a lost connection
TRUSTED_S = 1                    # seconds: a connection that was used within this time is not pinged
SQLITE_BUSY_S = 10               # maximum wait for the write lock of SQLite, or of another thread
# Page cache of one connection; the value is SQLite's default. Each of dozens of connections has a cache, and discards
# it after a write on another connection. A larger cache needs memory and saves no reads under load.
SQLITE_CACHE_KIB = 2000
# seconds: a connection that was idle longer is closed, because its pages and prepared statements take megabytes
SQLITE_IDLE_S = 60
SQLITE_MODE = 0o600              # mode of a database file, independent of the umask


Connection = sa.Connection       # type of ``conn`` in the functions of this package
Condition = sa.ColumnElement[bool]       # type of a condition on rows
Column = sa.Column[Any]          # type of a column in such a condition
Table = types.Table              # type of a table argument
Savepoint = sa.NestedTransaction         # rollback point inside a transaction
ResultRow = sa.Row[Any]          # row of a result, with its columns as attributes

_Params = ParamSpec('_Params')
_Result = TypeVar('_Result')
_Joining = Callable[[sa.Connection, 'Database'], object]
_joining: contextvars.ContextVar[_Joining | None] = contextvars.ContextVar('nova_joining', default=None)


@contextlib.contextmanager
def joining(function: _Joining | None) -> Iterator[None]:
    """Call ``function(conn, database)`` before the commit of each write transaction of this thread in the block.

    :param function: the function, or None for no call
    """
    token = _joining.set(function)
    try:
        yield
    finally:
        _joining.reset(token)


class CommitUnanswered(db_exc.DBConnectionError):
    """The connection was lost during the commit; whether the data was written is unknown."""


@contextlib.contextmanager
def undone_if_unanswered(undo: Callable[[], object]) -> Iterator[None]:
    """Context manager of a write whose caller gets CommitUnanswered: undo the write, because it may be committed.

    :param undo: idempotent function; its own database errors are ignored
    """
    try:
        yield
    except CommitUnanswered:
        with contextlib.suppress(db_exc.DBError):
            undo()
        raise


class Database:
    """One database: the API database or the database of a cell.

    :param url: an SQLAlchemy URL; ``sqlite:///path``, ``mysql+pymysql://…``, ``mysql+mysqldb://…`` (native threads
        only) or ``postgresql+psycopg2://…``
    :param pool_size: number of connections kept open; on a server, half are for reading and half for writing
    :param max_overflow: number of further connections under load, divided in the same way
    :param name: name in metrics and health reports
    :param wait: whether the constructor waits for an unreachable server; otherwise the first transaction fails
    :raises InvalidInput: the URL is malformed, or its driver is not installed
    """

    def __init__(self, url: str | sa.URL, *, pool_size: int = 40, max_overflow: int = 10, name: str = 'database',
                 wait: bool = True) -> None:
        self.name = name
        self.engine: sa.Engine
        self._reading: sa.Engine         # the same object as ``engine`` for SQLite
        try:
            self.url = _as_mysql(sa.make_url(url))
            self.sqlite = self.url.get_backend_name() == 'sqlite'
            if self.sqlite:
                self.engine = self._reading = _sqlite_engine(self.url, pool_size, max_overflow)
            else:
                sizes = (max(1, pool_size // 2), max_overflow // 2)
                self.engine = server_engines.make(self.url, *sizes, wait)
                self._reading = server_engines.make(self.url, *sizes, wait=False, reading=True)
        except (sa.exc.ArgumentError, ValueError):
            raise exception.InvalidInput(f'The connection of the {name} database is not a URL of a database that is '
                                         'supported.') from None
        except ImportError as error:
            raise exception.InvalidInput(
                f'The connection of the {name} database needs the Python module {error.name}: install solonova[mysql], '
                'solonova[mysqlclient] or solonova[postgresql].') from None
        self._committed = None if self.sqlite else _skip_needless_roundtrips(self.engine)
        if not self.sqlite:
            _skip_needless_roundtrips(self._reading, reading=True)
        self._broken = threading.Event()
        for each in {self.engine, self._reading}:
            _hide_parameters(each)
            sa.event.listen(each, 'invalidate', self._note_broken)
        # SQLite has one writer at a time; this lock is fair and cheap, while SQLite itself polls
        self._one_writer = threading.Lock()
        self._spare: spare_room.SpareRoom | None = None
        for counter in (metrics.DB_FAILURES, metrics.DB_RETRIES, metrics.DB_RECONNECTS):
            counter.labels(name)         # create the time series with 0, so that alert rules detect the first increase
        self._idle: collections.deque[tuple[sa.Connection, float]] = collections.deque()
        self._ended = {kind: metrics.DB_TRANSACTIONS.labels(name, kind) for kind in ('read', 'write')}
        metrics.DB_CONNECTIONS.watch(self, Database.connections)

    @property
    def file(self) -> str | None:
        """The path of the SQLite file, or None for a database in memory or on a server."""
        return self.url.database or None if self.sqlite and self.url.database != ':memory:' else None

    def keep_spare_room(self) -> None:
        """Keep a reserve on disk for operations that free space; only for SQLite files."""
        if self.file is not None:
            self._spare = spare_room.SpareRoom(self.file)
            self._spare.fill()

    @contextlib.contextmanager
    def _writes(self) -> Iterator[None]:
        """Hold the lock that lets one thread of this process write to an SQLite file.

        :raises Locked: another thread holds the lock for too long
        """
        if not self.sqlite:
            yield
            return
        if not self._one_writer.acquire(timeout=SQLITE_BUSY_S):
            raise errors.Locked(f'another transaction of this process held the write lock for {SQLITE_BUSY_S} s')
        try:
            yield
        finally:
            self._one_writer.release()

    @contextlib.contextmanager
    def reader(self) -> Iterator[sa.Connection]:
        """Provide a connection for SELECTs without locks. On SQLite all SELECTs see one snapshot, on a server each
        SELECT sees the newest state.
        """
        with self._connection('BEGIN', self._reading) as conn:
            yield conn
        self._ended['read'].inc()

    @contextlib.contextmanager
    def writer(self) -> Iterator[sa.Connection]:
        """Provide a connection in a transaction, which is committed at the end of the block, or rolled back on an
        exception.

        Each statement sees all transactions committed before it, so a read after a lock sees the previous holder's
        changes.
        """
        with self._transaction(threading.Event()) as conn:
            yield conn

    @contextlib.contextmanager
    def _transaction(self, committing: threading.Event) -> Iterator[sa.Connection]:
        """Provide what ``writer`` does.

        :param committing: set directly before the COMMIT
        """
        with self._writes(), self._connection('BEGIN IMMEDIATE', self.engine) as conn:
            after: list[tuple[commits.Callback, commits.Callback | None]] = []
            conn.info[commits.AFTER] = after
            last: dict[Callable[[sa.Connection, set[str]], object], set[str]] = {}
            conn.info[commits.BEFORE] = last
            try:
                yield conn
                join = _joining.get()
                if join is not None:
                    join(conn, self)
                for record, words in last.items():
                    record(conn, words)
                committing.set()
                conn.commit()
            except BaseException:
                for _function, otherwise in after:
                    if otherwise is not None:
                        otherwise()
                raise
            driver = conn.connection.dbapi_connection
            if self._committed is not None and driver is not None:
                self._committed(driver)
            for function, _otherwise in after:
                function()
        self._ended['write'].inc()

    @contextlib.contextmanager
    def only_writer(self, timeout: float) -> Iterator[bool]:
        """Exclude other writing threads of this process from an SQLite database during a block.

        On a database server the block always gets True. On SQLite it gets True if it has the lock, and False if another
        writer does not finish within ``timeout`` seconds.
        """
        taken = not self.sqlite or self._one_writer.acquire(timeout=timeout)
        try:
            yield taken
        finally:
            if taken and self.sqlite:
                self._one_writer.release()

    @contextlib.contextmanager
    def _connection(self, begin: str, engine: sa.Engine) -> Iterator[sa.Connection]:
        """Provide a connection for one transaction; uncommitted changes are rolled back.

        SQLite connections stay open between transactions, because a checkout from the pool costs as much as a query.
        :param begin: SQLite's BEGIN statement
        :param engine: engine of the connection
        """
        if not self.sqlite:
            with engine.connect() as conn:
                yield conn
            return
        try:
            conn, _since = self._idle.pop()
        except IndexError:
            conn = engine.connect()
        try:
            conn.info[_BEGIN] = begin
            conn.begin()
            yield conn
            conn.rollback()
            driver: Any = conn.connection.dbapi_connection         # a _SqliteConnection
            driver.close_cursors()
        except BaseException:
            conn.close()
            raise
        now = time.monotonic()
        self._idle.append((conn, now))
        self._close_unused(now)

    def _close_unused(self, now: float) -> None:
        """Close the connection that has been idle the longest, if its idle time exceeds SQLITE_IDLE_S."""
        with contextlib.suppress(IndexError):              # another thread has taken the last idle connection
            if now - self._idle[0][1] > SQLITE_IDLE_S:
                conn, _since = self._idle.popleft()
                conn.detach()                              # detached, because the pool would keep it open
                conn.close()

    def run(self, function: Callable[Concatenate[sa.Connection, _Params], _Result], *args: _Params.args,
            **kwargs: _Params.kwargs) -> _Result:
        """Call ``function(conn, …)`` in a write transaction and return its result.

        The call is repeated after a deadlock, or after a lost connection before the commit.
        :raises CommitUnanswered: the result of the commit is unknown, so the caller must not roll back related changes
        :raises DBDeadlock: too many deadlocks occurred, or SQLite's write lock was held for SQLITE_BUSY_S
        """
        attempt, began = 0, time.monotonic()
        while True:
            committing = threading.Event()
            try:
                with self._transaction(committing) as conn:
                    result = function(conn, *args, **kwargs)
                if self._spare is not None:
                    self._spare.fill()
                return result
            except (sa.exc.OperationalError, errors.Unwritable) as error:
                if self._spare is None or not errors.is_full(error) or not self._spare.give():
                    raise
                continue
            except db_exc.DBConnectionError as error:
                if committing.is_set():
                    raise CommitUnanswered(error) from error
                if attempt >= len(RECONNECT_PAUSES_S):
                    metrics.DB_FAILURES.labels(self.name).inc()
                    raise
                metrics.DB_RECONNECTS.labels(self.name).inc()
                time.sleep(RECONNECT_PAUSES_S[attempt])
            except (db_exc.DBDeadlock, db_exc.RetryRequest):
                if attempt + 1 == DEADLOCK_RETRIES or self.sqlite and time.monotonic() - began >= SQLITE_BUSY_S:
                    metrics.DB_FAILURES.labels(self.name).inc()
                    raise
                metrics.DB_RETRIES.labels(self.name).inc()
                time.sleep(random.uniform(0, 0.01 * 2 ** attempt))
            attempt += 1

    def _note_broken(self, _connection: DBAPIConnection, _record: ConnectionPoolEntry,
                     error: BaseException | None) -> None:
        if error is not None:
            self._broken.set()

    def broke_off(self) -> contextlib.AbstractContextManager[bool]:
        """Return a context manager (``utils.taken``); its value is True if a connection broke since the last such
        block. The result of a commit may then be unknown.
        """
        return utils.taken(self._broken)

    def ping(self) -> None:
        """Query the server; raises an error if it is unreachable."""
        with self.reader() as conn:
            conn.execute(sa.select(1))

    def connections(self) -> dict[tuple[str, str], int]:
        """Return {(name, state): number of connections} without a query."""
        pools = [cast('sa.QueuePool', each.pool) for each in {self.engine, self._reading}]       # SQLAlchemy's default
        idle, out = len(self._idle), sum(pool.checkedout() for pool in pools)
        return {(self.name, 'in_use'): out - idle,
                (self.name, 'idle'): idle if self.sqlite else sum(pool.checkedin() for pool in pools)}

    def dispose(self) -> None:
        metrics.DB_CONNECTIONS.forget(self)
        while self._idle:
            self._idle.pop()[0].close()
        for each in {self.engine, self._reading}:
            each.dispose()


def _hide_parameters(engine: sa.Engine) -> None:
    """Keep parameter values, and server texts that repeat them, out of logs and errors, because some are secrets.

    oslo.db logs some errors when it classifies them; its handler runs after the values are removed.
    """
    engine.hide_parameters = True
    sa.event.remove(engine, 'handle_error', exc_filters.handler)
    sa.event.listen(engine, 'handle_error', errors.conceal)
    sa.event.listen(engine, 'handle_error', exc_filters.handler, retval=True)


def _skip_needless_roundtrips(engine: sa.Engine, reading: bool = False) -> Callable[[DBAPIConnection], None]:
    """Avoid needless round trips to a server: pings of recently used connections, and rollbacks after commits or reads.

    The first statement on a broken connection then fails. Database.run restarts such a transaction.
    :returns: function(driver connection), to be called after a commit if nothing follows before the return to the pool
    """
    used: weakref.WeakKeyDictionary[DBAPIConnection, float] = weakref.WeakKeyDictionary()
    committed: weakref.WeakSet[DBAPIConnection] = weakref.WeakSet()

    def do_ping(connection: DBAPIConnection) -> bool:
        return time.monotonic() - used.get(connection, float('-inf')) < TRUSTED_S or ping(connection)

    def do_rollback(connection: DBAPIConnection) -> None:
        # the pool passes its own wrapper of the driver's connection
        driver = getattr(connection, 'dbapi_connection', connection)
        if reading and driver.autocommit is not False or driver in committed:
            return
        rollback(connection)
        if reading:                              # ends streaming
            driver.autocommit = True

    @sa.event.listens_for(engine, 'checkin')
    def remember(connection: DBAPIConnection | None, _record: ConnectionPoolEntry) -> None:
        if connection is not None:                         # None: the connection was invalidated
            committed.discard(connection)
            used[connection] = time.monotonic()

    ping = sqlalchemy_hooks.replace_method(engine, 'do_ping', do_ping)
    rollback = sqlalchemy_hooks.replace_method(engine, 'do_rollback', do_rollback)
    return committed.add


def stream_rows(conn: sa.Connection) -> None:
    """Let a reader's connection stream the rows of the next statements (``yield_per``).

    PostgreSQL streams only inside a transaction, so a transaction is open until the reader's block ends.
    """
    driver: Any = conn.connection.dbapi_connection
    if conn.dialect.name == 'postgresql' and driver.autocommit:
        driver.autocommit = False


after_commit = commits.after


_BEGIN = 'nova_begin'            # key of the next BEGIN statement in an SQLite connection's info


def _begin(connection: sa.PoolProxiedConnection) -> None:
    """Begin an SQLite transaction if reader() or writer() has set a BEGIN statement."""
    statement = connection.info.pop(_BEGIN, None)
    if statement is not None:
        driver = connection.dbapi_connection
        assert driver is not None
        driver.execute(statement)


class _SqliteConnection(sqlite3.Connection):
    """SQLite connection with a list of its cursors, because an unfinished cursor keeps its snapshot after the
    transaction.
    """

    @functools.cached_property
    def _cursors(self) -> list[sqlite3.Cursor]:
        return []

    def cursor(self, *args: Any, **kwargs: Any) -> Any:        # typed as Any, because the base class has overloads
        cursor = super().cursor(*args, **kwargs)
        self._cursors.append(cursor)
        return cursor

    def close_cursors(self) -> None:
        while self._cursors:
            self._cursors.pop().close()


def _as_mysql(url: sa.URL) -> sa.URL:
    """Return a URL with SQLAlchemy's dialect mysql instead of mariadb. Either serves both servers."""
    known = url.get_backend_name() != 'mariadb'
    return url if known else url.set(drivername=url.drivername.replace('mariadb', 'mysql', 1))


def _sqlite_engine(url: sa.URL, pool_size: int, max_overflow: int) -> sa.Engine:
    """Create an engine with explicit transactions: pysqlite's own BEGIN comes too late for a snapshot.

    Connections are kept open. oslo.db's engine would open one for each transaction, which takes longer than most
    queries.
    """
    engine = sa.create_engine(url, pool_size=pool_size, max_overflow=max_overflow,
                              pool_timeout=server_engines.POOL_TIMEOUT_S, connect_args={'factory': _SqliteConnection})
    exc_filters.register_engine(engine)
    sqlalchemy_hooks.replace_method(engine, 'do_begin', _begin)

    @sa.event.listens_for(engine, 'do_connect')
    def make(_dialect: sa.Dialect, _record: ConnectionPoolEntry, arguments: list[str],
             _options: dict[str, str]) -> None:
        with contextlib.suppress(OSError):  # if this fails, the file exists or SQLite will report the error
            if arguments[0] != ':memory:':
                os.close(os.open(arguments[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL, SQLITE_MODE))

    @sa.event.listens_for(engine, 'connect')
    def configure(dbapi_connection: _SqliteConnection, _record: ConnectionPoolEntry) -> None:
        dbapi_connection.isolation_level = None
        cursor = dbapi_connection.cursor()
        cursor.execute('PRAGMA journal_mode=WAL')
        cursor.execute('PRAGMA synchronous=NORMAL')        # with WAL, a killed process loses no committed data
        cursor.execute(f'PRAGMA busy_timeout={SQLITE_BUSY_S * 1000}')
        cursor.execute(f'PRAGMA cache_size=-{SQLITE_CACHE_KIB}')
        cursor.close()

    @sa.event.listens_for(engine, 'checkin')
    def forget(dbapi_connection: _SqliteConnection | None, _record: ConnectionPoolEntry) -> None:
        if dbapi_connection is not None:                   # None: the connection was invalidated
            dbapi_connection.close_cursors()
    return engine


@functools.cache
def insert_of(dialect: str) -> Any:
    """Return the dialect's INSERT construct, which can handle existing rows."""
    module = {'mysql': 'mysql', 'postgresql': 'postgresql', 'sqlite': 'sqlite'}[dialect]
    return __import__(f'sqlalchemy.dialects.{module}', fromlist=['insert']).insert


def lock_row(conn: sa.Connection, table: sa.Table, key: dict[str, str]) -> None:
    """Lock a row until the transaction ends, and create it if missing. The table must have only key columns.

    One statement takes the exclusive lock directly, because taking a shared lock first would cause deadlocks. SQLite
    needs no lock, because it has one writer.
    """
    dialect = conn.dialect.name
    if dialect == 'sqlite':
        return
    insert = insert_of(dialect)(table).values(**key)
    new = insert.inserted if dialect == 'mysql' else insert.excluded
    same = {name: new[name] for name in key}
    conn.execute(insert.on_duplicate_key_update(**same) if dialect == 'mysql' else
                 insert.on_conflict_do_update(index_elements=list(key), set_=same))


def insert_ignore(conn: sa.Connection, table: sa.Table, values: types.ColumnValues) -> sa.CursorResult[Any]:
    """Insert a row unless its key exists; works on all three databases."""
    statement = insert_of(conn.dialect.name)(table).values(**values)
    if conn.dialect.name == 'mysql':
        return conn.execute(statement.prefix_with('IGNORE'))
    return conn.execute(statement.on_conflict_do_nothing())


def insert_many_ignore(conn: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert many rows with the same columns, except those whose keys exist. The number of inserted rows is unknown."""
    statement = insert_of(conn.dialect.name)(table)
    if conn.dialect.name == 'mysql':
        conn.execute(statement.prefix_with('IGNORE'), rows)
    else:
        conn.execute(statement.on_conflict_do_nothing(), rows)
