#!/usr/bin/env python3
"""Breaks parts of the fleet of tools/cluster.sh while clients work; proves that nothing was lost, doubled or leaked.

usage: tools/faults.py [--only NAME ...] [--load 15] [--clients 8] [--servers 40] [--seed N] [--list]

For each fault: clients create, delete, stop, start, pause, reboot, rebuild and resize servers; after a third of the
load time the fault begins, and it ends when its own time is over; the clients go on to the end. Then everything
settles, and what clients were told is compared with the API, the databases and the hypervisors as in
tools/crash_test.py.

The table has for each fault: requests, those that were answered with 5xx or not at all, the longest time in which no
request succeeded, seconds until everything rested, and what differed. Exits with 1 and a line for each difference.
"""
import argparse
import contextlib
import http.client
import json
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from concurrent import futures

import crash_test
import sqlalchemy as sa
from cluster import parts
from cluster import prepare
from cluster import settings
from cluster.processes import Part

SETTLE_S = 180
REQUEST_S = 60
ACTIONS = {**{name: body for name, body in crash_test.ACTIONS.items() if name != 'createImage'}, 'resize': {},
           'confirmResize': None, 'revertResize': None}


class Fleet:
    """The compute API of the fleet, as tools/crash_test.py asks a cloud."""

    driver = 'fake'

    def __init__(self):
        self.settings = settings.load()
        if self.settings is None:
            raise SystemExit('There is no fleet here. Build one with: tools/cluster.sh up')
        self.parts = {part.name: part for part in parts.all_of(self.settings)}
        self.databases = {name: sa.create_engine(self.settings.database_url(name), pool_pre_ping=True)
                          for name in ('nova_api', 'nova_cell1')}
        self._local = threading.local()
        self._base = urllib.parse.urlsplit(settings.url('haproxy', '/v2.1'))
        self._lock, self._token = threading.Lock(), None

    def token(self, old=None):
        with self._lock:
            if self._token in (None, old):
                self._token = prepare.cloud(self.settings).session.get_token()
            return self._token

    def call(self, method, path, body=None, version='2.1'):
        """One request on this thread's connection; (status, body bytes). Raises OSError or HTTPException."""
        connection = getattr(self._local, 'connection', None)
        if connection is None:
            connection = http.client.HTTPConnection(self._base.hostname, self._base.port, timeout=REQUEST_S)
            self._local.connection = connection
        headers = {'X-Auth-Token': self.token(), 'OpenStack-API-Version': f'compute {version}',
                   'Content-Type': 'application/json'}
        try:
            connection.request(method, self._base.path + path, body and json.dumps(body), headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            self._local.connection = None
            raise

    def json(self, *arguments, **more):
        status, data = self.call(*arguments, **more)
        if status >= 400:
            raise RuntimeError(f'{arguments}: {status} {data[:400]!r}')
        return json.loads(data) if data else None

    def rows(self, database, statement):
        with self.databases[database].connect() as connection:
            return [dict(row) for row in connection.execute(sa.text(statement)).mappings()]

    def guests(self):
        """{host: {uuid: power state}} as the fake hypervisors have it."""
        files = (settings.DIRECTORY / 'nova').glob('compute*/fake/*.json')
        return {path.parent.parent.name: {uuid: guest['power_state']
                                          for uuid, guest in json.loads(path.read_text()).items()}
                for path in files}


class State(crash_test.State):
    """What is compared, read over the network: JSON columns come as text from either database."""

    def api(self, statement):
        return self.cloud.rows('nova_api', statement)

    def cell(self, statement):
        return self.cloud.rows('nova_cell1', statement)


class Client(crash_test.Client):
    """Goes on whatever the answer is; keeps the moments of success."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.successes, self.failures, self.requests = [], 0, 0

    def run(self, stop):
        while not stop.is_set():
            self.requests += 1
            try:
                self.request()
            except (OSError, http.client.HTTPException):
                self.failures += 1
                with self.history.lock:
                    self.history.counts['no answer'] += 1
                stop.wait(0.05)

    def count(self, what, status, data):
        with self.history.lock:
            self.history.counts[f'{what} {status}'] += 1
        if status >= 500:
            self.failures += 1
        else:
            self.successes.append(time.monotonic())

    def port(self):
        return None

    def create(self, room=1):
        self.number += 1
        body = {**self.body, 'name': f'fault-{threading.get_ident()}-{self.number}', 'networks': 'auto'}
        several = min(3, room) if self.rng.random() < 0.1 else 1
        status, data = self.cloud.call('POST', '/servers', {
            'server': {**body, 'min_count': several, 'max_count': several}}, version='2.37')
        if status == 202:
            with self.history.lock:
                self.history.created.add(json.loads(data)['server']['id'])
        self.count('create', status, data)

    def act(self, uuid):
        action = self.rng.choice(list(ACTIONS))
        arguments = {'rebuild': {'imageRef': self.body['imageRef']},
                     'resize': {'flavorRef': self.rng.choice(self.body_flavors)}}.get(action, ACTIONS[action])
        self.count(action, *self.cloud.call('POST', f'/servers/{uuid}/action', {action: arguments}))


# ---- faults: a function that breaks, waits and mends ----

def broken(names, begin, end, down_s):
    """``begin(part)`` and, so many seconds later, ``end(part)`` of these parts."""
    def fault(fleet):
        for name in names:
            begin(fleet.parts[name])
        time.sleep(down_s)
        for name in names:
            end(fleet.parts[name])
    return fault


def killed(*names, down_s=5):
    return broken(names, lambda part: part.signal(signal.SIGKILL), Part.start, down_s)


def stopped(*names, down_s=0):
    return broken(names, Part.stop, Part.start, down_s)


def frozen(*names, down_s=20):
    return broken(names, lambda part: part.signal(signal.SIGSTOP), lambda part: part.signal(signal.SIGCONT), down_s)


def cut_off(number, down_s=60):
    """The cable of a compute host is out."""
    def fault(fleet):
        device = f'novafl{number}'
        subprocess.run(['ip', 'link', 'set', device, 'down'], check=True)
        time.sleep(down_s)
        subprocess.run(['ip', 'link', 'set', device, 'up'], check=True)
    return fault


def queues_deleted(fleet):
    """Every queue of the daemons goes while they listen."""
    environment = {**fleet.parts['rabbitmq'].environment, 'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LANG': 'C.UTF-8'}
    control = [parts.program('rabbitmqctl'), '--node', environment['RABBITMQ_NODENAME'], '--quiet']
    names = subprocess.run([*control, 'list_queues', 'name'], env=environment, user='rabbitmq', group='rabbitmq',
                           check=True, capture_output=True, text=True).stdout.split()[1:]
    for name in names:
        if not name.startswith('reply_'):
            subprocess.run([*control, 'delete_queue', name], env=environment, user='rabbitmq', group='rabbitmq',
                           check=True, capture_output=True)


def database(fleet):
    return fleet.settings.database


FAULTS = {
    'none': lambda fleet: None,
    'one api killed': killed('api1'),
    'one api stopped in order': stopped('api1'),
    'one conductor killed': killed('conductor1'),
    'both conductors killed': killed('conductor1', 'conductor2'),
    'one scheduler killed': killed('scheduler1'),
    'both schedulers killed': killed('scheduler1', 'scheduler2'),
    'network killed': killed('network'),
    'one compute killed': killed('compute1'),
    'one compute stopped in order': stopped('compute1'),
    'all computes killed': lambda fleet: killed(*[name for name in fleet.parts if name.startswith('compute')])(fleet),
    'one conductor frozen': frozen('conductor1'),
    'broker restarted': stopped('rabbitmq'),
    'broker killed': killed('rabbitmq'),
    'broker away for 30 s': stopped('rabbitmq', down_s=30),
    'queues deleted': queues_deleted,
    'database restarted': lambda fleet: stopped(database(fleet))(fleet),
    'database killed': lambda fleet: killed(database(fleet), down_s=0)(fleet),
    'database away for 30 s': lambda fleet: stopped(database(fleet), down_s=30)(fleet),
    'memcached killed': killed('memcached'),
    'keystone away': killed('keystone', down_s=10),
    'load balancer restarted': stopped('haproxy'),
    'compute cut off for 60 s': cut_off(1),
}


# ---- a run ----

def hypervisors(state):
    """Guests against servers: each on its host and nowhere else."""
    homes = {}
    for host, guests in state.cloud.guests().items():
        for uuid, power_state in guests.items():
            homes.setdefault(uuid, []).append((host, power_state))
    for uuid, places in homes.items():
        row = state.instances.get(uuid)
        if len(places) > 1:
            yield f'server {uuid} has guests on {", ".join(host for host, _ in places)}'
        if row is None:
            yield f'{places[0][0]} has guest {uuid}, which is no server'
        elif row['host'] not in [host for host, _ in places]:
            yield f'guest {uuid} is on {places[0][0]}, its server on {row["host"]}'
    for uuid, row in state.instances.items():
        if uuid not in homes and row['vm_state'] != 'error':
            yield f'server {uuid} is {row["vm_state"]} and has no guest'


CHECKS = (crash_test.acknowledged, crash_test.records, crash_test.actions, crash_test.network, hypervisors)


def settled(fleet):
    """The servers when all rest; a resized one is confirmed first."""
    servers = crash_test.listed(fleet)
    busy = False
    for server in servers:
        if server['status'] == 'VERIFY_RESIZE' and not server['OS-EXT-STS:task_state']:
            fleet.call('POST', f'/servers/{server["id"]}/action', {'confirmResize': None})
        busy = busy or server['OS-EXT-STS:task_state'] or server['status'] not in crash_test.RESTING
    return None if busy else servers


def differences(fleet, history):
    """(seconds until all rested, sentences)."""
    begin, servers = time.monotonic(), None
    while time.monotonic() - begin < SETTLE_S:
        with contextlib.suppress(OSError, http.client.HTTPException, RuntimeError):
            servers = settled(fleet)
            if servers is not None:
                break
        time.sleep(0.3)
    rested, found = time.monotonic() - begin, []
    for _ in range(40):
        state = State(fleet, history, servers if servers is not None else crash_test.listed(fleet))
        found = [sentence for check in CHECKS for sentence in check(state)]
        if not found:
            break
        time.sleep(0.5)
        servers = settled(fleet)
    return rested, found


def longest_gap(begin, end, successes):
    moments = sorted([begin, *successes, end])
    return max(after - before for before, after in zip(moments, moments[1:], strict=False))


def run(fleet, name, fault, body, flavors, *, load_s, clients, servers, rng):
    """One fault under load; its row of the table and the differences."""
    history, stop = crash_test.History(), threading.Event()
    workers = [Client(fleet, body, history, servers, random.Random(rng.random())) for _ in range(clients)]
    for worker in workers:
        worker.body_flavors = flavors
    begin = time.monotonic()
    with futures.ThreadPoolExecutor(clients) as pool:
        jobs = [pool.submit(worker.run, stop) for worker in workers]
        time.sleep(load_s / 3)
        fault(fleet)
        time.sleep(load_s * 2 / 3)
        stop.set()
        for job in jobs:
            job.result()
    end = time.monotonic()
    rested, found = differences(fleet, history)
    successes = [moment for worker in workers for moment in worker.successes]
    requests, failures = sum(worker.requests for worker in workers), sum(worker.failures for worker in workers)
    row = (name, str(requests), str(failures), f'{longest_gap(begin, end, successes):.1f}', f'{rested:.1f}',
           str(len(found)))
    crash_test.clean(fleet)
    return row, found, history


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', nargs='+', choices=list(FAULTS), metavar='NAME', default=list(FAULTS))
    parser.add_argument('--load', type=float, default=15, help='seconds of load besides the fault itself')
    parser.add_argument('--clients', type=int, default=8)
    parser.add_argument('--servers', type=int, default=40, help='servers at once, about')
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(10 ** 6))
    parser.add_argument('--list', action='store_true', help='name the faults')
    asked = parser.parse_args()
    if asked.list:
        print('\n'.join(FAULTS))
        return 0
    sys.stdout.reconfigure(line_buffering=True)
    fleet, rng, failed = Fleet(), random.Random(asked.seed), []
    admin = prepare.cloud(fleet.settings)
    project = admin.current_project_id
    fleet.json('PUT', f'/os-quota-sets/{project}', {'quota_set': {'instances': -1, 'cores': -1, 'ram': -1}})
    flavors = [flavor.id for flavor in admin.compute.flavors() if flavor.name in ('m1.nano', 'm1.tiny')]
    body = {'flavorRef': flavors[0], 'imageRef': admin.image.find_image('small').id}
    print(f'seed {asked.seed}; {fleet.settings.database}, {fleet.settings.computes} computes, {asked.clients} clients')
    print(f'{"fault":<30}{"requests":>10}{"failed":>8}{"gap s":>8}{"rest s":>8}{"differ":>8}')
    for name in asked.only:
        row, found, history = run(fleet, name, FAULTS[name], body, flavors, load_s=asked.load, clients=asked.clients,
                                  servers=asked.servers, rng=rng)
        print(f'{row[0]:<30}{row[1]:>10}{row[2]:>8}{row[3]:>8}{row[4]:>8}{row[5]:>8}')
        for sentence in found:
            print('  ' + sentence)
        if found:
            print(f'  answers: {dict(sorted(history.counts.items()))}')
        failed += found
    return 1 if failed else 0


if __name__ == '__main__':
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    sys.exit(main())
