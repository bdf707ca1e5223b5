"""Load on a cloud: clients that record every call and response, and a comparison with the state of the cloud.

The responses are compared with the API, the databases, the broker and the hypervisors, as in tools/crash_test.py. The
comparison uses the network, so the parts may run on other machines. tools/faults.py breaks a fleet during the load.
Tests use the same clients and the same comparison on smaller deployments.
"""
import collections
import contextlib
import http.client
import json
import random
import re
import threading
import time
import urllib.parse
from concurrent import futures

import crash_test
import sqlalchemy as sa

SETTLE_S = 180               # seconds in which everything must have come to rest: the longest deadline of a task
MEND_S = 200                 # seconds more in which a difference may be mended by who looks for it
REQUEST_S = 60
ACTIONS = {**{name: body for name, body in crash_test.ACTIONS.items() if name != 'createImage'}, 'resize': {},
           'confirmResize': None, 'revertResize': None}

# servers of one kind of hosts: what a request for one says, the ids of flavors to resize to, servers at once at most
Kind = collections.namedtuple('Kind', 'body flavors most')
Call = collections.namedtuple('Call', 'begun ended what uuid status request_id')       # status None: no answer


class Cloud:
    """Addresses of a cloud for clients and for the comparison.

    :param url: of the compute API
    :param databases: {name: SQLAlchemy URL} of the API database ('api') and of the cells' databases
    """

    driver = 'fake'

    def __init__(self, url, databases):
        self._base = urllib.parse.urlsplit(url)
        self._engines = {name: sa.create_engine(address, pool_pre_ping=True) for name, address in databases.items()}
        self.cells = [name for name in databases if name != 'api']
        self._local = threading.local()

    def token(self):
        raise NotImplementedError

    def guests(self):
        """Return {host: {uuid: power state}} of the hypervisors."""
        raise NotImplementedError

    def queues(self):
        """Return {queue: number of waiting messages} of the broker."""
        return {}

    def call(self, method, path, body=None, version='2.1'):
        """Send a request on this thread's connection; return (status, body bytes). Raises OSError or HTTPException."""
        local = self._local
        if getattr(local, 'connection', None) is None:
            local.connection = http.client.HTTPConnection(self._base.hostname, self._base.port, timeout=REQUEST_S)
        local.request_id = None
        headers = {'X-Auth-Token': self.token(), 'OpenStack-API-Version': f'compute {version}',
                   'Content-Type': 'application/json'}
        try:
            local.connection.request(method, self._base.path + path, body and json.dumps(body), headers)
            reply = local.connection.getresponse()
            local.request_id = reply.getheader('X-OpenStack-Request-Id')
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            local.connection.close()
            local.connection = None
            raise

    @property
    def request_id(self):
        """Return the request id of the last response in this thread, or None."""
        return getattr(self._local, 'request_id', None)

    def json(self, *arguments, **more):
        status, data = self.call(*arguments, **more)
        if status >= 400:
            raise RuntimeError(f'{arguments}: {status} {data[:400]!r}')
        return json.loads(data) if data else None

    def rows(self, database, statement):
        with self._engines[database].connect() as connection:
            return [dict(row) for row in connection.execute(sa.text(statement)).mappings()]

    def close(self):
        for engine in self._engines.values():
            engine.dispose()


class History(crash_test.History):
    """Every call and answer.

    accepted    those of actions that were acknowledged: {(uuid, request id): action}
    kinds       {uuid: Kind} of acknowledged servers
    refused     uuids of those that ended in ERROR because every host of their kind was down, and others were up
    """

    def __init__(self):
        super().__init__()
        self.calls, self.accepted, self.kinds, self.refused = [], {}, {}, set()

    def dump(self, path):
        """Write the calls as lines of JSON documents."""
        with open(path, 'w') as file:
            file.writelines(json.dumps(call._asdict()) + '\n' for call in self.calls)


class Client(crash_test.Client):
    """Client that sends requests until it is stopped, regardless of the responses.

    :param body: of the server in a request for one; :param flavors: ids to resize to
    :param more: Kind rows of other servers, made as often as these while there is room
    """

    def __init__(self, cloud, body, flavors, history, servers, rng, more=()):
        super().__init__(cloud, body, history, servers, rng)
        self.kinds = [Kind(body, flavors, servers), *more]

    def run(self, stop):
        while not stop.is_set():
            begun = time.monotonic()
            self._asked = ('', None)
            try:
                self.request()
            except (OSError, http.client.HTTPException):
                self._write(begun, None)
                stop.wait(0.05)
            except RuntimeError:                 # no token: no service was called
                stop.wait(0.2)

    def _write(self, begun, status):
        what, uuid = self._asked
        request_id = self.cloud.request_id
        with self.history.lock:
            self.history.counts[f'{what} {status or "no answer"}'] += 1
            self.history.calls.append(Call(begun, time.monotonic(), what, uuid, status, request_id))
            if status == 202 and uuid:
                self.history.accepted[uuid, request_id] = what

    def ask(self, what, uuid, method, path, body=None, version='2.1'):
        self._asked, begun = (what, uuid), time.monotonic()
        status, data = self.cloud.call(method, path, body, version=version)
        if what == 'create' and status == 202:
            uuid = json.loads(data)['server']['id']
            self._asked = (what, uuid)
            with self.history.lock:
                self.history.created.add(uuid)
                self.history.kinds[uuid] = self._kind
        self._write(begun, status)
        return status

    def create(self, room=1):
        self.number += 1
        self._kind, room = self._choose(room)
        several = min(3, room) if self.rng.random() < 0.1 else 1
        body = {**self._kind.body, 'name': f'fault-{threading.get_ident()}-{self.number}', 'networks': 'auto',
                'min_count': several, 'max_count': several}
        self.ask('create', None, 'POST', '/servers', {'server': body}, version='2.37')

    def _choose(self, room):
        """Return (Kind of the next server, maximum number of its servers); the first kind always has room."""
        with self.history.lock:
            living = [kind for uuid, kind in self.history.kinds.items() if uuid not in self.history.delete_sent]
        rooms = [(kind, min(room, kind.most - living.count(kind))) for kind in self.kinds[1:]]
        return self.rng.choice([(self.kinds[0], room), *((kind, left) for kind, left in rooms if left > 0)])

    def delete(self, uuid):
        with self.history.lock:
            self.history.delete_sent.add(uuid)
        if self.ask('delete', uuid, 'DELETE', '/servers/' + uuid) in (204, 404):
            with self.history.lock:
                self.history.delete_acknowledged.add(uuid)

    def act(self, uuid):
        action, kind = self.rng.choice(list(ACTIONS)), self.history.kinds[uuid]
        arguments = {'rebuild': {'imageRef': kind.body['imageRef']},
                     'resize': {'flavorRef': self.rng.choice(kind.flavors)}}.get(action, ACTIONS[action])
        self.ask(action, uuid, 'POST', f'/servers/{uuid}/action', {action: arguments})


# ---- comparison ----

class State(crash_test.State):
    """State of the cloud, read over the network. JSON columns come as text from either database."""

    # no host is up that could be the server's: what is not down has another hypervisor
    refusal = re.compile(r"No valid host was found\. \d+ hosts: \d+ (is|are) down or disabled, \d+ (does|do) not "
                         r"satisfy the flavor's extra specs \(hypervisor_type\)\.")

    def api(self, statement):
        return self.cloud.rows('api', statement)

    def cell(self, statement):
        return [row for name in self.cloud.cells for row in self.cloud.rows(name, statement)]


def hypervisors(state):
    """Compare guests with servers: each must be on its host only, in the state that the API shows."""
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
        status = state.shown.get(uuid, {}).get('status')
        if status in crash_test.RESTING and places[0][1] not in crash_test.RESTING[status]:
            yield f'server {uuid} is {status}, its guest has power state {places[0][1]}'
    for uuid, row in state.instances.items():
        if uuid not in homes and row['vm_state'] != 'error':
            yield f'server {uuid} is {row["vm_state"]} and has no guest'


def promised(state):
    """Check that each acknowledged action on an existing server is in the record of actions."""
    recorded = {(row['instance_uuid'], row['request_id'])
                for row in state.cell('SELECT instance_uuid, request_id FROM instance_actions')}
    for (uuid, request_id), what in state.history.accepted.items():
        if uuid in state.instances and (uuid, request_id) not in recorded:
            yield f'{what} of {uuid} was acknowledged as {request_id} and is not recorded'


def quota(state):
    """Compare the quota usage of the project with its servers."""
    for project in {row['project_id'] for row in state.instances.values()}:
        usage = state.cloud.json('GET', f'/os-quota-sets/{project}/detail')['quota_set']
        own = [row for row in state.instances.values() if row['project_id'] == project]
        for name, total in (('instances', len(own)), ('cores', sum(row['vcpus'] for row in own)),
                            ('ram', sum(row['memory_mb'] for row in own))):
            if usage[name]['in_use'] != total:
                yield f'the quota counts {usage[name]["in_use"]} {name}, the servers have {total}'


def moves(state):
    """Check that no move is open, and that none holds a claim on a former host."""
    for row in state.cell('SELECT id, instance_uuid, status, claimed_host FROM migrations'):
        over = row['status'] in ('confirmed', 'reverted', 'error', 'completed', 'failed', 'cancelled', 'done')
        if not over and row['instance_uuid'] in state.instances or row['claimed_host']:
            yield (f'move {row["id"]} of {row["instance_uuid"]} is {row["status"]}, it holds a claim on '
                   f'{row["claimed_host"]}')


def broker(state):
    """Check that no queue has messages when the cloud is idle."""
    yield from (f'{count} messages wait in queue {name}' for name, count in state.cloud.queues().items() if count)


CHECKS = (crash_test.acknowledged, crash_test.records, crash_test.actions, crash_test.network, hypervisors, promised,
          quota, moves, broker)


def settled(cloud):
    """Return the servers when none has a task, else None. Resized servers are confirmed first."""
    servers = crash_test.listed(cloud)
    busy = False
    for server in servers:
        if server['status'] == 'VERIFY_RESIZE' and not server['OS-EXT-STS:task_state']:
            cloud.call('POST', f'/servers/{server["id"]}/action', {'confirmResize': None})
        busy = busy or server['OS-EXT-STS:task_state'] or server['status'] not in crash_test.RESTING
    return None if busy else servers


UNANSWERED = (OSError, http.client.HTTPException, RuntimeError, sa.exc.OperationalError)


def differences(cloud, history, checks=CHECKS):
    """Return (seconds until the cloud was idle, differences)."""
    begin, servers = time.monotonic(), None
    while servers is None and time.monotonic() - begin < SETTLE_S:
        with contextlib.suppress(*UNANSWERED):
            servers = settled(cloud)
        if servers is None:
            time.sleep(0.3)
    rested, found = time.monotonic() - begin, ['it could not be compared']
    while time.monotonic() - begin < rested + MEND_S:
        with contextlib.suppress(*UNANSWERED):
            state = State(cloud, history, settled(cloud) or crash_test.listed(cloud))
            found = [sentence for check in checks for sentence in check(state)]
            history.refused |= state.refused
        if not found:
            break
        time.sleep(0.5)
    return rested, found


# ---- a run ----

class Result:
    """Effects of a fault on the load.

    requests, failed    numbers of requests, and of those with a 5xx or without a response
    gap                 seconds of the longest time in which no request succeeded
    rested              seconds after the last request until everything rested
    found               differences, one sentence each
    """

    def __init__(self, history, begin, end, rested, found):
        self.history, self.rested, self.found = history, rested, found
        self.requests = len(history.calls)
        self.failed = sum(call.status is None or call.status >= 500 for call in history.calls)
        moments = sorted([begin, end, *(call.ended for call in history.calls if call.status and call.status < 500)])
        self.gap = max(after - before for before, after in zip(moments, moments[1:], strict=False))


def run(cloud, fault, body, flavors, *, load_s, clients=8, servers=40, rng=random, checks=CHECKS,
        more=()):
    """Run clients for ``load_s`` seconds, or longer if the fault takes longer; return a Result.

    The fault begins after a third of the time.

    :param fault: function without arguments; it may return sentences
    :param more: Kind rows of servers in addition to those of ``body``
    """
    history, stop = History(), threading.Event()
    workers = [Client(cloud, body, flavors, history, servers, random.Random(rng.random()), more)
               for _ in range(clients)]
    begin = time.monotonic()
    with futures.ThreadPoolExecutor(clients) as pool:
        jobs = [pool.submit(worker.run, stop) for worker in workers]
        try:
            time.sleep(load_s / 3)
            own = fault() or []
            time.sleep(load_s * 2 / 3)
        finally:
            stop.set()
        for job in jobs:
            job.result()
    end = time.monotonic()
    rested, found = differences(cloud, history, checks)
    return Result(history, begin, end, rested, [*own, *found])
