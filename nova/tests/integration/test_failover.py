"""A second MariaDB takes over while clients work: the first one is killed, its replica becomes the primary."""
import contextlib
import os
import pathlib
import socket
import subprocess
import threading
import time

import pytest

from nova.tests import loaded
from nova.tests.integration import servers

LOAD_S, TAKE_OVER_S = 6, 3


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


class Server:
    """A MariaDB that replicates, or is replicated, before it answers its clients (semi-synchronous)."""

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


@pytest.fixture
def pair():
    """(primary, replica, Address of the primary)"""
    pytest.importorskip('pymysql')
    with contextlib.ExitStack() as stack:
        first = Server(stack, 1, '--rpl-semi-sync-master-enabled=1', '--rpl-semi-sync-master-wait-point=AFTER_SYNC')
        second = Server(stack, 2, '--rpl-semi-sync-slave-enabled=1', '--read-only=1')
        second.follow(first)
        address = Address(first.port)
        stack.callback(address.close)
        yield first, second, address


def test_a_replica_takes_over(pair, tmp_path):
    first, second, address = pair
    urls = {}
    for name in ('over_api', 'over_cell'):
        first.execute(f'CREATE DATABASE {name} CHARACTER SET utf8mb4')
        urls[name] = f'mysql+pymysql://root@127.0.0.1:{address.port}/{name}?charset=utf8mb4'

    def fail_over():
        first.process.kill()
        time.sleep(TAKE_OVER_S)
        second.take_over()
        address.move(second.port)
    cloud = loaded.start(tmp_path / 'state', api_database__connection=urls['over_api'],
                         database__connection=urls['over_cell'])
    try:
        cloud.start()
        clients = loaded.Loaded(cloud)
        result = clients.run(LOAD_S, fail_over)
        clients.close()
    finally:
        cloud.stop(5)
    answers = dict(result.history.counts)
    assert result.found == [], answers
    assert not [name for name in answers if name.endswith(('500', 'no answer'))], answers
    before, after = (sum(call.status == 202 and (call.ended < split) is early for call in result.history.calls)
                     for split in [result.history.calls[len(result.history.calls) // 2].ended]
                     for early in (True, False))
    assert before and after, answers
