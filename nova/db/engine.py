"""Engines and transactions. The borders of a transaction stand in the caller; query functions take a connection.

    with cell.writer() as conn:
        instances.update(conn, uuid, {'task_state': None}, expect={'task_state': ['spawning']})
"""
import collections
import contextlib
import functools
import logging
import random
import sqlite3
import threading
import time

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import engines
from oslo_db.sqlalchemy import exc_filters

LOG = logging.getLogger(__name__)

DEADLOCK_RETRIES = 10            # a transaction that lost a deadlock or a lock race is run again this often
POOL_TIMEOUT_S = 30              # a request waits this long for a connection
# MariaDB's default shows every SELECT the moment of the transaction's first one, which may lie before a lock.
MYSQL_INIT = 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED'
CONNECT_RETRIES = 3              # attempts, a second apart, before a command says that the database is away
SQLITE_BUSY_S = 30               # another process may hold SQLite's one write lock this long


class Database:
    """One database: the API database or a cell's.

    :param url: an SQLAlchemy URL; ``sqlite:///path``, ``mysql+pymysql://…`` or ``postgresql+psycopg2://…``
    :param pool_size: connections kept open
    :param max_overflow: connections opened beyond that under load
    """

    def __init__(self, url, *, pool_size=10, max_overflow=40):
        self.url = sa.make_url(url)
        self.sqlite = self.url.get_backend_name() == 'sqlite'
        self.engine = (_sqlite_engine(self.url, pool_size, max_overflow) if self.sqlite else
                       engines.create_engine(_server_url(self.url), max_pool_size=pool_size, max_overflow=max_overflow,
                                             pool_timeout=POOL_TIMEOUT_S, connection_recycle_time=1800,
                                             max_retries=CONNECT_RETRIES, retry_interval=1,
                                             mysql_sql_mode='TRADITIONAL', thread_checkin=False))
        # SQLite has one writer at a time; waiting here is fair and costs nothing, waiting in SQLite polls.
        self._one_writer = threading.Lock() if self.sqlite else contextlib.nullcontext()
        self._idle = collections.deque()

    @contextlib.contextmanager
    def reader(self):
        """A connection for SELECTs. On SQLite they see one moment, on a server each sees its own."""
        with self._connection('BEGIN') as conn:
            yield conn

    @contextlib.contextmanager
    def writer(self):
        """A connection in a transaction: committed at the end of the block, rolled back when it raises.

        Each of its statements sees what was committed before it, so that what is read behind a lock is what the one
        before has left.
        """
        with self._one_writer, self._connection('BEGIN IMMEDIATE') as conn:
            yield conn
            conn.commit()

    @contextlib.contextmanager
    def _connection(self, begin):
        """A connection for one transaction; what its block has not committed is rolled back.

        Those of SQLite are kept: no server closes them, and taking one out of the pool costs as much as a query.

        :param begin: how SQLite begins the transaction
        """
        if not self.sqlite:
            with self.engine.connect() as conn:
                yield conn
            return
        try:
            conn = self._idle.pop()
        except IndexError:
            conn = self.engine.connect()
        try:
            conn.info[_BEGIN] = begin
            conn.begin()
            yield conn
            conn.rollback()
            conn.connection.dbapi_connection.close_cursors()
        except BaseException:
            conn.close()
            raise
        self._idle.append(conn)

    def run(self, function, *args, **kwargs):
        """Call ``function(conn, …)`` in a write transaction, again when it lost a deadlock; return its result."""
        for attempt in range(DEADLOCK_RETRIES):
            try:
                with self.writer() as conn:
                    return function(conn, *args, **kwargs)
            except (db_exc.DBDeadlock, db_exc.RetryRequest):
                if attempt + 1 == DEADLOCK_RETRIES:
                    raise
                time.sleep(random.uniform(0, 0.01 * 2 ** attempt))

    def dispose(self):
        while self._idle:
            self._idle.pop().close()
        self.engine.dispose()


def _server_url(url):
    """The URL as text, with what a new connection of MariaDB begins with."""
    if url.get_backend_name() in ('mysql', 'mariadb'):
        url = url.update_query_dict({'init_command': MYSQL_INIT})
    return url.render_as_string(hide_password=False)


_BEGIN = 'nova_begin'            # in the info of an SQLite connection: the statement of its next begin


def _begin(connection):
    """What begins a transaction of SQLite, outside of those of reader() and writer() nothing."""
    statement = connection.info.pop(_BEGIN, None)
    if statement is not None:
        connection.dbapi_connection.execute(statement)


class _SqliteConnection(sqlite3.Connection):
    """Knows its cursors: one that was not read to its end keeps its moment, also for the transactions after its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._cursors = []

    def cursor(self, *args, **kwargs):
        cursor = super().cursor(*args, **kwargs)
        self._cursors.append(cursor)
        return cursor

    def close_cursors(self):
        while self._cursors:
            self._cursors.pop().close()


def _sqlite_engine(url, pool_size, max_overflow):
    """An engine whose transactions begin when we say so: pysqlite's own BEGIN comes too late for a snapshot.

    Connections are kept: oslo.db's own engine opens one per transaction, which takes longer than most queries.
    """
    engine = sa.create_engine(url, pool_size=pool_size, max_overflow=max_overflow, pool_timeout=POOL_TIMEOUT_S,
                              connect_args={'factory': _SqliteConnection})
    exc_filters.register_engine(engine)
    engine.dialect.do_begin = _begin

    @sa.event.listens_for(engine, 'connect')
    def configure(dbapi_connection, _record):
        dbapi_connection.isolation_level = None
        cursor = dbapi_connection.cursor()
        cursor.execute('PRAGMA journal_mode=WAL')
        cursor.execute('PRAGMA synchronous=NORMAL')        # WAL: a killed process loses nothing
        cursor.execute(f'PRAGMA busy_timeout={SQLITE_BUSY_S * 1000}')
        cursor.execute('PRAGMA cache_size=-16000')
        cursor.close()

    @sa.event.listens_for(engine, 'checkin')
    def forget(dbapi_connection, _record):
        if dbapi_connection is not None:                   # None: it was invalidated
            dbapi_connection.close_cursors()
    return engine


@functools.cache
def insert_of(dialect):
    """The INSERT construct of a dialect, with its ways to meet an existing row."""
    module = {'mysql': 'mysql', 'postgresql': 'postgresql', 'sqlite': 'sqlite'}[dialect]
    return __import__(f'sqlalchemy.dialects.{module}', fromlist=['insert']).insert


def lock_row(conn, table, key):
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


def insert_ignore(conn, table, values):
    """INSERT that leaves an existing row of the same key alone, on any of the three databases."""
    statement = insert_of(conn.dialect.name)(table).values(**values)
    if conn.dialect.name == 'mysql':
        return conn.execute(statement.prefix_with('IGNORE'))
    return conn.execute(statement.on_conflict_do_nothing())


def insert_many_ignore(conn, table, rows):
    """The same for many rows with the same columns; how many there were before is not known."""
    statement = insert_of(conn.dialect.name)(table)
    if conn.dialect.name == 'mysql':
        conn.execute(statement.prefix_with('IGNORE'), rows)
    else:
        conn.execute(statement.on_conflict_do_nothing(), rows)
