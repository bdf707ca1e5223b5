"""SQLAlchemy engines for database servers: MariaDB, MySQL or PostgreSQL.

``create_engine`` of oslo.db is not used, because its module loads SQLAlchemy's ORM, which takes 5 to 8 MB in each
daemon. oslo.db still classifies errors.
"""
from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from typing import Any, TYPE_CHECKING

from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters
import sqlalchemy as sa

from nova import exception
from nova.runtime import concurrency
from nova.runtime.hooks import pymysql as pymysql_hooks

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

LOG = logging.getLogger(__name__)

POOL_TIMEOUT_S = 30              # maximum wait of a request for a connection
RECYCLE_S = 1800                 # age after which a connection is replaced
CONNECT_RETRIES = 3              # attempts, one second apart, before a command reports an unreachable database
RETRY_S = 1
CONNECT_S = 5                    # connect timeout
IDLE_S = 30                      # idle time after which the server rolls back a transaction and releases its locks
SILENT_S = 20  # seconds without TCP acknowledgements after which a server counts as dead; slow responses are allowed
# by default, all SELECTs of a MariaDB transaction see the state at the first SELECT, even after waiting for a lock
MYSQL_INIT = 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED'
MYSQL_MODE = 'TRADITIONAL'       # values that do not fit into a column cause errors and are not truncated

# without these settings, a statement on a dead connection blocks for 15 minutes or forever
_SILENCE = {'TCP_KEEPIDLE': SILENT_S // 2, 'TCP_KEEPINTVL': SILENT_S // 4, 'TCP_KEEPCNT': 2,
            'TCP_USER_TIMEOUT': SILENT_S * 1000}
_LIBPQ_SILENCE = {name: str(_SILENCE[option]) for name, option in (
    ('keepalives_idle', 'TCP_KEEPIDLE'), ('keepalives_interval', 'TCP_KEEPINTVL'), ('keepalives_count', 'TCP_KEEPCNT'),
    ('tcp_user_timeout', 'TCP_USER_TIMEOUT'))}


def make(url: sa.URL, pool_size: int, max_overflow: int, wait: bool, reading: bool = False) -> sa.Engine:
    """Create an engine without an open connection.

    :param wait: whether to wait for an unreachable server
    :param reading: for GET requests: autocommit each statement, without round trips for BEGIN and COMMIT
    :raises DBConnectionError: the server remains unreachable; only with ``wait``
    """
    mysql = url.get_backend_name() == 'mysql'
    if mysql and url.get_driver_name() == 'mysqldb' and concurrency.model() == 'eventlet':
        raise exception.InvalidInput('mysqldb waits for the database in C, where no other green thread runs: use '
                                     'mysql+pymysql, or native threads.')
    if mysql:
        url = url.update_query_dict({'init_command': MYSQL_INIT})        # statement that new connections run first
    words = {'charset': 'utf8mb4'} if mysql else {'client_encoding': 'utf8', **_LIBPQ_SILENCE}
    url = url.set(query={'connect_timeout': str(CONNECT_S), **words, **url.query})
    # LIFO: a recently used connection needs no ping (see engine.py), and unused connections after a peak can expire.
    engine = sa.create_engine(url, pool_size=pool_size, max_overflow=max_overflow, pool_timeout=POOL_TIMEOUT_S,
                              pool_recycle=RECYCLE_S, pool_pre_ping=True, pool_use_lifo=True)
    if url.get_driver_name() == 'pymysql':
        sa.event.listen(engine, 'do_connect', _connect)
    if mysql:  # set the SQL mode before the dialect inspects the server: the mode determines the quoting of names
        sa.event.listen(engine, 'first_connect', _be_strict)
    sa.event.listen(engine, 'connect', _prepare_mysql if mysql else _prepare_postgresql)
    if reading:
        sa.event.listen(engine, 'connect', _commit_by_itself)
    sa.event.listen(engine, 'connect', _note_process)
    sa.event.listen(engine, 'checkout', _check_process)
    exc_filters.register_engine(engine)
    if wait:
        _reach(engine)
    return engine


def _reach(engine: sa.Engine) -> None:
    """Check that the server is reachable by opening and closing a connection."""
    for left in reversed(range(CONNECT_RETRIES)):
        try:
            engine.connect().close()
            break
        except db_exc.DBConnectionError:
            if not left:
                raise
            LOG.warning('Cannot connect to the database; attempts left: %s.', left)
            time.sleep(RETRY_S)
    engine.dispose()


def _connect(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> DBAPIConnection:
    from nova.runtime.hooks import pymysql_answers               # only for PyMySQL
    return pymysql_answers.connect(**options)


# ---- settings of a new connection

def _prepare_postgresql(connection: DBAPIConnection, _record: object) -> None:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(f'SET idle_in_transaction_session_timeout = {IDLE_S * 1000}')
    connection.commit()


def _be_strict(connection: DBAPIConnection, _record: object) -> None:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(f"SET SESSION sql_mode = '{MYSQL_MODE}'")


def _prepare_mysql(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
    """Prepare the session of a new connection. Unlike MariaDB, MySQL waits forever for an idle transaction."""
    _be_strict(connection, record)
    if 'MariaDB' in connection.get_server_info():
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(f'SET SESSION idle_transaction_timeout = {IDLE_S}')
    with socket.socket(fileno=os.dup(pymysql_hooks.descriptor_of(connection))) as sock:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _SILENCE.items():
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _commit_by_itself(connection: DBAPIConnection, _record: object) -> None:
    if callable(connection.autocommit):              # a method in MySQL's drivers, otherwise an attribute
        connection.autocommit(True)
    else:
        connection.autocommit = True


# ---- a forked process must not use its parent's connections

def _note_process(_connection: object, record: ConnectionPoolEntry) -> None:
    record.info['pid'] = os.getpid()


def _check_process(_connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
    """Check that this process opened the connection.

    :raises DisconnectionError: makes the pool open a new connection
    """
    if record.info['pid'] != os.getpid():
        raise sa.exc.DisconnectionError('the connection belongs to the parent process')
