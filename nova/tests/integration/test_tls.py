"""TLS to the broker and to the databases, with certificates of nova-manage tls and the options that it prints."""
import contextlib
import os
import pathlib
import re
import socket
import ssl
import subprocess

import pytest
import sqlalchemy.exc
from oslo_db import exception as db_exc

from nova import conf as nova_conf
from nova.cmd.manage import tls as manage_tls
from nova.db import engine
from nova.rpc import bus
from nova.runtime import certificates
from nova.tests import long_runs
from nova.tests.integration import servers
from nova.tests.support.rpc import CONTEXT
from nova.tests.support.rpc import ECHO
from nova.tests.support.rpc import Manager


def _certificates(directory, owner):
    """What ``nova-manage tls issue`` gives to a server on 127.0.0.1."""
    servers.owned(certificates.Authority(directory / 'made'), 'server', ['127.0.0.1'], directory, owner)


def _printed(use, directory, **replaced):
    """The lines for a server that the command prints, with the places of this test."""
    text = manage_tls.LINES[use][0].format(name='server').split('\n', 1)[1]
    text = re.sub(r'/etc/\w+/', f'{directory}/', text)
    for old, new in replaced.items():
        text = text.replace(old.removeprefix('_'), new)
    return text + '\n'


def _bus(url, **rabbit):
    conf = nova_conf.new(files=[])
    bus.register_options(conf)
    conf.set_override('transport_url', url)
    for name, value in rabbit.items():
        conf.set_override(name, value, group='oslo_messaging_rabbit')
    return bus.Bus(conf)


def test_broker_connection_uses_tls(tmp_path):
    servers._program('rabbitmq-server')
    with servers._directory('rabbitmq') as directory:
        _certificates(directory, 'rabbitmq')
        broker = servers.RabbitMQ(directory)
        (directory / 'rabbit.conf').write_text(_printed('rabbitmq', directory, _5671=str(broker.port)))
        (directory / 'rabbit.conf').chmod(0o644)
        try:
            broker.start()
            made = _bus(broker.url, ssl=True, ssl_ca_file=str(directory / 'ca.pem'))
            server = made.serve(ECHO, Manager(), 'one')
            server.start()
            assert made.client(ECHO).echo(CONTEXT, value='closed') == 'closed'
            server.stop()
            server.wait(10)
            made.close()
            with socket.create_connection(('127.0.0.1', broker.port), 60) as plain:
                plain.sendall(b'AMQP\x00\x00\x09\x01')
                assert not plain.recv(8).startswith(b'\x01')          # no frame of AMQP
        finally:
            broker.stop()


@contextlib.contextmanager
def _mariadb(directory):
    server, install = servers._program('mariadbd'), servers._program('mariadb-install-db')
    user = ['--user=mysql'] if os.geteuid() == 0 else []
    port = servers.free_port()
    subprocess.run([install, '--no-defaults', f'--datadir={directory}/data', '--skip-test-db', *user,
                    '--auth-root-authentication-method=normal'], check=True, stdout=subprocess.DEVNULL)
    (directory / 'tls.cnf').write_text(_printed('mariadb', directory))
    (directory / 'tls.cnf').chmod(0o644)
    command = [server, f'--defaults-file={directory}/tls.cnf', f'--datadir={directory}/data',
               f'--socket={directory}/s', f'--port={port}', '--bind-address=127.0.0.1', f'--pid-file={directory}/pid',
               *user]
    with servers._running(command, directory / 'log') as process:
        servers._wait(lambda: servers._accepts(port), process, directory / 'log')
        url = f'mysql+pymysql://root@127.0.0.1:{port}/mysql'
        yield f'{url}?ssl_ca={directory}/ca.pem', f'{url}?ssl_disabled=true', "SHOW STATUS LIKE 'Ssl_cipher'"


@contextlib.contextmanager
def _postgresql(directory):
    places = sorted(map(str, pathlib.Path('/usr/lib/postgresql').glob('*/bin')), reverse=True)
    server, initdb = servers._program('postgres', *places), servers._program('initdb', *places)
    port, data = servers.free_port(), directory / 'data'
    subprocess.run([initdb, '-D', data, '-A', 'trust', '-U', 'nova', '-E', 'UTF8', '--no-sync'], check=True,
                   stdout=subprocess.DEVNULL, cwd=directory, **servers._as('postgres'))
    (data / 'pg_hba.conf').write_text('hostssl all nova 127.0.0.1/32 trust\n')
    with open(data / 'postgresql.conf', 'a') as file:
        file.write(_printed('postgresql', directory))
    command = [server, '-D', data, '-p', str(port), '-k', directory, '-h', '127.0.0.1']
    with servers._running(command, directory / 'log', cwd=directory, **servers._as('postgres')) as process:
        url = f'postgresql+psycopg2://nova@127.0.0.1:{port}/postgres'

        def ready():
            """It takes connections before it lets anybody in."""
            import psycopg2
            with contextlib.suppress(psycopg2.OperationalError):
                psycopg2.connect(f'host=127.0.0.1 port={port} user=nova dbname=postgres sslmode=require').close()
                return True
            return False
        servers._wait(ready, process, directory / 'log')
        yield (f'{url}?sslmode=verify-full&sslrootcert={directory}/ca.pem', f'{url}?sslmode=disable',
               "SELECT 'Ssl_cipher', cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()")


@pytest.mark.parametrize('user, start', long_runs.rest([('mysql', _mariadb), ('postgres', _postgresql)]))
def test_database_connection_uses_tls(user, start):
    with servers._directory(user) as directory:
        _certificates(directory, user)
        with start(directory) as (closed, opened, asks):
            db = engine.Database(closed)
            with db.reader() as conn:
                name, cipher = conn.exec_driver_sql(asks).one()
            assert name == 'Ssl_cipher' and cipher in {found['name'] for found in ssl.create_default_context(
                ).get_ciphers()}
            db.dispose()
            refused = pytest.raises((sqlalchemy.exc.DBAPIError, db_exc.DBError),
                                    match='(?i)secure transport|no encryption|access denied')
            with refused, engine.Database(opened).reader() as conn:
                conn.exec_driver_sql('SELECT 1')


def test_memcached_connection_uses_tls():
    with servers._directory('memcache') as directory:
        _certificates(directory, 'memcache')
        port = servers.free_port()
        words = _printed('memcached', directory).split()
        command = [servers._program('memcached'), '-l', '127.0.0.1', '-p', str(port), *words]
        with servers._running(command, directory / 'log', **servers._as('memcache')) as process:
            servers._wait(lambda: servers._accepts(port), process, directory / 'log')
            trusting = ssl.create_default_context(cafile=directory / 'ca.pem')
            with socket.create_connection(('127.0.0.1', port), 60) as plain, trusting.wrap_socket(
                    plain, server_hostname='127.0.0.1') as closed:
                closed.sendall(b'version\r\n')
                assert closed.recv(100).startswith(b'VERSION')
