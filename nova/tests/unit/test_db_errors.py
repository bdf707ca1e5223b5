"""What errors of database drivers mean, to who has asked and to who waits for an answer."""
import socketserver
import sqlite3
import struct
import threading
import time
import types

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import conf as nova_conf
from nova import exception
from nova.cmd.manage import main as manage
from nova.db import engine
from nova.db import errors as db_errors
from nova.db import grants
from nova.db import server_engines
from nova.rpc import bus
from nova.rpc import signatures
from nova.runtime import concurrency
from nova.tests.support import waiting
from nova.tests.support import rpc as test_rpc
from nova.web import faults

READ_ONLY = ["(1290, 'The MariaDB server is running with the --read-only option so it cannot execute this statement')",
             "(1792, 'Cannot execute statement in a READ ONLY transaction')",
             'cannot execute UPDATE in a read-only transaction', 'FATAL: the database system is shutting down']


@pytest.fixture
def database(tmp_path):
    """A Database and a list of errors that its next statements meet."""
    made, failures = engine.Database(f'sqlite:///{tmp_path}/a.sqlite'), []

    @sa.event.listens_for(made.engine, 'do_execute')
    def fail(cursor, statement, parameters, context):
        if failures:
            raise sqlite3.OperationalError(failures.pop())
    yield made, failures
    made.dispose()


FULL = [
    ('sqlite', sqlite3.OperationalError('database or disk is full'), True),
    ('sqlite', sqlite3.OperationalError('no such table: x'), False),
    ('mysql', Exception("(1114, \"The table 'instances' is full\")"), True),
    ('mysql', Exception('(1030, \'Got error 28 "No space left on device" from storage engine InnoDB\')'), True),
    ('mysql', Exception('(1030, \'Got error 168 "Unknown" from storage engine InnoDB\')'), False),
    ('postgresql', Exception('(psycopg2.errors.DiskFull) could not extend file "base/1": No space left'), True)]


@pytest.mark.parametrize('dialect, error, full', FULL)
def test_a_full_disk_of_a_database_is_known_and_named_in_the_log(dialect, error, full, caplog):
    """While the disk was full for 75 s, the log said that a service does not answer."""
    wrapped = sa.exc.OperationalError('INSERT', {}, error)
    assert db_errors.is_full(wrapped) is full
    with caplog.at_level('ERROR', logger='nova.web.faults'):
        assert faults.explain(wrapped, 'req-1')[0] == 503
    line, = caplog.records
    words = 'the disk of the database is full' if full else 'a required service does not respond'
    assert line.getMessage().startswith(f'Request req-1: {words}: ') and str(error) in line.getMessage()


@pytest.mark.parametrize('dialect, place, first', [
    ('mysql+pymysql', '`nova api`.', 'GRANT'), ('postgresql+psycopg2', '', '\\connect "nova api"')])
def test_grants_name_their_database(dialect, place, first, monkeypatch):
    made = sa.create_engine(f'{dialect}://u:p@nowhere/nova api')

    class Connection:
        engine, dialect = made, made.dialect
    monkeypatch.setattr(grants.sa, 'inspect', lambda conn: Tables())
    lines = grants.script(Connection(), grants.API, 'account')
    assert lines[0].startswith(first) and f'GRANT SELECT ON {place}cells TO account;' in lines


class Tables:
    def get_table_names(self):
        return ['cells']


def test_a_lock_that_was_not_had_is_asked_for_again(database):
    """SQLite's own words were an OperationalError, and the user's request failed."""
    made, failures = database
    failures += ['database is locked', 'database table is locked: instances']
    assert made.run(lambda conn: conn.scalar(sa.text('SELECT 7'))) == 7
    assert failures == []


@pytest.mark.parametrize('text', READ_ONLY, ids=range(len(READ_ONLY)))
def test_a_database_that_refuses_to_write_is_one_that_is_away(database, text):
    """It was an error of ours, a 500; the connection was kept and would have stayed with what was the primary."""
    made, failures = database
    with pytest.raises(db_exc.DBConnectionError), made.reader() as conn:
        connection = conn.connection
        failures.append(text)
        conn.execute(sa.text('SELECT 7'))
    assert not connection.is_valid
    assert made.run(lambda conn: conn.scalar(sa.text('SELECT 7'))) == 7


def test_a_transaction_that_loses_its_connection_is_begun_again_before_its_commit_alone(database):
    """After a restart of the server each connection of the pool failed a request."""
    made, failures = database
    failures.append(READ_ONLY[0])
    assert made.run(lambda conn: conn.scalar(sa.text('SELECT 7'))) == 7
    calls = []

    def lost(conn):
        calls.append(1)
        conn.execute(sa.text('CREATE TABLE t (a INTEGER)'))
        made.engine.dialect.do_commit = refuse

    def refuse(dbapi_connection):
        del made.engine.dialect.do_commit
        raise sqlite3.OperationalError(READ_ONLY[0])
    with pytest.raises(engine.CommitUnanswered):
        made.run(lost)
    assert calls == [1]


def test_a_connection_lost_in_what_joins_a_transaction_is_lost_before_its_commit(database):
    """The audit record and counters are written after the caller's statements and before the COMMIT."""
    made, failures = database
    joined = []

    def join(conn, _database):
        if not joined:
            failures.append(READ_ONLY[0])
        joined.append(1)
        conn.execute(sa.text('SELECT 7'))
    with engine.joining(join):
        assert made.run(lambda conn: 'written') == 'written'
    assert joined == [1, 1]


def test_a_url_of_mariadb_gets_the_dialect_that_the_statements_know():
    made = engine.Database('mariadb+pymysql://nova:secret@127.0.0.1:1/nova', wait=False)
    assert made.engine.dialect.name == made.url.get_backend_name() == 'mysql'
    made.dispose()


@pytest.mark.parametrize('code', [1040, 1044, 1045], ids=['too many', 'database', 'password'])
def test_access_denied_by_mariadb_is_reported_without_a_traceback(code, monkeypatch, tmp_path, capsys):
    """A wrong password in nova.conf ended every command and daemon with a traceback of 160 lines."""
    monkeypatch.setattr(server_engines, 'CONNECT_RETRIES', 0)
    payload = b'\xff' + struct.pack('<H', code) + b"#28000Access denied for user 'nova'"

    class Refusing(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(struct.pack('<I', len(payload))[:3] + b'\0' + payload)
    with socketserver.ThreadingTCPServer(('127.0.0.1', 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f'mysql+pymysql://nova:wrong@127.0.0.1:{server.server_address[1]}/nova'
        (tmp_path / 'nova.conf').write_text(f'[api_database]\nconnection = {url}\n[database]\nconnection = {url}\n')
        assert manage.main(['--config-file', str(tmp_path / 'nova.conf'), 'db', 'version']) == 1
        server.shutdown()
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith('nova-manage: The database cannot be used: ') and 'Access denied' in told, told


class Away(test_rpc.Manager):
    error = db_exc.DBConnectionError()

    def echo(self, context, value):
        raise self.error


ERRORS = pytest.mark.parametrize('error', [
    db_exc.DBConnectionError(), db_exc.DBDeadlock(), sa.exc.TimeoutError('pool'), db_errors.Unwritable()],
    ids=lambda error: type(error).__name__)


@ERRORS
def test_a_cast_waits_for_the_database(error, monkeypatch, caplog):
    """What had begun while it was restarted lay there until its deadline, two minutes."""
    monkeypatch.setattr(bus, 'CAST_PAUSES_S', dict.fromkeys(bus.CAST_PAUSES_S, (0, 0)))
    asked, done = [], threading.Event()

    class Waiting(test_rpc.Manager):
        def remember(self, context, value):
            asked.append(value)
            if len(asked) < 3:
                raise error
            done.set()
    made = test_rpc.make_bus('waiting')
    server = made.serve(test_rpc.ECHO, Waiting(), 'one')
    server.start()
    try:
        made.client(test_rpc.ECHO).remember(test_rpc.CONTEXT, value=1)
        assert done.wait(10) and asked == [1, 1, 1]
        assert caplog.text.count('echo.remember is retried in 0 s, because the database is unavailable or busy: ') == 2
    finally:
        server.stop()
        made.close()


@ERRORS
def test_messages_are_checked_when_the_database_returns(error, monkeypatch, caplog):
    """The lookup of a sender's key failed without a log entry: casts were lost, and calls got no answer."""
    monkeypatch.setattr(bus, 'CAST_PAUSES_S', dict.fromkeys(bus.CAST_PAUSES_S, (0, 0)))
    keys, failures = signatures.Signatures(signatures.REQUIRE), [error, error, error]
    keys.key = key = signatures.Key()

    def look_up(_key_id):
        if failures:
            raise failures.pop()
        return signatures.Trusted(None, key.public)
    keys.trusted = look_up
    made = bus.Bus(nova_conf.new(files=[]), 'nova-inprocess:///checked', keys=keys)
    manager = test_rpc.Manager()
    server = made.serve(test_rpc.ECHO, manager, 'one')
    server.start()
    client = made.client(test_rpc.ECHO)
    try:
        with pytest.raises(exception.ServiceUnavailable):
            client.echo(test_rpc.CONTEXT, value=0)
        client.remember(test_rpc.CONTEXT, value=1)
        assert manager.event.wait(10) and manager.remembered == [1] and failures == []
        assert caplog.text.count('echo.echo: the database is unavailable or busy: ') == 1
        assert caplog.text.count('echo.remember is retried in 0 s, because the database is unavailable or busy: ') == 2
        failures.append(OSError('disk'))
        with pytest.raises(exception.RemoteError):
            client.echo(test_rpc.CONTEXT, value=1)
        assert client.echo(test_rpc.CONTEXT, value=2) == 2
    finally:
        server.stop()
        made.close()


@pytest.mark.parametrize(('error', 'attempts'), [
    (sa.exc.OperationalError('SELECT', {}, Exception("(1054, 'Unknown column')")), 1), (db_exc.DBDeadlock(), 3),
    (sa.exc.TimeoutError('pool'), 3), (db_exc.DBConnectionError(), 7)], ids=lambda value: type(value).__name__)
def test_a_cast_sleeps_in_a_worker_for_an_outage_alone(error, attempts, monkeypatch):
    """A wrong column slept for 31 s, as long as the database was away: a few such messages held up all others."""
    asked, slept, done = [], [], threading.Event()
    monkeypatch.setattr(bus, 'time', types.SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))

    class Failing(test_rpc.Manager):
        def remember(self, context, value):
            if value == 2:
                done.set()
                return
            asked.append(value)
            raise error
    made = test_rpc.make_bus('failing')
    server = made.serve(test_rpc.ECHO, Failing(), 'one')
    server.start()
    try:
        made.client(test_rpc.ECHO).remember(test_rpc.CONTEXT, value=1)
        waiting.wait_for(lambda: len(asked) == attempts, 10, 'the attempts')
        made.client(test_rpc.ECHO).remember(test_rpc.CONTEXT, value=2)
        assert done.wait(10) and asked == [1] * attempts
        assert sum(slept) <= (1.5 if attempts < 7 else 31.5)
    finally:
        server.stop()
        made.close()


def test_a_statement_that_is_wrong_is_no_outage_to_a_caller():
    class Wrong(test_rpc.Manager):
        def echo(self, context, value):
            raise sa.exc.OperationalError('SELECT', {}, Exception('no such column'))
    made = test_rpc.make_bus('wrong')
    server = made.serve(test_rpc.ECHO, Wrong(), 'one')
    server.start()
    try:
        with pytest.raises(exception.RemoteError) as caught:
            made.client(test_rpc.ECHO).echo(test_rpc.CONTEXT, value=1)
        assert caught.value.kwargs['type'] == 'OperationalError'
    finally:
        server.stop()
        made.close()


@pytest.mark.parametrize('text', ['database or disk is full', 'disk I/O error'])
def test_a_full_disk_is_an_outage_and_a_wrong_column_is_none(database, text):
    made, failures = database
    failures.append(text)
    with pytest.raises(db_errors.Unwritable), made.reader() as conn:
        conn.execute(sa.text('SELECT 7'))
    assert issubclass(db_errors.Unwritable, db_errors.UNAVAILABLE)
    with pytest.raises(sa.exc.OperationalError), made.reader() as conn:
        conn.execute(sa.text('SELECT nothing'))


@ERRORS
def test_call_is_retried_while_the_database_of_the_service_is_unavailable(error, monkeypatch):
    """Computes took it for an answer: what they had built in such a moment was given up."""
    monkeypatch.setattr(Away, 'error', error)
    made = test_rpc.make_bus('away')
    server = made.serve(test_rpc.ECHO, Away(), 'one')
    server.start()
    try:
        with pytest.raises(exception.ServiceUnavailable) as caught:
            made.client(test_rpc.ECHO).echo(test_rpc.CONTEXT, value=1)
        assert caught.value.kwargs['service'] == 'echo'
    finally:
        server.stop()
        made.close()


def test_a_driver_in_c_is_for_native_threads(monkeypatch):
    monkeypatch.setattr(concurrency, '_model', 'eventlet')
    with pytest.raises(exception.InvalidInput, match='mysqldb waits for the database in C'):
        engine.Database('mysql+mysqldb://nova@127.0.0.1:1/nova', wait=False)
