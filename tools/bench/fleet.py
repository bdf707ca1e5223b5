"""A control plane of separate processes for measurements: RabbitMQ, MariaDB, the daemons and fake computes.

Everything stands in a directory of its own, on free ports, and is gone at the end. Identity and images are the embedded
ones: what is measured is this project's.
"""
import contextlib
import http.client
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

from nova.tests.integration import prepared
from nova.tests.integration import servers

TICK = os.sysconf('SC_CLK_TCK')
START_S = 300
IDLE_S = 30

SHARED = '''
[DEFAULT]
transport_url = {url}
compute_driver = fake
graceful_shutdown_timeout = 5
[messages]
signatures = accept
[network]
driver = fake
'''
CONTROL = '''
[database]
connection = {cell}
[api_database]
connection = {api}
[identity]
password_hash_rounds = 4
''' + prepared.UNLIMITED
COMPUTE = prepared.NO_IMAGES + '''
[fake]
vcpus = 100000
memory_mb = 100000000
local_gb = 10000000
state_dir = {state}/fake
'''


def usage(pid):
    """(seconds of processor time, MiB of memory) of a process."""
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    status = pathlib.Path(f'/proc/{pid}/status').read_text()
    rss = next((int(line.split()[1]) for line in status.splitlines() if line.startswith('VmRSS:')), 0)
    return (int(fields[11]) + int(fields[12])) / TICK, round(rss / 1024, 1)


def secrets_of(pid, secret, port):
    """Where a process has a secret, or is connected to a port: its environment, its memory, its files, its sockets."""
    place, found = pathlib.Path(f'/proc/{pid}'), []
    if secret.encode() in (place / 'environ').read_bytes():
        found.append('environment')
    with open(place / 'mem', 'rb', 0) as memory:
        for line in (place / 'maps').read_text().splitlines():
            borders, rights = line.split()[:2]
            begin, end = (int(border, 16) for border in borders.split('-'))
            if not rights.startswith('r') or '[v' in line:
                continue
            try:
                memory.seek(begin)
                if secret.encode() in memory.read(end - begin):
                    found.append(f'memory {line.split()[-1]}')
            except (OSError, ValueError, OverflowError):
                continue
    inodes = {os.readlink(entry)[8:-1] for entry in (place / 'fd').iterdir()
              if os.path.islink(entry) and os.readlink(entry).startswith('socket:')}
    for line in (place / 'net' / 'tcp').read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes and int(fields[2].split(':')[1], 16) == port:
            found.append('connection')
    return found


class Fleet:
    """
    :param computes: number of nova-compute processes
    :param options: further lines of every configuration file
    :param daemons: of the control plane
    :param driver: of SQLAlchemy, by which the daemons ask MariaDB: pymysql or mysqldb
    """

    def __init__(self, computes=20, options='', daemons=('conductor', 'scheduler', 'network', 'api'),
                 driver='pymysql'):
        self.computes, self._options, self._daemons = computes, options, daemons
        self.processes, self._stack, self._driver = {}, contextlib.ExitStack(), driver
        self.password, self.local = secrets.token_urlsafe(18), threading.local()

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))        # nothing is left behind then, either
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.terminate()
        self._stack.close()

    def _start(self):
        self.directory = pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix='nova-bench.')))
        self.broker = self._stack.enter_context(servers.rabbitmq())
        database = self._stack.enter_context(servers.mariadb())
        self.databases = [self._with_user(database(name)) for name in ('nova_cell1', 'nova_api')]
        self.port = servers.free_port()
        self._prepare()
        for name in self._daemons:
            self.start(name, CONTROL.format(cell=self.databases[0], api=self.databases[1])
                       + f'[http]\nport = {self.port}\n')
        for number in range(1, self.computes + 1):
            self.start(f'compute{number}', COMPUTE.format(state=self.directory / f'compute{number}'))
        self.wait_for_services()

    def _with_user(self, url):
        """The URL with an account that has a password, which no compute may know."""
        import sqlalchemy as sa
        made = sa.create_engine(url)
        with made.begin() as conn:
            conn.exec_driver_sql("CREATE USER IF NOT EXISTS 'nova'@'%%' IDENTIFIED BY '" + self.password + "'")
            conn.exec_driver_sql("GRANT ALL ON *.* TO 'nova'@'%%'")
            conn.exec_driver_sql('SET GLOBAL max_connections = 1000')
        made.dispose()
        return url.replace('root@', f'nova:{self.password}@').replace('+pymysql', '+' + self._driver)

    def _file(self, name, text, host):
        state = self.directory / name
        state.mkdir(exist_ok=True)
        path = self.directory / f'{name}.conf'
        path.write_text(SHARED.format(url=self.broker.url) + text
                        + f'\n[DEFAULT]\nhost = {host}\nstate_path = {state}\n' + self._options)
        return path

    def _prepare(self):
        path = self._file('api', CONTROL.format(cell=self.databases[0], api=self.databases[1]), 'controller')
        first = prepared.prepare(path, f'http://127.0.0.1:{self.port}')
        self.api_db, self.cell_db, self.token, self.image = first.api_db, first.cell_db, first.token, first.image

    def start(self, name, text, host=None):
        binary = 'compute' if name.startswith('compute') else name.rstrip('0123456789')
        path = self._file(name, text, host or (name if binary == 'compute' else 'controller' + name[len(binary):]))
        log = self._stack.enter_context(open(self.directory / f'{name}.log', 'wb'))
        self.processes[name] = subprocess.Popen(
            [prepared.BIN / f'nova-{binary}', '--config-file', path], stdout=log, stderr=log, cwd=TREE,
            env=prepared.environment())
        self._stack.callback(self._end, self.processes[name])

    @staticmethod
    def _end(process):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()

    def wait_for_services(self):
        deadline = time.monotonic() + START_S
        while True:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f'{name} ended: {(self.directory / f"{name}.log").read_text()[-2000:]}')
            with contextlib.suppress(OSError, RuntimeError):
                found = self.json('GET', '/os-services')['services']
                if len([each for each in found if each['state'] == 'up']) >= len(self.processes) - 1:
                    return
            if time.monotonic() > deadline:
                raise RuntimeError('Not all services are up.')
            time.sleep(0.5)

    # ---- the API

    def call(self, method, path, body=None, version='2.37'):
        """(status, headers, bytes)."""
        connection = getattr(self.local, 'connection', None)
        if connection is None or time.monotonic() > self.local.used + IDLE_S:         # the API closes idle ones
            connection = self.local.connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=120)
        headers = {'X-Auth-Token': self.token, 'OpenStack-API-Version': f'compute {version}',
                   'Content-Type': 'application/json'}
        try:
            connection.request(method, '/v2.1' + path, json.dumps(body) if body is not None else None, headers)
            reply = connection.getresponse()
            self.local.used = time.monotonic()
            return reply.status, reply.headers, reply.read()
        except (OSError, http.client.HTTPException):
            self.local.connection = None
            raise

    def json(self, method, path, body=None):
        status, _headers, data = self.call(method, path, body)
        if status >= 400:
            raise RuntimeError(f'{method} {path}: {status} {data[:300]!r}')
        return json.loads(data) if data else None

    def flavor(self):
        made = self.json('POST', '/flavors', {'flavor': {'name': 'bench', 'ram': 64, 'vcpus': 1, 'disk': 1,
                                                         'id': 'bench'}})
        return made['flavor']['id']

    def create(self, name, count=1):
        """(status, headers, bytes) of POST /servers."""
        server = {'name': name, 'flavorRef': 'bench', 'imageRef': self.image, 'networks': 'none'}
        if count > 1:
            server.update(min_count=count, max_count=count)
        return self.call('POST', '/servers', {'server': server})

    def states(self):
        """{vm_state: servers}."""
        import sqlalchemy as sa
        from nova.db.tables.cell import instances
        with self.cell_db.reader() as conn:
            return dict(conn.execute(sa.select(instances.c.vm_state, sa.func.count()).group_by(
                instances.c.vm_state)).all())

    def usage(self):
        """{process: (seconds of processor time, MiB)}, the broker and the database among them."""
        found = {name: usage(process.pid) for name, process in self.processes.items()}
        for entry in pathlib.Path('/proc').iterdir():
            with contextlib.suppress(OSError, ValueError):
                pid = int(entry.name)
                command = (entry / 'cmdline').read_bytes().decode(errors='replace')
                if 'beam.smp' in command and str(self.broker.directory) in command:
                    # the broker's commands are of the same kind, and smaller
                    found['rabbitmq'] = max(found.get('rabbitmq', (0, 0)), usage(pid), key=lambda each: each[1])
                elif 'mariadbd' in command and f'--port={self.cell_db.url.port}' in command:
                    found['mariadb'] = usage(pid)
        return found
