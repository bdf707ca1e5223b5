"""Engines and transactions. The borders of a transaction stand in the caller; query functions take a connection.

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
from typing import Any, Concatenate, ParamSpec, TypeVar
import weakref

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters

from nova import exception
from nova import utils
from nova.db import errors
from nova.db import server_engines
from nova.db import spare_room
from nova.runtime import commits
from nova.runtime import metrics
from nova.runtime.hooks import sqlalchemy as sqlalchemy_hooks

DEADLOCK_RETRIES = 10            # a transaction that lost a deadlock or a lock race is run again this often
RECONNECT_PAUSES_S = (0.2, 0.5, 1)      # before a transaction that lost its connection is begun again
TRUSTED_S = 1                    # a connection that was used within so many seconds is not probed
SQLITE_BUSY_S = 10               # another process may hold SQLite's one write lock this long
# Pages of one connection: SQLite's own default. Dozens of connections to a database keep so many each, and drop them
# when another one has written: with more a process would grow with its databases, and save no reading under load.
SQLITE_CACHE_KIB = 2000
SQLITE_MODE = 0o600              # of a database's file, under every umask


Connection = sa.Connection       # what functions of this package take as ``conn``
Table = sa.Table                 # whose rows they read and write, where it is an argument
Savepoint = sa.NestedTransaction         # what a part of its transaction can be rolled back to

_Params = ParamSpec('_Params')
_Result = TypeVar('_Result')
_Joining = Callable[[sa.Connection, 'Database'], object]
_joining: contextvars.ContextVar[_Joining | None] = contextvars.ContextVar('nova_joining', default=None)


@contextlib.contextmanager
def joining(function: _Joining | None) -> Iterator[None]:
    """Let ``function(conn, database)`` be called in each write transaction of this thread, right before it commits.

    :param function: None: nothing is called
    """
    token = _joining.set(function)
    try:
        yield
    finally:
        _joining.reset(token)


class CommitUnanswered(db_exc.DBConnectionError):
    """The connection was lost at the commit: what was to be written is there, or is not."""


class Database:
    """One database: the API database or a cell's.

    :param url: an SQLAlchemy URL; ``sqlite:///path``, ``mysql+pymysql://…``, ``mysql+mysqldb://…`` (native threads
        alone) or ``postgresql+psycopg2://…``
    :param pool_size: connections kept open; to a server one half for reading, the other for writing
    :param max_overflow: connections opened beyond that under load, shared in the same way
    :param name: in metrics and health reports
    :param wait: for a server that is away, when this is made; else the first transaction finds out
    :raises InvalidInput: the URL is none, or its driver is not installed
    """

    def __init__(self, url: str | sa.URL, *, pool_size: int = 40, max_overflow: int = 10, name: str = 'database',
                 wait: bool = True) -> None:
        self.name = name
        try:
            self.url = sa.make_url(url)
            self.sqlite = self.url.get_backend_name() == 'sqlite'
            if self.sqlite:
                self.engine = self._reading = _sqlite_engine(self.url, pool_size, max_overflow)
            else:
                sizes = (max(1, pool_size // 2), max_overflow // 2)
                self.engine = server_engines.make(self.url, *sizes, wait)
                self._reading = server_engines.make(self.url, *sizes, wait=False, reading=True)
        except (sa.exc.ArgumentError, ValueError):
            raise exception.InvalidInput(f'The connection of the {name} database is no URL of a database that is '
                                         'supported.') from None
        except ImportError as error:
            raise exception.InvalidInput(f'The connection of the {name} database needs the Python module {error.name}: '
                                         'install nova[mysql], nova[mysqlclient] or nova[postgresql].') from None
        self._committed = None if self.sqlite else _frugal(self.engine)
        if not self.sqlite:
            _frugal(self._reading, reading=True)
        self._broken = threading.Event()
        for each in {self.engine, self._reading}:
            _tell_no_values(each)
            sa.event.listen(each, 'invalidate', self._note_broken)
        # SQLite has one writer at a time; waiting here is fair and costs nothing, waiting in SQLite polls.
        self._one_writer = threading.Lock()
        self._spare: spare_room.SpareRoom | None = None
        for counter in (metrics.DB_GAVE_UP, metrics.DB_RETRIES, metrics.DB_RECONNECTS):
            counter.labels(name)         # a series that begins at 1 has no increase that a rule could see
        self._idle: collections.deque[sa.Connection] = collections.deque()
        self._ended = {kind: metrics.DB_TRANSACTIONS.labels(name, kind) for kind in ('read', 'write')}
        metrics.DB_CONNECTIONS.watch(self, Database.connections)

    def keep_spare_room(self) -> None:
        """Keep room on disk for what frees some; of an SQLite file alone, servers have disks of their own."""
        if self.sqlite and self.url.database not in (None, '', ':memory:'):
            self._spare = spare_room.SpareRoom(str(self.url.database))
            self._spare.fill()

    @contextlib.contextmanager
    def _writes(self) -> Iterator[None]:
        """Wait for the one writer of this process.

        :raises Locked: its transactions wait for another process, and would for too long
        """
        if not self.sqlite:
            yield
            return
        if not self._one_writer.acquire(timeout=SQLITE_BUSY_S):
            raise errors.Locked(f'the database file was locked for {SQLITE_BUSY_S} s')
        try:
            yield
        finally:
            self._one_writer.release()

    @contextlib.contextmanager
    def reader(self) -> Iterator[sa.Connection]:
        """A connection for SELECTs. On SQLite they see one moment, on a server each sees its own, and locks nothing."""
        with self._connection('BEGIN', self._reading) as conn:
            yield conn
        self._ended['read'].inc()

    @contextlib.contextmanager
    def writer(self) -> Iterator[sa.Connection]:
        """A connection in a transaction: committed at the end of the block, rolled back when it raises.

        Each of its statements sees what was committed before it, so that what is read behind a lock is what the one
        before has left.
        """
        with self._writes(), self._connection('BEGIN IMMEDIATE', self.engine) as conn:
            after: list[tuple[commits.Callback, commits.Callback | None]] = []
            conn.info[commits.AFTER] = after
            last = conn.info[commits.BEFORE] = {}
            try:
                yield conn
                join = _joining.get()
                if join is not None:
                    join(conn, self)
                for function, words in last.items():
                    function(conn, words)
                conn.commit()
            except BaseException:
                for _function, otherwise in after:
                    if otherwise is not None:
                        otherwise()
                raise
            if self._committed is not None:
                self._committed(conn.connection.dbapi_connection)
            for function, _otherwise in after:
                function()
        self._ended['write'].inc()

    @contextlib.contextmanager
    def only_writer(self, timeout: float) -> Iterator[bool]:
        """A block in which no other thread of this process writes to an SQLite database. It gets False, and waits for
        nobody, where another one does not end in ``timeout`` s; True on a server.
        """
        taken = not self.sqlite or self._one_writer.acquire(timeout=timeout)
        try:
            yield taken
        finally:
            if taken and self.sqlite:
                self._one_writer.release()

    @contextlib.contextmanager
    def _connection(self, begin: str, engine: sa.Engine) -> Iterator[sa.Connection]:
        """A connection for one transaction; what its block has not committed is rolled back.

        Those of SQLite are kept: no server closes them, and taking one out of the pool costs as much as a query.

        :param begin: how SQLite begins the transaction
        :param engine: whose connection it is
        """
        if not self.sqlite:
            with engine.connect() as conn:
                yield conn
            return
        try:
            conn = self._idle.pop()
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
        self._idle.append(conn)

    def run(self, function: Callable[Concatenate[sa.Connection, _Params], _Result], *args: _Params.args,
            **kwargs: _Params.kwargs) -> _Result:
        """Call ``function(conn, …)`` in a write transaction, again when it lost a deadlock, or its connection before
        the commit; return its result.

        :raises CommitUnanswered: who undoes what it has done elsewhere does not know whether to
        :raises DBDeadlock: it lost too often, or SQLite's file was locked for SQLITE_BUSY_S
        """
        attempt, began = 0, time.monotonic()
        while True:
            committing = False
            try:
                with self.writer() as conn:
                    result = function(conn, *args, **kwargs)
                    committing = True
                if self._spare is not None:
                    self._spare.fill()
                return result
            except (sa.exc.OperationalError, errors.Unwritable) as error:
                if self._spare is None or not errors.is_full(error) or not self._spare.give():
                    raise
                continue
            except db_exc.DBConnectionError as error:
                if committing:
                    raise CommitUnanswered(error) from error
                if attempt >= len(RECONNECT_PAUSES_S):
                    metrics.DB_GAVE_UP.labels(self.name).inc()
                    raise
                metrics.DB_RECONNECTS.labels(self.name).inc()
                time.sleep(RECONNECT_PAUSES_S[attempt])
            except (db_exc.DBDeadlock, db_exc.RetryRequest):
                if attempt + 1 == DEADLOCK_RETRIES or self.sqlite and time.monotonic() - began >= SQLITE_BUSY_S:
                    metrics.DB_GAVE_UP.labels(self.name).inc()
                    raise
                metrics.DB_RETRIES.labels(self.name).inc()
                time.sleep(random.uniform(0, 0.01 * 2 ** attempt))
            attempt += 1

    def _note_broken(self, _connection: Any, _record: Any, error: BaseException | None) -> None:
        if error is not None:
            self._broken.set()

    def broke_off(self) -> contextlib.AbstractContextManager[bool]:
        """A block (``utils.taken``) that gets whether connections broke: the result of a commit then is not known."""
        return utils.taken(self._broken)

    def ping(self) -> None:
        """Ask the server something; an error when it is away."""
        with self.reader() as conn:
            conn.execute(sa.select(1))

    def connections(self) -> dict[tuple[str, str], int]:
        """{(name, state): number}, without asking the database."""
        pools: list[Any] = [each.pool for each in {self.engine, self._reading}]         # QueuePools
        idle, out = len(self._idle), sum(pool.checkedout() for pool in pools)
        return {(self.name, 'in_use'): out - idle,
                (self.name, 'idle'): sum(pool.checkedin() for pool in pools) + idle}

    def dispose(self) -> None:
        metrics.DB_CONNECTIONS.forget(self)
        while self._idle:
            self._idle.pop().close()
        for each in {self.engine, self._reading}:
            each.dispose()


def _tell_no_values(engine: sa.Engine) -> None:
    """Neither the values of a statement nor what a server says of them reaches logs or callers: some are secrets.

    oslo.db logs some errors when it reads them: it does so after the values are gone.
    """
    engine.hide_parameters = True
    sa.event.remove(engine, 'handle_error', exc_filters.handler)
    sa.event.listen(engine, 'handle_error', errors.conceal)
    sa.event.listen(engine, 'handle_error', exc_filters.handler, retval=True)


def _frugal(engine: sa.Engine, reading: bool = False) -> Callable[[Any], None]:
    """Save a server's engine the round trips that most transactions do not need: the question whether a connection
    lives that has just been used, the rollback behind a commit, and the one behind what was only read.

    A connection that broke in the meantime fails its first statement, as one that breaks a moment later does;
    Database.run begins such a transaction again.

    :returns: function(connection of the driver) to be called when its transaction has been committed and nothing more
        comes before it goes back into the pool
    """
    used: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
    committed: weakref.WeakSet[Any] = weakref.WeakSet()

    def do_ping(connection: Any) -> bool:
        return time.monotonic() - used.get(connection, float('-inf')) < TRUSTED_S or ping(connection)

    def do_rollback(connection: Any) -> None:
        # the pool hands over its own object, which has the driver's
        driver = getattr(connection, 'dbapi_connection', connection)
        if reading and driver.autocommit is not False or driver in committed:
            return
        rollback(connection)
        if reading:                              # piecewise
            driver.autocommit = True

    @sa.event.listens_for(engine, 'checkin')
    def remember(connection: Any, _record: Any) -> None:
        if connection is not None:                         # None: it was invalidated
            committed.discard(connection)
            used[connection] = time.monotonic()

    ping = sqlalchemy_hooks.replace_method(engine, 'do_ping', do_ping)
    rollback = sqlalchemy_hooks.replace_method(engine, 'do_rollback', do_rollback)
    return committed.add


def piecewise(conn: sa.Connection) -> None:
    """Let a reader's connection give the rows of the next statements piece by piece (``yield_per``).

    PostgreSQL does so within a transaction alone: there is one until the reader's block ends.
    """
    driver: Any = conn.connection.dbapi_connection
    if conn.dialect.name == 'postgresql' and driver.autocommit:
        driver.autocommit = False


after_commit = commits.after


_BEGIN = 'nova_begin'            # in the info of an SQLite connection: the statement of its next begin


def _begin(connection: Any) -> None:
    """What begins a transaction of SQLite, outside of those of reader() and writer() nothing."""
    statement = connection.info.pop(_BEGIN, None)
    if statement is not None:
        connection.dbapi_connection.execute(statement)


class _SqliteConnection(sqlite3.Connection):
    """Knows its cursors: one that was not read to its end keeps its moment, also for the transactions after its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cursors: list[Any] = []

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        cursor = super().cursor(*args, **kwargs)
        self._cursors.append(cursor)
        return cursor

    def close_cursors(self) -> None:
        while self._cursors:
            self._cursors.pop().close()


def _sqlite_engine(url: sa.URL, pool_size: int, max_overflow: int) -> sa.Engine:
    """An engine whose transactions begin when we say so: pysqlite's own BEGIN comes too late for a snapshot.

    Connections are kept: oslo.db's own engine opens one per transaction, which takes longer than most queries.
    """
    engine = sa.create_engine(url, pool_size=pool_size, max_overflow=max_overflow,
                              pool_timeout=server_engines.POOL_TIMEOUT_S, connect_args={'factory': _SqliteConnection})
    exc_filters.register_engine(engine)
    sqlalchemy_hooks.replace_method(engine, 'do_begin', _begin)

    @sa.event.listens_for(engine, 'do_connect')
    def make(_dialect: Any, _record: Any, arguments: Any, _options: Any) -> None:
        with contextlib.suppress(OSError):                 # it is there, or SQLite says what is wrong
            if arguments[0] != ':memory:':
                os.close(os.open(arguments[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL, SQLITE_MODE))

    @sa.event.listens_for(engine, 'connect')
    def configure(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.isolation_level = None
        cursor = dbapi_connection.cursor()
        cursor.execute('PRAGMA journal_mode=WAL')
        cursor.execute('PRAGMA synchronous=NORMAL')        # WAL: a killed process loses nothing
        cursor.execute(f'PRAGMA busy_timeout={SQLITE_BUSY_S * 1000}')
        cursor.execute(f'PRAGMA cache_size=-{SQLITE_CACHE_KIB}')
        cursor.close()

    @sa.event.listens_for(engine, 'checkin')
    def forget(dbapi_connection: Any, _record: Any) -> None:
        if dbapi_connection is not None:                   # None: it was invalidated
            dbapi_connection.close_cursors()
    return engine


@functools.cache
def insert_of(dialect: str) -> Any:
    """The INSERT construct of a dialect, with its ways to meet an existing row."""
    module = {'mysql': 'mysql', 'postgresql': 'postgresql', 'sqlite': 'sqlite'}[dialect]
    return __import__(f'sqlalchemy.dialects.{module}', fromlist=['insert']).insert


def lock_row(conn: sa.Connection, table: sa.Table, key: dict[str, Any]) -> None:
    """Lock the row of a table whose columns are its key alone, until the transaction ends; it is made when missing.

    One statement that locks exclusively: a shared lock first would end in deadlocks. SQLite has one writer anyway.
    """
    dialect = conn.dialect.name
    if dialect == 'sqlite':
        return
    insert = insert_of(dialect)(table).values(**key)
    new = insert.inserted if dialect == 'mysql' else insert.excluded
    same = {name: new[name] for name in key}
    conn.execute(insert.on_duplicate_key_update(**same) if dialect == 'mysql' else
                 insert.on_conflict_do_update(index_elements=list(key), set_=same))


def insert_ignore(conn: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> sa.CursorResult[Any]:
    """INSERT that leaves an existing row of the same key alone, on any of the three databases."""
    statement = insert_of(conn.dialect.name)(table).values(**values)
    if conn.dialect.name == 'mysql':
        return conn.execute(statement.prefix_with('IGNORE'))
    return conn.execute(statement.on_conflict_do_nothing())


def insert_many_ignore(conn: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """The same for many rows with the same columns; how many there were before is not known."""
    statement = insert_of(conn.dialect.name)(table)
    if conn.dialect.name == 'mysql':
        conn.execute(statement.prefix_with('IGNORE'), rows)
    else:
        conn.execute(statement.on_conflict_do_nothing(), rows)
