"""A small fleet of processes over a broker and a database of a test's own, for clients of tools/load.py to work on.

Identity and images are the embedded ones: what they need is made here, in the test's process.
"""
import contextlib
import json
import random
import subprocess
import time
import urllib.error
import urllib.request

from nova.db.services import message_keys
import sqlalchemy as sa

from nova.db import engine
from nova.db import grants
from nova.tests import loaded
from nova.tests.integration import prepared
from nova.tests.integration import servers

START_S, STOP_S = 240, 60             # on a machine that does much else
SHARED = '''
[DEFAULT]
transport_url = {url}
state_path = {state}
compute_driver = fake
report_interval = 2
service_down_time = 15
graceful_shutdown_timeout = 20
[conductor]
reconcile_interval = 2
task_deadline = 20
[network]
driver = fake
[identity]
password_hash_rounds = 4
'''
DATABASES = '''
[database]
connection = {cell}
[api_database]
connection = {api}
[http]
port = {port}
workers = 2
''' + prepared.UNLIMITED
COMPUTE = prepared.NO_IMAGES + '''
[fake]
state_dir = {state}/{host}
delays = spawn:0.05,destroy:0.03
'''
UNSIGNED = '''
[messages]
signatures = accept
'''
SIGNED = '''
[messages]
signatures = require
'''
JOINING = ('network1', 'compute1', 'compute2')       # what joins the deployment as a host
LIMITED = 'nova_network'
TOKEN = '''
[messages]
join_token_file = {state}/{host}.token
'''


class Daemon:
    """One process; ``name`` is a daemon's, with a number where there are several: nova-<name>."""

    def __init__(self, directory, name):
        self.name, self._log = name, directory / f'{name}.log'
        self._command = [prepared.BIN / f'nova-{name.rstrip("0123456789")}', '--config-file',
                         directory / f'{name}.conf']
        self._process = None

    def start(self):
        with open(self._log, 'ab') as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=prepared.environment())

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        """SIGTERM, and the exit code.

        :raises TimeoutExpired: it does not end
        """
        self._process.terminate()
        return self._process.wait(STOP_S)

    def end(self):
        if self._process is not None:
            self.kill()

    def last_words(self):
        return self._log.read_text(errors='replace')[-2000:]


class Fleet:
    """Daemons of two conductors, two computes and one of each other kind, which have found each other.

    :param stack: ExitStack that ends them
    :param broker: servers.RabbitMQ or VirtualHost
    :param database: what servers.mariadb() gives
    :param signed: every message needs a signature, the computes and the network service join with tokens, and that one
        has an account of the databases with few rights, ``limited_urls``
    """

    def __init__(self, stack, directory, broker, database, signed=False):
        self.broker, self.database = broker, database
        self._directory, port = directory, servers.free_port()
        self.urls, self.limited_urls = {'api': database('fleet_api'), 'cell1': database('fleet_cell')}, {}
        shared = SHARED.format(url=broker.url, state=directory) + (SIGNED if signed else UNSIGNED)
        databases = DATABASES.format(api=self.urls['api'], cell=self.urls['cell1'], port=port)
        self.daemons = {}
        for name in ('conductor1', 'conductor2', 'scheduler1', 'network1', 'api1', 'compute1', 'compute2'):
            own = COMPUTE.format(state=directory, host=name) if name.startswith('compute') else databases
            if signed and name in JOINING:
                own += TOKEN.format(state=directory, host=name)
            host = name if name.startswith('compute') else f'controller{name[-1]}'
            (directory / f'{name}.conf').write_text(f'{shared}{own}[DEFAULT]\nhost = {host}\n')
            self.daemons[name] = Daemon(directory, name)
            stack.callback(self.daemons[name].end)
        first = prepared.prepare(directory / 'conductor1.conf', f'http://127.0.0.1:{port}')
        self._token, self.image = first.token, first.image
        for name in JOINING if signed else ():
            (directory / f'{name}.token').write_text(first.api_db.run(message_keys.new_token, 3600))
        first.close()
        if signed:
            self._limit('network1')
        for daemon in self.daemons.values():
            daemon.start()
        self.load = self._clients(f'http://127.0.0.1:{port}/v2.1')
        stack.callback(self.load.close)
        self._wait(f'http://127.0.0.1:{port}/v2.1/')

    def _limit(self, name):
        """Give a daemon an account of the databases that may do what nova-network needs, and no more."""
        config, urls = self._directory / f'{name}.conf', {kind: sa.make_url(url) for kind, url in self.urls.items()}
        postgresql = urls['api'].get_backend_name() == 'postgresql'
        account = LIMITED if postgresql else f"{LIMITED}@'127.0.0.1'"
        for kind, (branch, url) in zip(('api', 'cell1'), (('api', urls['api']), ('cell', urls['cell1']))):
            db = engine.Database(url.render_as_string(hide_password=False))
            with db.writer() as conn:
                if branch == 'api':
                    conn.exec_driver_sql(f"CREATE ROLE {LIMITED} LOGIN PASSWORD 'x'" if postgresql else
                                         f"CREATE USER {account} IDENTIFIED BY 'x'")
                for statement in grants.statements(conn, branch, account):
                    conn.exec_driver_sql(statement)
            db.dispose()
            self.limited_urls[kind] = url.set(username=LIMITED, password='x').render_as_string(hide_password=False)
            config.write_text(config.read_text().replace(self.urls[kind], self.limited_urls[kind]))

    def _wait(self, url):
        deadline = time.monotonic() + START_S

        def until(ready, what):
            while not ready():
                assert time.monotonic() < deadline, what + ''.join(each.last_words() for each in self.daemons.values())
                time.sleep(0.2)

        def answers():
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(url, timeout=5).status == 200
        until(answers, 'nova-api does not answer')
        until(lambda: self._up() >= len(self.daemons) - 1, 'not every service is up')

    def _up(self):
        return len(self.load.rows('cell1', 'SELECT id FROM services WHERE last_seen_at IS NOT NULL'))

    def _clients(self, url):
        load, fleet = loaded.tool(), self

        class Asked(load.Cloud):
            def token(self):
                return fleet._token

            def guests(self):
                return {path.stem: {uuid: guest['power_state'] for uuid, guest in json.loads(path.read_text()).items()}
                        for host in ('compute1', 'compute2') for path in (fleet._directory / host).glob('*.json')}
        return Asked(url, self.urls)

    def run(self, fault, seconds, seed=0, clients=4, servers=12):
        """load.Result of clients that work while ``fault(fleet)`` goes on."""
        flavors = [each['id'] for each in self.load.json('GET', '/flavors')['flavors']][:2]

        def begin():
            found = fault(self)
            loaded.accepted(self.load)
            return found
        return loaded.tool().run(self.load, begin, {'imageRef': self.image, 'flavorRef': flavors[0]}, flavors,
                                 load_s=seconds, clients=clients, servers=servers, rng=random.Random(seed))
