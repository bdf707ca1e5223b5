"""Private database and message servers for a test: own ports, own directories, gone at the end.

SHARED and virtual_host() are for tests that stop nothing: one server of a kind for all tests of a process, in which
each gets databases, or a virtual host, of its own.
"""
import atexit
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
import requests

from nova.runtime import concurrency
from nova.tests import ports

# serves the API of another project, whose package is named, at the port in the environment
WSGI = '''
import os, socketserver
from wsgiref import simple_server
from {}.wsgi import api
class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
simple_server.make_server('127.0.0.1', int(os.environ['PORT']), api.application, Server).serve_forever()
'''
START_S = 240                       # a broker on a busy machine
# A database server that need not outlive a power cut; what it has committed outlives its own death.
HASTY_MARIADB = ('--loose-innodb-flush-method=nosync', '--innodb-flush-log-at-trx-commit=2', '--innodb-doublewrite=0',
                 '--loose-debug-no-sync', '--innodb-buffer-pool-dump-at-shutdown=0', '--max-connections=500')
HASTY_POSTGRESQL = ('-c', 'full_page_writes=off', '-c', 'max_connections=300')
BUS = os.environ.get('NOVA_TEST_BUS', 'nova-rabbit')      # the driver: rabbit is the other one
VIRTUAL_HOSTS = 12                  # of a shared broker: they are made while it starts, which takes a moment each
free_port = ports.free


def _program(name, *directories):
    """The path of a program; the test is skipped, with the reason, where there is none."""
    found = shutil.which(name, path=os.pathsep.join([*directories, os.environ['PATH'], '/usr/sbin']))
    if not found:
        pytest.skip(f'{name} is not installed')
    return found


@contextlib.contextmanager
def _directory(user=None):
    """A short-named directory (socket paths are limited), owned by ``user`` when root runs the tests."""
    path = pathlib.Path(tempfile.mkdtemp(prefix='nova-', dir='/tmp'))
    try:
        if user and os.geteuid() == 0:
            entry = pwd.getpwnam(user)
            os.chown(path, entry.pw_uid, entry.pw_gid)
        path.chmod(0o755)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def owned(authority, name, hosts, directory, user):
    """Put a certificate of an Authority into a server's directory, for its user: ca.pem, NAME.pem, NAME.key."""
    pair = authority.pair(name, hosts)
    for path in (authority.trusted, pair.certificate, pair.key):
        shutil.copy(path, directory)
        if os.geteuid() == 0:
            entry = pwd.getpwnam(user)
            os.chown(directory / path.name, entry.pw_uid, entry.pw_gid)


def _as(user):
    """Keywords for subprocess: servers refuse to run as root."""
    return {'user': user, 'group': pwd.getpwnam(user).pw_gid} if os.geteuid() == 0 else {}


@contextlib.contextmanager
def _running(command, log, **more):
    with open(log, 'wb') as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   start_new_session=True, **more)
        try:
            yield process
        finally:
            _end(process)


def _end(process):
    """Stop a server and, where a script has started it, what it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
            deadline = time.monotonic() + 30
            while _group_lives(process.pid) and time.monotonic() < deadline:
                time.sleep(0.05)


def _group_lives(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def _wait(ready, process, log):
    deadline = time.monotonic() + START_S
    while not ready():
        assert process.poll() is None and time.monotonic() < deadline, pathlib.Path(log).read_text()[-2000:]
        time.sleep(0.1)


def answers(port):
    """Whether somebody serves HTTP there."""
    with contextlib.suppress(requests.RequestException):
        return bool(requests.get(f'http://127.0.0.1:{port}/', timeout=60).status_code)
    return False


def _accepts(port):
    with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
        return True
    return False


@contextlib.contextmanager
def mariadb(options=()):
    """function(name) -> SQLAlchemy URL of a new, empty database; its ``stop()`` and ``start()`` are the server's."""
    pymysql = pytest.importorskip('pymysql')
    server, install = _program('mariadbd'), _program('mariadb-install-db')
    user = 'mysql'
    with _directory(user) as directory:
        data, sock, port, log = directory / 'data', directory / 's', free_port(), directory / 'log'
        subprocess.run([install, '--no-defaults', f'--datadir={data}', '--auth-root-authentication-method=normal',
                        '--skip-test-db', *([f'--user={user}'] if os.geteuid() == 0 else []), *options], check=True,
                       stdout=subprocess.DEVNULL)
        command = [server, '--no-defaults', f'--datadir={data}', f'--socket={sock}', f'--port={port}',
                   '--bind-address=127.0.0.1', f'--pid-file={directory}/pid',
                   *([f'--user={user}'] if os.geteuid() == 0 else []), *options]
        with contextlib.ExitStack() as stack:
            def start():
                process = stack.enter_context(_running(command, log))
                _wait(lambda: _accepts(port), process, log)

            def execute(statement):
                with pymysql.connect(host='127.0.0.1', port=port, user='root') as conn, conn.cursor() as cursor:
                    cursor.execute(statement)
                    return cursor.fetchall()

            def drop(name):
                for number, in execute(f"SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{name}'"):
                    with contextlib.suppress(pymysql.MySQLError):          # it has ended by itself
                        execute(f'KILL {number}')
                execute(f'DROP DATABASE {name}')

            def database(name):
                execute(f'CREATE DATABASE {name} CHARACTER SET utf8mb4')
                return f'mysql+pymysql://root@127.0.0.1:{port}/{name}?charset=utf8mb4'
            database.start, database.stop, database.drop = start, stack.close, drop
            start()
            yield database


@contextlib.contextmanager
def postgresql(options=()):
    """function(name) -> SQLAlchemy URL of a new, empty database."""
    psycopg2 = pytest.importorskip('psycopg2')
    places = sorted(map(str, pathlib.Path('/usr/lib/postgresql').glob('*/bin')), reverse=True)
    server, initdb = _program('postgres', *places), _program('initdb', *places)
    user = 'postgres'
    with _directory(user) as directory:
        data, port, log = directory / 'data', free_port(), directory / 'log'
        subprocess.run([initdb, '-D', str(data), '-A', 'trust', '-U', 'nova', '-E', 'UTF8', '--no-sync'], check=True,
                       stdout=subprocess.DEVNULL, cwd=directory, **_as(user))
        with _running([server, '-D', str(data), '-p', str(port), '-k', str(directory), '-h', '127.0.0.1',
                       '-c', 'fsync=off', *options], log, cwd=directory, **_as(user)) as process:
            def connect():
                return psycopg2.connect(host='127.0.0.1', port=port, user='nova', dbname='postgres')

            def ready():
                with contextlib.suppress(psycopg2.OperationalError):
                    connect().close()
                    return True
                return False
            _wait(ready, process, log)

            def execute(statement):
                conn = connect()
                conn.autocommit = True
                with conn.cursor() as cursor:
                    cursor.execute(statement)
                conn.close()

            def database(name):
                execute(f'CREATE DATABASE {name}')
                return f'postgresql+psycopg2://nova@127.0.0.1:{port}/{name}'
            database.drop = lambda name: execute(f'DROP DATABASE {name} WITH (FORCE)')
            yield database


@contextlib.contextmanager
def sqlite():
    """function(name) -> SQLAlchemy URL of a new, empty database."""
    with _directory() as directory:
        yield lambda name: f'sqlite:///{directory}/{name}.sqlite'


DATABASES = {'sqlite': sqlite, 'mariadb': mariadb, 'postgresql': postgresql}
_shared, _numbers = contextlib.ExitStack(), itertools.count(1)
atexit.register(_shared.close)


def _databases_of(kind, options):
    """As DATABASES[kind], of the one server; the databases are dropped at the end of the block."""
    @functools.cache
    def server():
        return _shared.enter_context(DATABASES[kind](options))

    @contextlib.contextmanager
    def databases():
        running, made = server(), []

        def database(name):
            made.append(f'{name}_{next(_numbers)}')
            return running(made[-1])
        try:
            yield database
        finally:
            for name in made:
                running.drop(name)
    return databases


SHARED = {'sqlite': sqlite, 'mariadb': _databases_of('mariadb', HASTY_MARIADB),
          'postgresql': _databases_of('postgresql', HASTY_POSTGRESQL)}


@contextlib.contextmanager
def mysqlclient():
    """Like SHARED['mariadb'], asked by the driver in C; skips where it is not installed."""
    pytest.importorskip('MySQLdb')
    if concurrency.model() == 'eventlet':
        pytest.skip('native threads alone')
    with SHARED['mariadb']() as url_of:
        yield lambda name: url_of(name).replace('mysql+pymysql', 'mysql+mysqldb')


CLIENTS = {**SHARED, 'mysqlclient': mysqlclient}


# Of what is installed beside RabbitMQ, what its core starts with. A start reads the rest as well, a fifth of its cost.
NOT_CORE = ('rabbitmq_*', 'amqp10_client-*', 'cowboy-*', 'cowlib-*', 'eetcd-*', 'gun-*', 'jose-*', 'prometheus-*')
CORE = ('rabbitmq_prelaunch-*', 'rabbitmq_auth_mechanism_ssl-*')          # the second one is for a test of certificates


def _plugins(directory):
    """A directory with links to the installed plugins that the core needs."""
    made = directory / 'core'
    made.mkdir()
    for path in pathlib.Path('/usr/lib/rabbitmq/lib').glob('rabbitmq_server-*/plugins/*'):
        if any(map(path.match, CORE)) or not any(map(path.match, NOT_CORE)):
            (made / path.name).symlink_to(path)
    return made


class RabbitMQ:
    """A broker of one test; ``url`` is its transport URL.

    :param directory: where its files are; ``pid`` is one of them
    :param hosts: names of the virtual hosts that it has, when it shall not be the one of its own, ``/``
    """

    def __init__(self, directory, hosts=()):
        self._server, self._control = _program('rabbitmq-server'), _program('rabbitmqctl')
        self._log = directory / 'log'
        self.port = free_port()
        self.url = f'{BUS}://guest:guest@127.0.0.1:{self.port}/'
        self._environment = {
            'PATH': os.environ['PATH'] + ':/usr/sbin', 'HOME': str(directory), 'LANG': 'C.UTF-8',
            'RABBITMQ_NODENAME': f'nova{secrets.token_hex(3)}@localhost', 'RABBITMQ_NODE_PORT': str(self.port),
            'RABBITMQ_NODE_IP_ADDRESS': '127.0.0.1', 'RABBITMQ_DIST_PORT': str(free_port()),
            'RABBITMQ_MNESIA_BASE': str(directory / 'mnesia'), 'RABBITMQ_LOG_BASE': str(directory / 'logs'),
            'RABBITMQ_PID_FILE': str(directory / 'pid'), 'RABBITMQ_ENABLED_PLUGINS_FILE': str(directory / 'plugins'),
            'RABBITMQ_CONF_ENV_FILE': '/dev/null', 'RABBITMQ_CONFIG_FILE': str(directory / 'rabbit'),
            'ERL_EPMD_ADDRESS': '127.0.0.1',
            'RABBITMQ_PLUGINS_DIR': str(_plugins(directory)),
            # an idle broker would wait for messages by spinning, on cores that others need
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': '+sbwt none +sbwtdcpu none +sbwtdio none'}
        self.directory = directory
        self._stack = None
        self._group = None
        if hosts:
            (directory / 'hosts.json').write_text(json.dumps({
                'users': [{'name': 'guest', 'password': 'guest', 'tags': 'administrator'}],
                'vhosts': [{'name': name} for name in hosts],
                'permissions': [{'user': 'guest', 'vhost': name, 'configure': '.*', 'write': '.*', 'read': '.*'}
                                for name in hosts]}))
            (directory / 'rabbit.conf').write_text(f'load_definitions = {directory}/hosts.json\n')

    def start(self):
        self._stack = contextlib.ExitStack()
        process = self._stack.enter_context(_running([self._server], self._log, env=self._environment,
                                                     cwd=self.directory, **_as('rabbitmq')))
        self._group = process.pid
        _wait(lambda: _accepts(self.port), process, self._log)

    @property
    def release(self):
        """(major, minor) of the broker that is installed."""
        said = subprocess.run([self._control, 'version'], env=self._environment, cwd=self.directory,
                              capture_output=True, text=True, check=True, timeout=120, **_as('rabbitmq')).stdout
        return tuple(int(number) for number in said.split()[-1].split('.')[:2])

    def kill(self):
        """End the broker without a word."""
        os.killpg(self._group, signal.SIGKILL)

    def stop(self):
        if self._stack is not None:
            self._stack.close()
            self._stack = None


@contextlib.contextmanager
def rabbitmq(hosts=()):
    """A started RabbitMQ."""
    _program('rabbitmq-server')
    with _directory('rabbitmq') as directory:
        broker = RabbitMQ(directory, hosts)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()


@dataclasses.dataclass(frozen=True)
class VirtualHost:
    """What a broker's ``url`` and ``port`` are, of one that others use as well."""

    port: int
    name: str

    @property
    def url(self):
        return f'{BUS}://guest:guest@127.0.0.1:{self.port}/{self.name}'


@functools.cache
def _virtual_hosts(number):
    """Those of the shared broker of this number that nobody has used."""
    names = [f'tests{host}' for host in range(VIRTUAL_HOSTS)]
    broker = _shared.enter_context(rabbitmq(names))
    return [VirtualHost(broker.port, name) for name in names]


def virtual_host():
    """An empty VirtualHost."""
    return next(hosts for hosts in map(_virtual_hosts, itertools.count()) if hosts).pop()


@contextlib.contextmanager
def databases(kind):
    """function(name, branch) -> migrated Database, on one of the servers of SHARED."""
    from nova.db import engine               # scripts import this module before they choose a thread model
    from nova.db import schema as migration

    with SHARED[kind]() as url_of:
        made = []

        def database(name, branch):
            made.append(engine.Database(url_of(name)))
            migration.sync(made[-1], branch)
            return made[-1]
        yield database
        for db in made:
            db.dispose()
