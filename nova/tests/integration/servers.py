"""Private database and message servers for a test: own ports, own directories, gone at the end."""
import contextlib
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

START_S = 90                        # a broker on a busy machine


def free_port():
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]


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


def _accepts(port):
    with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
        return True
    return False


@contextlib.contextmanager
def mariadb():
    """function(name) -> SQLAlchemy URL of a new, empty database; its ``stop()`` and ``start()`` are the server's."""
    pytest.importorskip('pymysql')
    server, install = _program('mariadbd'), _program('mariadb-install-db')
    user = 'mysql'
    with _directory(user) as directory:
        data, sock, port, log = directory / 'data', directory / 's', free_port(), directory / 'log'
        subprocess.run([install, '--no-defaults', f'--datadir={data}', '--auth-root-authentication-method=normal',
                        '--skip-test-db', *([f'--user={user}'] if os.geteuid() == 0 else [])], check=True,
                       stdout=subprocess.DEVNULL)
        command = [server, '--no-defaults', f'--datadir={data}', f'--socket={sock}', f'--port={port}',
                   '--bind-address=127.0.0.1', f'--pid-file={directory}/pid',
                   *([f'--user={user}'] if os.geteuid() == 0 else [])]
        with contextlib.ExitStack() as stack:
            def start():
                process = stack.enter_context(_running(command, log))
                _wait(lambda: _accepts(port), process, log)

            def database(name):
                import pymysql
                with pymysql.connect(host='127.0.0.1', port=port, user='root') as conn, conn.cursor() as cursor:
                    cursor.execute(f'CREATE DATABASE {name} CHARACTER SET utf8mb4')
                return f'mysql+pymysql://root@127.0.0.1:{port}/{name}?charset=utf8mb4'
            database.start, database.stop = start, stack.close
            start()
            yield database


@contextlib.contextmanager
def postgresql():
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
                       '-c', 'fsync=off'], log, cwd=directory, **_as(user)) as process:
            def connect():
                return psycopg2.connect(host='127.0.0.1', port=port, user='nova', dbname='postgres')

            def ready():
                with contextlib.suppress(psycopg2.OperationalError):
                    connect().close()
                    return True
                return False
            _wait(ready, process, log)

            def database(name):
                conn = connect()
                conn.autocommit = True
                with conn.cursor() as cursor:
                    cursor.execute(f'CREATE DATABASE {name}')
                conn.close()
                return f'postgresql+psycopg2://nova@127.0.0.1:{port}/{name}'
            yield database


@contextlib.contextmanager
def sqlite():
    """function(name) -> SQLAlchemy URL of a new, empty database."""
    with _directory() as directory:
        yield lambda name: f'sqlite:///{directory}/{name}.sqlite'


DATABASES = {'sqlite': sqlite, 'mariadb': mariadb, 'postgresql': postgresql}


class RabbitMQ:
    """A broker of one test; ``url`` is its transport URL."""

    def __init__(self, directory):
        self._server, self._control = _program('rabbitmq-server'), _program('rabbitmqctl')
        self._log = directory / 'log'
        self.port = free_port()
        self.url = f'rabbit://guest:guest@127.0.0.1:{self.port}/'
        self._environment = {
            'PATH': os.environ['PATH'] + ':/usr/sbin', 'HOME': str(directory), 'LANG': 'C.UTF-8',
            'RABBITMQ_NODENAME': f'nova{secrets.token_hex(3)}@localhost', 'RABBITMQ_NODE_PORT': str(self.port),
            'RABBITMQ_NODE_IP_ADDRESS': '127.0.0.1', 'RABBITMQ_DIST_PORT': str(free_port()),
            'RABBITMQ_MNESIA_BASE': str(directory / 'mnesia'), 'RABBITMQ_LOG_BASE': str(directory / 'logs'),
            'RABBITMQ_PID_FILE': str(directory / 'pid'), 'RABBITMQ_ENABLED_PLUGINS_FILE': str(directory / 'plugins'),
            'RABBITMQ_CONF_ENV_FILE': '/dev/null', 'RABBITMQ_CONFIG_FILE': str(directory / 'none'),
            'ERL_EPMD_ADDRESS': '127.0.0.1'}
        self._directory = directory
        self._stack = None
        self._group = None

    def start(self):
        self._stack = contextlib.ExitStack()
        process = self._stack.enter_context(_running([self._server], self._log, env=self._environment,
                                                     cwd=self._directory, **_as('rabbitmq')))
        self._group = process.pid
        _wait(lambda: _accepts(self.port), process, self._log)

    def kill(self):
        """End the broker without a word."""
        os.killpg(self._group, signal.SIGKILL)

    def stop(self):
        if self._stack is not None:
            self._stack.close()
            self._stack = None


@contextlib.contextmanager
def rabbitmq():
    """A started RabbitMQ."""
    _program('rabbitmq-server')
    with _directory('rabbitmq') as directory:
        broker = RabbitMQ(directory)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()
