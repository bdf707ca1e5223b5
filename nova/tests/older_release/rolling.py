"""A deployment of the previous release that is upgraded under load, daemon by daemon: real processes of both releases.

    fleet = Fleet(directory, broker_url, database_url, old_tree)
    result = fleet.upgrade()            # Result: failures is empty when nothing was lost

It goes the way of doc/source/admin/upgrades.rst.
"""
import collections
import contextlib
import dataclasses
import json
import signal
import subprocess
import threading
import time

import requests

from nova import conf as nova_conf
from nova.tests.support import waiting
from nova.tests.integration import prepared
from nova.tests.integration import servers as parts
from nova.tests.older_release import tree

CONFIG = '''
[DEFAULT]
transport_url = {broker}
state_path = {state}
host = {host}
compute_driver = fake
report_interval = 1
service_down_time = 15
graceful_shutdown_timeout = 20
reserved_host_memory_mb = 0
[messages]
signatures = accept
[http]
port = {port}
[network]
driver = fake
[identity]
password_hash_rounds = 4
token_expiration = 86400
[quota]
instances = -1
cores = -1
ram = -1
[fake]
state_dir = {state}/fake
'''
DATABASES = '''
[database]
connection = {cell}
[api_database]
connection = {api}
'''
# Run by the old release: its schema, its first rows.
SETUP = '''
import sys; sys.path[:0] = [sys.argv[2]]
import json
from nova import compose, conf, context
from nova.db import migration
from nova.embedded import bootstrap
from nova.embedded.identity import bootstrap as identity_bootstrap
conf = conf.new(files=[sys.argv[1]])
api_db, cell_db = compose.open_databases(conf)
migration.sync(api_db, 'api')
migration.sync(cell_db, 'cell')
identity = compose.identity(conf, api_db, 'http://127.0.0.1:1')
passwords = identity_bootstrap.bootstrap(identity)
bootstrap.bootstrap(conf, api_db)
tokens = {name: identity.login(name, passwords[name], project)[0] for name, project in
          (('admin', 'admin'), ('demo', 'demo'))}
store = compose.image_store(conf, api_db)
admin = context.admin_context()
admin.project_id = 'p'
image = store.create(admin, {'name': 'test', 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'public'})
store.upload(admin, image['id'], iter([bytes(1048576)]))
print(json.dumps({'tokens': tokens, 'image': image['id']}))
'''
WAIT_S = 240                         # on a busy machine


def wait(condition, what):
    return waiting.wait_for(condition, WAIT_S, what, 0.2)


@dataclasses.dataclass
class Result:
    """
    failures  sentences; empty: nothing was lost and no request failed
    answers   {(method, status code): number} of all requests
    servers   {'before', 'during', 'after': how many were made then}
    steps     [(what, seconds)]
    """

    failures: list = dataclasses.field(default_factory=list)
    answers: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    servers: dict = dataclasses.field(default_factory=dict)
    steps: list = dataclasses.field(default_factory=list)


class Fleet:
    """
    :param directory: pathlib.Path of everything that it writes
    :param broker: transport URL
    :param database: function(name) -> URL of an empty database
    :param old: source tree of the previous release
    :param computes: how many hosts
    :param clients: how many threads of load
    :param say: function(sentence), told of each step
    """

    def __init__(self, directory, broker, database, old, computes=2, clients=2, say=lambda sentence: None):
        self._directory, self._broker, self._old, self._say = directory, broker, old, say
        self._urls = {name: database(name) for name in ('cell', 'api')}
        self._computes = [f'compute{number}' for number in range(1, computes + 1)]
        self._clients = clients
        self._running = {}               # name: process
        self.result = Result()
        self._kept, self._lock, self._over = {}, threading.Lock(), threading.Event()
        self._url = self._tokens = self._image = None

    # ---- processes

    def _config(self, name, host, port=0, release=None):
        path = self._directory / f'{name}.conf'
        # the previous release has oslo.messaging's driver alone
        broker = self._broker if release is None else self._broker.replace('nova-rabbit://', 'rabbit://')
        text = CONFIG.format(broker=broker, state=self._directory / 'state', host=host, port=port)
        path.write_text(text + (prepared.NO_IMAGES if name.startswith('compute') else DATABASES.format(**self._urls)))
        return path

    def _start(self, kind, name, host=None, release=None, port=0):
        config = self._config(name, host or name, port, release)
        with open(self._directory / f'{name}.log', 'ab') as log:
            self._running[name] = subprocess.Popen(
                [*tree.command(f'nova-{kind}', release), '--config-file', config], stdout=log, stderr=log,
                cwd=self._directory, env=tree.environment())

    def _stop(self, name):
        """SIGTERM; it ends by itself, and well."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code != 0:
            self.result.failures.append(f'{name} ended with {code} after SIGTERM')

    def end(self):
        """Kill what runs."""
        self._over.set()
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running = {}

    def log(self, name):
        return (self._directory / f'{name}.log').read_text()

    def _manage(self, *words, release=None, binary='nova-manage'):
        """(exit code, output) of a command."""
        config = self._config('manage', 'manage')
        done = subprocess.run([*tree.command(binary, release), *words, '--config-file', config], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self._directory,
                              env=tree.environment())
        return done.returncode, done.stdout

    # ---- requests

    def _ask(self, method, path, body=None, user='demo', expected=(200, 202, 204)):
        """The answer; one that is not expected is a failure."""
        url = self._url
        try:
            answer = requests.request(method, url + '/v2.1' + path, json=body, timeout=70, headers={
                'X-Auth-Token': self._tokens[user], 'OpenStack-API-Version': 'compute 2.90'})
        except requests.RequestException as error:
            if url != self._url:             # the API that was being drained: a client asks the next one
                return self._ask(method, path, body, user, expected)
            self.result.failures.append(f'{method} {path}: {type(error).__name__}')
            return None
        with self._lock:
            self.result.answers[method, answer.status_code] += 1
        if answer.status_code not in expected:
            self.result.failures.append(f'{method} {path}: {answer.status_code} {answer.text[:200]}')
        return answer

    def _up(self):
        """{(binary, host)} of the services that are up."""
        answer = self._ask('GET', '/os-services', user='admin')
        return {(row['binary'], row['host']) for row in answer.json()['services'] if row['state'] == 'up'}

    def _create(self, name):
        answer = self._ask('POST', '/servers', {'server': {
            'name': name, 'imageRef': self._image, 'flavorRef': self._flavor, 'networks': 'auto'}})
        return answer.json()['server']['id'] if answer is not None and answer.status_code == 202 else None

    def _settled(self, server_id, status='ACTIVE'):
        """Whether it has come to this status in time; ERROR and silence are failures."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            answer = self._ask('GET', f'/servers/{server_id}')
            if answer is not None and answer.status_code == 200:
                server = answer.json()['server']
                if server['status'] == status and server['OS-EXT-STS:task_state'] is None:
                    return True
                if server['status'] == 'ERROR':
                    self.result.failures.append(f'{server_id} is in ERROR: {json.dumps(server.get("fault"))[:300]}')
                    return False
            time.sleep(0.3)
        self.result.failures.append(f'{server_id} is not {status} after {WAIT_S} s')
        return False

    def _gone(self, server_id):
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            answer = self._ask('GET', f'/servers/{server_id}', expected=(200, 404))
            if answer is not None and answer.status_code == 404:
                return
            time.sleep(0.3)
        self.result.failures.append(f'{server_id} is not gone after {WAIT_S} s')

    def _make(self, when, count):
        made = [self._create(f'{when}-{number}') for number in range(count)]
        for server_id in filter(None, made):
            self._settled(server_id)
            self._keep(server_id, when)

    def _keep(self, server_id, when):
        with self._lock:
            self._kept[server_id] = when

    def _load(self, number):
        """Create, stop, start, and delete three of four, until it is over."""
        turn = 0
        while not self._over.is_set():
            turn += 1
            server_id = self._create(f'during-{number}-{turn}')
            if server_id is None or not self._settled(server_id):
                continue
            for action, status in (('os-stop', 'SHUTOFF'), ('os-start', 'ACTIVE')):
                self._ask('POST', f'/servers/{server_id}/action', {action: None})
                if not self._settled(server_id, status):
                    break
            else:
                if turn % 4:
                    self._ask('DELETE', f'/servers/{server_id}')
                    self._gone(server_id)
                else:
                    self._keep(server_id, 'during')

    # ---- the way

    @contextlib.contextmanager
    def _step(self, what):
        self._say(what)
        begun = time.monotonic()
        yield
        self.result.steps.append((what, time.monotonic() - begun))

    def upgrade(self, servers=4, pause=0.5):
        """The whole way; the Result.

        :param servers: made before, and again after
        :param pause: seconds of load between two replaced daemons
        """
        with self._step('the previous release starts'):
            self._begin()
        with self._step('servers before'):
            self._make('before', servers)
        load = [threading.Thread(target=self._load, args=(number,)) for number in range(self._clients)]
        for thread in load:
            thread.start()
        try:
            self._replace(pause)
        finally:
            self._over.set()
            for thread in load:
                thread.join()
        with self._step('servers after'):
            self._make('after', servers)
        with self._step('the last steps'):
            self._finish()
        self._check()
        return self.result

    def _begin(self):
        setup = subprocess.run([*tree.command('nova-api')[:3], '-c', SETUP, self._config('setup', 'setup'), self._old],
                               stdout=subprocess.PIPE, text=True, check=True, cwd=self._directory,
                               env=tree.environment())
        made = json.loads(setup.stdout.splitlines()[-1])
        self._tokens, self._image = made['tokens'], made['image']
        port = parts.free_port()
        self._url = f'http://127.0.0.1:{port}'
        for kind in ('conductor', 'scheduler', 'network'):
            self._start(kind, f'{kind}-old', 'network1' if kind == 'network' else None, self._old)
        for host in self._computes:
            self._start('compute', host, release=self._old)
        self._start('api', 'api-old', release=self._old, port=port)
        wait(lambda: self._answers(self._url), 'nova-api')
        wait(lambda: len(self._up()) == 3 + len(self._computes), 'the services of the previous release')
        self._flavor = self._ask('GET', '/flavors').json()['flavors'][0]['id']

    def _answers(self, url):
        with contextlib.suppress(requests.RequestException):
            return requests.get(url + '/', timeout=5).status_code in (200, 300)
        for name, process in self._running.items():
            assert process.poll() is None, f'{name}: {self.log(name)[-2000:]}'
        return False

    def _replace(self, pause):
        with self._step('the schema is expanded'):
            for database in ('api_db', 'db'):
                code, out = self._manage(database, 'sync')
                assert code == 0, out
        for kind in ('conductor', 'scheduler'):            # several may run: the new one first
            with self._step(f'nova-{kind} is replaced'):
                self._start(kind, f'{kind}-new')
                wait(lambda: (f'nova-{kind}', f'{kind}-new') in self._up(), f'{kind}-new')
                self._stop(f'{kind}-old')
            time.sleep(pause)
        with self._step('nova-network is replaced'):
            self._stop('network-old')
            self._start('network', 'network-new', 'network1')
        time.sleep(pause)
        with self._step('nova-api is replaced'):
            port = parts.free_port()
            self._start('api', 'api-new', port=port)
            wait(lambda: self._answers(f'http://127.0.0.1:{port}'), 'the new nova-api')
            self._url = f'http://127.0.0.1:{port}'         # as a load balancer drains the old one
            time.sleep(1)
            self._stop('api-old')
        time.sleep(pause)
        for host in self._computes:
            with self._step(f'nova-compute of {host} is replaced'):
                self._stop(host)
                self._start('compute', host)
            time.sleep(pause)
        with self._step('every compute is back'):
            wait(lambda: {host for binary, host in self._up() if binary == 'nova-compute'} == set(self._computes),
                 'the computes')

    def _finish(self):
        """Unpinned by itself, data converted, schema contracted."""
        code, out = self._manage('db', 'online_data_migrations')
        if code != 0:
            self.result.failures.append(f'online_data_migrations: {code} {out}')

        def contracted():
            return all(self._manage(database, 'contract')[0] == 0 for database in ('db', 'api_db'))
        refused, out = self._manage('db', 'contract')
        if refused and 'older release are running' not in out:
            self.result.failures.append(f'contract: {refused} {out}')
        wait(contracted, 'the old services to be forgotten')
        code, out = self._manage('upgrade', 'check', binary='nova-status')
        if code > 1:
            self.result.failures.append(f'nova-status: {code}\n{out}')

    def _check(self):
        """Rows, claims and guests of every server that was kept; nothing else is there."""
        from nova.cloud import assembly
        from nova.db.placement import claims

        conf = nova_conf.new(files=[str(self._config('manage', 'manage'))])
        api_db, cell_db = assembly.open_databases(conf)
        answer = self._ask('GET', '/servers/detail?limit=1000')
        found = {server['id']: server['status'] for server in answer.json()['servers']}
        failures = self.result.failures
        failures += [f'{server_id} ({when}) is lost' for server_id, when in self._kept.items()
                     if server_id not in found]
        failures += [f'{server_id} is {status}' for server_id, status in found.items() if status != 'ACTIVE']
        failures += [f'the claims of {row} were wrong' for row in cell_db.run(claims.audit)]
        guests = collections.Counter()
        for host in self._computes:
            guests.update(json.loads((self._directory / 'state' / 'fake' / f'{host}.json').read_text()).keys())
        failures += [f'{server_id} has {guests[server_id]} guests' for server_id in found if guests[server_id] != 1]
        failures += [f'{guest} is a guest that nobody has' for guest in guests if guest not in found]
        self.result.servers = dict(collections.Counter(self._kept.values()))
        api_db.dispose()
        cell_db.dispose()
