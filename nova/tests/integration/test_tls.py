"""TLS to the broker and to the databases, with the options of doc/source/admin/install-fleet.rst."""
import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import ssl
import subprocess

import pytest
import sqlalchemy.exc
from oslo_db import exception as db_exc

from nova import conf as nova_conf
from nova.db import engine
from nova.rpc import bus
from nova.tests.integration import servers
from nova.tests.unit.test_rpc import CONTEXT
from nova.tests.unit.test_rpc import ECHO
from nova.tests.unit.test_rpc import Manager


def _certificates(directory, owner):
    """An authority, and what it has signed for 127.0.0.1."""
    if not shutil.which('openssl'):
        pytest.skip('openssl is not installed')
    (directory / 'names').write_text('subjectAltName=IP:127.0.0.1')
    for words in (('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2',
                   '-subj', '/CN=nova-test-ca'),
                  ('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'server.key', '-out', 'server.csr', '-subj',
                   '/CN=127.0.0.1'),
                  ('x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-out',
                   'server.pem', '-days', '2', '-extfile', 'names')):
        subprocess.run(['openssl', *words], cwd=directory, check=True, capture_output=True)
    for name in ('server.key', 'server.pem', 'ca.pem'):
        (directory / name).chmod(0o600 if name.endswith('key') else 0o644)
        if os.geteuid() == 0:
            entry = pwd.getpwnam(owner)
            os.chown(directory / name, entry.pw_uid, entry.pw_gid)


def _bus(url, **rabbit):
    conf = nova_conf.new(files=[])
    bus.register_options(conf)
    conf.set_override('transport_url', url)
    for name, value in rabbit.items():
        conf.set_override(name, value, group='oslo_messaging_rabbit')
    return bus.Bus(conf)


def test_the_broker(tmp_path):
    servers._program('rabbitmq-server')
    with servers._directory('rabbitmq') as directory:
        _certificates(directory, 'rabbitmq')
        broker = servers.RabbitMQ(directory)
        (directory / 'rabbit.conf').write_text(
            f'listeners.tcp = none\nlisteners.ssl.default = {broker.port}\n'
            f'ssl_options.cacertfile = {directory}/ca.pem\nssl_options.certfile = {directory}/server.pem\n'
            f'ssl_options.keyfile = {directory}/server.key\nssl_options.verify = verify_none\n')
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
    command = [server, '--no-defaults', f'--datadir={directory}/data', f'--socket={directory}/s', f'--port={port}',
               '--bind-address=127.0.0.1', f'--pid-file={directory}/pid', f'--ssl-ca={directory}/ca.pem',
               f'--ssl-cert={directory}/server.pem', f'--ssl-key={directory}/server.key',
               '--require-secure-transport=ON', *user]
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
    command = [server, '-D', data, '-p', str(port), '-k', directory, '-h', '127.0.0.1', '-c', 'ssl=on',
               '-c', f'ssl_cert_file={directory}/server.pem', '-c', f'ssl_key_file={directory}/server.key']
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


@pytest.mark.parametrize('user, start', [('mysql', _mariadb), ('postgres', _postgresql)])
def test_a_database(user, start):
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
