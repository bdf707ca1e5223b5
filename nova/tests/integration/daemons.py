"""A small fleet of processes over a broker and a database of a test's own, for clients of tools/load.py to work on.

Identity and images are the embedded ones: what they need is made here, in the test's process.
"""
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request

from nova import compose
from nova import conf as nova_conf
from nova import context
from nova.embedded import bootstrap
from nova.embedded.identity import bootstrap as identity_bootstrap
from nova.tests import loaded
from nova.tests.integration import servers

BIN = pathlib.Path(sys.executable).parent
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
[quota]
instances = -1
cores = -1
ram = -1
'''
COMPUTE = '''
[image]
backend = glance
[glance]
endpoint_override = http://127.0.0.1:9/
auth_type = none
[fake]
state_dir = {state}/{host}
delays = spawn:0.05,destroy:0.03
'''


class Daemon:
    """One process; ``name`` is a daemon's, with a number where there are several: nova-<name>."""

    def __init__(self, directory, name):
        self.name, self._log = name, directory / f'{name}.log'
        self._command = [BIN / f'nova-{name.rstrip("0123456789")}', '--config-file', directory / f'{name}.conf']
        self._process = None

    def start(self):
        with open(self._log, 'ab') as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={key: value for key, value in os.environ.items() if not key.startswith('OS_')})

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
    :param broker: servers.RabbitMQ
    :param database: what servers.mariadb() gives
    """

    def __init__(self, stack, directory, broker, database):
        self.broker, self.database = broker, database
        self._directory, port = directory, servers.free_port()
        self.urls = {'api': database('fleet_api'), 'cell1': database('fleet_cell')}
        shared = SHARED.format(url=broker.url, state=directory)
        databases = DATABASES.format(api=self.urls['api'], cell=self.urls['cell1'], port=port)
        self.daemons = {}
        for name in ('conductor1', 'conductor2', 'scheduler1', 'network1', 'api1', 'compute1', 'compute2'):
            own = COMPUTE.format(state=directory, host=name) if name.startswith('compute') else databases
            host = name if name.startswith('compute') else f'controller{name[-1]}'
            (directory / f'{name}.conf').write_text(f'{shared}{own}[DEFAULT]\nhost = {host}\n')
            self.daemons[name] = Daemon(directory, name)
            stack.callback(self.daemons[name].end)
        self._prepare(f'http://127.0.0.1:{port}')
        for daemon in self.daemons.values():
            daemon.start()
        self._wait(f'http://127.0.0.1:{port}/v2.1/')
        self.load = self._clients(f'http://127.0.0.1:{port}/v2.1')
        stack.callback(self.load.close)

    def _prepare(self, url):
        """Schemas, users, network, image."""
        config = self._directory / 'conductor1.conf'
        for command in ('db', 'api_db'):
            subprocess.run([BIN / 'nova-manage', command, 'sync', '--config-file', config], check=True)
        conf = nova_conf.new(files=[str(config)])
        api_db, cell_db = compose.open_databases(conf)
        identity = compose.identity(conf, api_db, url)
        passwords = identity_bootstrap.bootstrap(identity)
        self._token, _ = identity.login('admin', passwords['admin'], 'admin')
        bootstrap.bootstrap(conf, api_db)
        store, ctx = compose.image_store(conf, api_db), context.admin_context()
        self.image = store.create(ctx, {'name': 'small', 'disk_format': 'raw', 'container_format': 'bare',
                                        'visibility': 'public'})['id']
        store.upload(ctx, self.image, [b'\0' * 4096])
        api_db.dispose()
        cell_db.dispose()

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
        out = subprocess.run([BIN / 'nova-manage', 'service', 'list', '--config-file',
                              self._directory / 'conductor1.conf'], check=True, capture_output=True, text=True).stdout
        return sum(' up ' in line for line in out.splitlines())

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
        return loaded.tool().run(self.load, lambda: fault(self), {'imageRef': self.image, 'flavorRef': flavors[0]},
                                 flavors, load_s=seconds, clients=clients, servers=servers, rng=random.Random(seed))
