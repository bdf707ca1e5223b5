"""What a transaction costs a real database's client beside its statements, and that what is spared is not missed."""
import time

import pymysql
import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova.db import engine
from nova.tests.support import waiting
from nova.tests.integration import servers

TABLE = sa.Table('counted', sa.MetaData(), sa.Column('a', sa.Integer, primary_key=True))


@pytest.fixture(scope='module', params=[name for name in servers.CLIENTS if name != 'sqlite'])
def database(request):
    with servers.CLIENTS[request.param]() as url_of:
        made = engine.Database(url_of('counted'), pool_size=1, max_overflow=0)
        TABLE.metadata.create_all(made.engine)
        yield made
        made.dispose()


@pytest.fixture
def trusted(monkeypatch):
    """Connections that were used are not asked whether they live, however slow this machine is."""
    monkeypatch.setattr(engine, 'TRUSTED_S', 3600)


def kill(database):
    """End the database's connections, of which each pool has one, from outside, as a server that restarts does."""
    mysql = database.url.get_backend_name() == 'mysql'
    numbers = []
    database.dispose()                       # whatever the test before has left
    for transaction in (database.reader, database.writer):
        with transaction() as conn:
            numbers.append(conn.execute(sa.text('SELECT CONNECTION_ID()' if mysql else
                                                'SELECT pg_backend_pid()')).scalar())
    other = engine.Database(database.url.render_as_string(hide_password=False))
    with other.writer() as conn:
        for number in numbers:
            conn.execute(sa.text(f'KILL {number}' if mysql else f'SELECT pg_terminate_backend({number})'))

    def gone():                              # a server says that it will end one before it does
        with other.reader() as conn:
            left = conn.execute(sa.text('SELECT id FROM information_schema.processlist' if mysql else
                                        'SELECT pid FROM pg_stat_activity')).scalars()
            return not set(numbers) & set(left)
    waiting.wait_for(gone, 60, 'the connections to end')
    other.dispose()


def test_a_transaction_is_its_statements_and_its_end(database, trusted, monkeypatch):
    if database.url.get_driver_name() != 'pymysql':
        pytest.skip('its driver keeps its words to itself')
    for transaction in (database.reader, database.writer):           # what a new connection begins with does not count
        with transaction() as conn:
            conn.execute(sa.select(1))
    sent, send = [], pymysql.connections.Connection._execute_command

    def note(connection, command, sql):
        sent.append(str(sql if isinstance(sql, str) else sql.decode()).split(' ')[0])
        return send(connection, command, sql)
    monkeypatch.setattr(pymysql.connections.Connection, '_execute_command', note)
    with database.writer() as conn:
        conn.execute(sa.delete(TABLE))
    with database.writer() as conn:
        conn.execute(sa.insert(TABLE), {'a': 1})
    with pytest.raises(ZeroDivisionError), database.writer() as conn:
        conn.execute(sa.delete(TABLE))
        raise ZeroDivisionError
    with database.reader() as conn:
        assert conn.execute(sa.select(TABLE)).all() == [(1,)]
        assert conn.execute(sa.select(TABLE)).all() == [(1,)]
    assert sent == ['DELETE', 'COMMIT', 'INSERT', 'COMMIT', 'DELETE', 'ROLLBACK', 'SELECT', 'SELECT']


def test_nothing_stays_open_behind_a_commit(database):
    """The next transaction of the same connection does not see, or keep, anything of the one before."""
    for number in (1, 2, 3):                 # 0 would be the next number to MariaDB
        with database.writer() as conn:
            conn.execute(sa.delete(TABLE))
            conn.execute(sa.insert(TABLE), {'a': number})
        with pytest.raises(ZeroDivisionError), database.writer() as conn:
            conn.execute(sa.delete(TABLE))
            raise ZeroDivisionError
        with database.reader() as conn:
            assert conn.execute(sa.select(TABLE)).scalars().all() == [number]
    locked = sa.text('DROP TABLE counted')           # it would wait for whoever still looks at the table
    other = engine.Database(database.url.render_as_string(hide_password=False))
    with other.writer() as conn:
        conn.execute(locked)
    other.dispose()
    TABLE.metadata.create_all(database.engine)


def test_a_write_survives_a_connection_that_has_just_broken(database, trusted):
    kill(database)
    database.run(lambda conn: conn.execute(sa.delete(TABLE)))
    database.run(lambda conn: conn.execute(sa.insert(TABLE), {'a': 7}))
    with database.writer() as conn:                  # that of the readers has broken as well
        assert conn.execute(sa.select(TABLE)).scalars().all() == [7]


def test_a_connection_that_broke_while_it_was_idle_is_replaced(database):
    kill(database)
    time.sleep(engine.TRUSTED_S + 0.2)
    with database.reader() as conn:
        conn.execute(sa.select(1))


def test_a_read_on_one_that_has_just_broken_fails_once(database, trusted):
    kill(database)
    with pytest.raises(db_exc.DBConnectionError), database.reader() as conn:
        conn.execute(sa.select(1))
    with database.reader() as conn:
        conn.execute(sa.select(1))


def test_reader_sees_committed_rows_with_each_statement(database):
    """Statement by statement, on one connection: it is in no transaction that would hide it, or hold locks."""
    with database.reader() as reading:
        for number in (11, 12, 13):
            database.run(lambda conn, number=number: (conn.execute(sa.delete(TABLE)),
                                                      conn.execute(sa.insert(TABLE), {'a': number})))
            assert reading.execute(sa.select(TABLE)).scalars().all() == [number]


def test_connections_are_shared_by_what_reads_and_what_writes(database):
    """Half of them each, so that both together are no more than the options say."""
    made = engine.Database(database.url.render_as_string(hide_password=False), pool_size=8, max_overflow=4)
    sizes = [(pool.size(), pool._max_overflow) for pool in (made.engine.pool, made._reading.pool)]
    assert sizes == [(4, 2), (4, 2)]
    with made.reader() as reading, made.writer() as writing:
        reading.execute(sa.select(1))
        writing.execute(sa.select(1))
        assert made.connections()[made.name, 'in_use'] == 2
    assert made.connections() == {(made.name, 'in_use'): 0, (made.name, 'idle'): 2}
    made.dispose()


def test_rows_come_piece_by_piece_to_what_reads(database):
    """PostgreSQL has no cursor outside of a transaction; the connection is as it was afterwards."""
    database.run(lambda conn: (conn.execute(sa.delete(TABLE)),
                               conn.execute(sa.insert(TABLE), [{'a': number} for number in range(1, 31)])))
    for _ in range(2):
        with database.reader() as conn:
            engine.stream_rows(conn)
            rows = conn.execute(sa.select(TABLE).order_by(TABLE.c.a).execution_options(yield_per=7)).scalars()
            assert next(rows) == 1 and list(rows) == list(range(2, 31))
        with database.reader() as conn:
            driver = conn.connection.dbapi_connection
            assert driver.get_autocommit() if callable(driver.autocommit) else driver.autocommit
            database.run(lambda other: other.execute(sa.delete(TABLE).where(TABLE.c.a > 30)))
            assert conn.execute(sa.select(sa.func.count()).select_from(TABLE)).scalar() == 30
