"""A second database server takes over while clients work: the first one is killed, its replica becomes the primary."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

from nova.tests import loaded
from nova.tests import long_runs
from nova.tests.integration import servers

LOAD_S, TAKE_OVER_S = 6, 3
SERVES_S = 240                        # after it at the latest, on a busy machine


class Address:
    """What a floating address or a proxy is to a database: connections go to the primary, and die with it.

    :param target: port of the primary
    """

    def __init__(self, target):
        self.target, self._pairs = target, []
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(('127.0.0.1', self.target), 5)
                except OSError:
                    client.close()
                    continue
                self._pairs.append((client, server))
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def move(self, target):
        """From now on it is another server's; connections to the one before end."""
        self.target = target
        self.drop()

    def drop(self):
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listener.close()
        self.drop()


class MariaDB:
    """One that replicates, or is replicated, before it answers its clients (semi-synchronous)."""

    def __init__(self, stack, number, *options):
        program, install = servers._program('mariadbd'), servers._program('mariadb-install-db')
        directory = stack.enter_context(servers._directory('mysql'))
        self.port, data, log = servers.free_port(), directory / 'data', directory / 'log'
        user = ['--user=mysql'] if os.geteuid() == 0 else []
        subprocess.run([install, '--no-defaults', f'--datadir={data}', '--auth-root-authentication-method=normal',
                        '--skip-test-db', *user], check=True, stdout=subprocess.DEVNULL)
        self.process = stack.enter_context(servers._running(
            [program, '--no-defaults', f'--datadir={data}', f'--socket={directory}/s', f'--port={self.port}',
             '--bind-address=127.0.0.1', f'--pid-file={directory}/pid', f'--server-id={number}', '--log-bin',
             '--log-slave-updates', *user, *options], log))
        servers._wait(lambda: servers._accepts(self.port), self.process, pathlib.Path(log))

    def execute(self, statement):
        import pymysql
        with (pymysql.connect(host='127.0.0.1', port=self.port, user='root', autocommit=True,
                              cursorclass=pymysql.cursors.DictCursor) as conn, conn.cursor() as cursor):
            cursor.execute(statement)
            return cursor.fetchall()

    def follow(self, other):
        self.execute(f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={other.port}, MASTER_USER='root', "
                     'MASTER_USE_GTID=slave_pos')
        self.execute('START SLAVE')

    def take_over(self):
        """Apply what has arrived, and be the primary."""
        self.execute('STOP SLAVE IO_THREAD')
        while True:
            status, = self.execute('SHOW SLAVE STATUS')
            assert not status['Last_SQL_Error'], status['Last_SQL_Error']
            if status['Gtid_IO_Pos'] == self.execute('SELECT @@gtid_slave_pos AS at')[0]['at']:
                break
            time.sleep(0.05)
        self.execute('STOP SLAVE')
        self.execute('SET GLOBAL read_only = 0')


class PostgreSQL:
    """One whose transactions end when another one has them (synchronous), or that other one.

    :param first: the server that this one follows; None: it is the first
    """

    def __init__(self, stack, first=None):
        places = sorted(map(str, pathlib.Path('/usr/lib/postgresql').glob('*/bin')), reverse=True)
        server, initdb, copy = (servers._program(name, *places) for name in ('postgres', 'initdb', 'pg_basebackup'))
        directory = stack.enter_context(servers._directory('postgres'))
        self.port, data, log = servers.free_port(), directory / 'data', directory / 'log'
        as_user = {'cwd': directory, **servers._as('postgres')}
        if first is None:
            command = [initdb, '-D', data, '-A', 'trust', '-U', 'nova', '-E', 'UTF8', '--no-sync']
        else:
            command = [copy, '-D', data, '-h', '127.0.0.1', '-p', str(first.port), '-U', 'nova',
                       '--write-recovery-conf', '--checkpoint=fast', '--no-sync']
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **as_user)
        self.process = stack.enter_context(servers._running(
            [server, '-D', data, '-p', str(self.port), '-k', directory, '-h', '127.0.0.1', '-c', 'fsync=off',
             *(['-c', 'synchronous_standby_names=*'] if first is None else [])], log, **as_user))
        servers._wait(self._answers, self.process, log)

    def execute(self, statement):
        import psycopg2
        with contextlib.closing(psycopg2.connect(host='127.0.0.1', port=self.port, user='nova',
                                                 dbname='postgres')) as conn:
            conn.autocommit = True
            with conn.cursor() as cursor:
                cursor.execute(statement)

    def _answers(self):
        import psycopg2
        with contextlib.suppress(psycopg2.OperationalError):
            self.execute('SELECT 1')
            return True
        return False

    def kill(self):
        """Its processes lead groups of their own."""
        pid = self.process.pid
        for number in [pid, *pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(number), signal.SIGKILL)


@contextlib.contextmanager
def mariadb():
    """(function(name) -> URL of a new database, function() that lets the replica take over)"""
    pytest.importorskip('pymysql')
    with contextlib.ExitStack() as stack:
        first = MariaDB(stack, 1, '--rpl-semi-sync-master-enabled=1', '--rpl-semi-sync-master-wait-point=AFTER_SYNC',
                        '--rpl-semi-sync-master-timeout=600000')      # else it goes on alone where the other is slow
        second = MariaDB(stack, 2, '--rpl-semi-sync-slave-enabled=1', '--read-only=1')
        second.follow(first)
        address = Address(first.port)
        stack.callback(address.close)

        def database(name):
            first.execute(f'CREATE DATABASE {name} CHARACTER SET utf8mb4')
            return f'mysql+pymysql://root@127.0.0.1:{address.port}/{name}?charset=utf8mb4'

        def fail_over():
            first.process.kill()
            time.sleep(TAKE_OVER_S)
            second.take_over()
            address.move(second.port)
        yield database, fail_over


@contextlib.contextmanager
def postgresql():
    """The same; its clients know both servers and look for the one that writes."""
    pytest.importorskip('psycopg2')
    with contextlib.ExitStack() as stack:
        first = PostgreSQL(stack)
        second = PostgreSQL(stack, first)
        hosts = '&'.join(f'host=127.0.0.1:{server.port}' for server in (first, second))

        def database(name):
            first.execute(f'CREATE DATABASE {name}')
            return f'postgresql+psycopg2://nova@/{name}?{hosts}&target_session_attrs=read-write&connect_timeout=5'

        def fail_over():
            first.kill()
            time.sleep(TAKE_OVER_S)
            second.execute('SELECT pg_promote()')
        yield database, fail_over


@pytest.mark.parametrize('pair', long_runs.rest([mariadb, postgresql]), ids=['mariadb', 'postgresql'])
def test_a_replica_takes_over(pair, tmp_path):
    with pair() as (database, fail_over):
        cloud = loaded.start(tmp_path / 'state', api_database__connection=database('over_api'),
                             database__connection=database('over_cell'))
        moments = []

        def serve_again():
            """The clients go on for some seconds from here."""
            loaded.accepted(clients.cloud)
            moments.append(time.monotonic())
            fail_over()
            deadline = moments[0] + SERVES_S
            while clients.admin.post('/os-keypairs', {'keypair': {'name': 'after'}}).status_code == 503:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            moments.append(time.monotonic())
            loaded.accepted(clients.cloud)
        try:
            cloud.start()
            clients = loaded.Loaded(cloud)
            result = clients.run(LOAD_S, serve_again)
            clients.close()
        finally:
            cloud.stop(5)
    answers = dict(result.history.counts)
    assert result.found == [], answers
    assert not [name for name in answers if name.endswith(('500', 'no answer'))], answers
    accepted = [call for call in result.history.calls if call.status == 202]
    assert [call for call in accepted if call.ended < moments[0]], answers
    assert [call for call in accepted if call.ended > moments[1]], answers
