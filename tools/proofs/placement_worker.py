"""One of the processes of tools/proofs/placement.py: an API, a conductor and a scheduler for themselves, and clients.

Everything is the product's own but the compute hosts: they do at once and without guests what a conductor asks of
them, so that the databases are all that the processes share.

Reads a JSON document from standard input and prints one with what became of the requests.
"""
import collections
import io
import json
import logging
import pathlib
import random
import sys
import threading
import time
import traceback
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from nova.runtime import concurrency

concurrency.setup('native')

import sqlalchemy as sa

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import policy
from nova import states
from nova.api import app
from nova.conductor import manager as conductor_manager
from nova.conductor.cell_services import CellServices
from nova.db import engine
from nova.db.cells import cells
from nova.db.moves import migrations as server_migrations
from nova.db.tables import cell as tables_cell
from nova.image.embedded.images import EmbeddedImages
from nova.image.embedded import service as embedded
from nova.network import api as network_api
from nova.objects import faults
from nova.rpc import serializer
from nova.scheduler import manager as scheduler_manager
from nova.volume import embedded as volumes

CONNECTIONS = {'pool_size': 4, 'max_overflow': 10}      # of each database: PostgreSQL has 100 for all processes
FULL = 0.99                                             # of the memory: servers are deleted only beyond
FAILING = 0.03                                          # of the builds
TURN_S = 1                                              # for which one group is everybody's
ROUNDS = 20                                             # of looking after what was interrupted, at the end
VERSION = 'compute 2.64'
# Permitted responses if another request was faster.
EXPECTED = {200, 202, 204, 400, 403, 404, 409}
OVERTAKEN = (exception.InstanceChanged, exception.InstanceNotFound, exception.MigrationNotFound,
             exception.InvalidMigrationState, exception.Conflict)


def configuration():
    return nova_conf.new(files=[], quota__instances=-1, quota__cores=-1, quota__ram=-1, quota__server_groups=-1,
                         report_interval=3600, service_down_time=86400, scheduler__max_attempts=4)


class Nothing:
    """A service whose answers do not matter."""

    def __getattr__(self, name):
        return lambda *args, **arguments: []


class Copied:
    """A client of a manager in this process: what travels is copied, as on a bus."""

    def __init__(self, manager):
        self._manager = manager

    def __getattr__(self, name):
        def call(ctx, server=None, **arguments):
            found = getattr(getattr(self._manager, 'methods', self._manager), name)(ctx, **_copy(arguments))
            return _copy(found)
        return call


def _copy(value):
    return serializer.from_primitive(serializer.to_primitive(value))


class Casts:
    """A client whose messages wait until ``deliver``: a request is answered before anything of it is done."""

    def __init__(self, manager, failed):
        self._manager, self._failed, self._waiting = manager, failed, threading.local()

    def __getattr__(self, name):
        def cast(ctx, server=None, **arguments):
            self._queue().append((name, ctx, server, _copy(arguments)))
        return cast

    def _queue(self):
        if not hasattr(self._waiting, 'queue'):
            self._waiting.queue = collections.deque()
        return self._waiting.queue

    def deliver(self):
        queue = self._queue()
        while queue:
            name, ctx, server, arguments = queue.popleft()
            more = {'server': server} if isinstance(self._manager, Computes) else {}
            try:
                getattr(self._manager, name)(ctx, **more, **arguments)
            except OVERTAKEN:
                pass
            except Exception:
                self._failed(f'{name}: {traceback.format_exc()}')


class Computes:
    """All compute hosts: each step is over when it is requested."""

    conductor = None

    def __init__(self, dice):
        self._dice = dice

    def build_instance(self, ctx, server, instance, spec):
        mine, building = {'host': [server]}, [states.SCHEDULING, states.NETWORKING, states.SPAWNING, None]
        self.conductor.begin_task(ctx, instance_uuid=instance.uuid, event='compute_build_instance', owner=server,
                                  deadline_s=600, values={'task_state': states.SPAWNING},
                                  expect={**mine, 'vm_state': [states.BUILDING], 'task_state': building})
        if self._dice.random() < FAILING:
            error = exception.VirtError(operation='build', reason='it is one of those that fail')
            self.conductor.reschedule_instance(ctx, instance_uuid=instance.uuid, host=server, node=instance.node,
                                               fault={**faults.fault(error), 'final': False})
            return
        self.conductor.end_task(ctx, instance_uuid=instance.uuid, event='compute_build_instance', host=server,
                                values={'vm_state': states.ACTIVE, 'task_state': None, 'power_state': states.RUNNING},
                                expect={**mine, 'task_state': [states.SPAWNING]})

    def terminate_instance(self, ctx, server, instance):
        self.conductor.instance_destroyed(ctx, instance_uuid=instance.uuid, host=server)

    def prep_resize(self, ctx, server, instance, migration):
        self.conductor.move_accepted(ctx, migration_id=migration.id, host=server)

    def resize_instance(self, ctx, server, instance, migration):
        self._begin(ctx, server, instance, 'compute_resize_instance', states.RESIZE_MIGRATING,
                    [states.RESIZE_PREP, states.RESIZE_MIGRATING])
        self.conductor.move_sent(ctx, migration_id=migration.id, host=server, guest={})

    def finish_resize(self, ctx, server, instance, migration, spec):
        self._begin(ctx, server, instance, 'compute_finish_resize', states.RESIZE_FINISH,
                    [states.RESIZE_MIGRATED, states.RESIZE_FINISH])
        self.conductor.move_finished(ctx, migration_id=migration.id, host=server, power_state=states.RUNNING,
                                     network_info=[])

    def confirm_resize(self, ctx, server, instance, migration):
        self.conductor.move_confirmed(ctx, migration_id=migration.id, host=server)

    def revert_resize(self, ctx, server, instance, migration):
        self.conductor.reverted_guest_removed(ctx, migration_id=migration.id, host=server)

    def finish_revert_resize(self, ctx, server, instance, migration):
        self.conductor.move_reverted(ctx, migration_id=migration.id, host=server, power_state=states.RUNNING,
                                     network_info=[])

    def discard_migrated_instance(self, ctx, server, instance):
        pass

    def _begin(self, ctx, server, instance, event, task_state, before):
        self.conductor.begin_task(ctx, instance_uuid=instance.uuid, event=event, owner=server, deadline_s=600,
                                  values={'task_state': task_state}, expect={'host': [server], 'task_state': before})


class Worker:
    """
    :param options: see placement.Proof.options
    """

    def __init__(self, options):
        self.options, self.dice = options, random.Random(options['seed'])
        self.counts, self.errors = collections.Counter(), []
        self.servers, self._lock, self._deleting = [], threading.Lock(), threading.Lock()
        conf = configuration()
        self.api_db = engine.Database(options['api'], **CONNECTIONS)
        self.cell_db = engine.Database(options['cell'], **CONNECTIONS)
        self.cells = cells.Cells(conf, self.api_db, db=self.cell_db, connect=lambda url: types.SimpleNamespace(
            conductor=self.conductor, compute=self.computes, network=Nothing()))
        images = EmbeddedImages(embedded.Store(self.api_db, options['images']))
        self.scheduler = scheduler_manager.SchedulerManager(conf, self.api_db, self.cells)
        self.scheduler.start()
        computes = Computes(self.dice)
        self.computes = Casts(computes, self.failed)
        self.manager = conductor_manager.ConductorManager(CellServices(
            conf=conf, api_db=self.api_db, cells=self.cells, scheduler=Copied(self.scheduler), compute=self.computes,
            network=Nothing(), images=images))
        computes.conductor = Copied(self.manager.methods)
        self.conductor = Casts(self.manager.methods, self.failed)
        self.application = app.Application(app.Services(
            conf=conf, api_db=self.api_db, cells=self.cells, policy=policy.Policy(conf), conductor=self.conductor,
            compute=self.computes, network=Nothing(), images=images, networks=network_api.API(self.api_db, conf),
            volumes=volumes.EmbeddedVolumes(conf, self.api_db, images)))

    def failed(self, text):
        self.errors.append(text[-3000:])

    # ---- a client ----

    def ask(self, method, path, body=None, project='admin'):
        """(code, document) of a request; what it begins is done before this returns."""
        data = b'' if body is None else json.dumps(body).encode()
        caller = context.RequestContext(user_id='u', project_id=project, roles=['admin', 'member', 'reader'],
                                        overwrite=False)
        caller.is_admin = True
        path, _, query = path.partition('?')
        started = []
        answer = b''.join(self.application({
            'REQUEST_METHOD': method, 'SCRIPT_NAME': '', 'PATH_INFO': '/v2.1' + path, 'QUERY_STRING': query,
            'wsgi.url_scheme': 'http', 'HTTP_HOST': 'proof', 'SERVER_NAME': 'proof', 'SERVER_PORT': '80',
            'wsgi.input': io.BytesIO(data), 'CONTENT_LENGTH': str(len(data)), 'CONTENT_TYPE': 'application/json',
            'HTTP_OPENSTACK_API_VERSION': VERSION, 'nova.context': caller},
            lambda status, headers: started.append(int(status[:3]))))
        code = started[0]
        self.count(f'{method} {code}')
        if code not in EXPECTED:
            self.failed(f'{method} {path}: {code} {answer[:1000]}')
        document = json.loads(answer) if answer else None
        if code == 202 and path == '/servers':
            self._know(project, document['reservation_id'])
        self.deliver()
        return code, document

    def deliver(self):
        for _ in range(50):                     # a message may send others, of both kinds
            self.conductor.deliver()
            self.computes.deliver()

    def count(self, what, number=1):
        with self._lock:
            self.counts[what] += number

    def _know(self, project, reservation):
        """Others may ask for these servers from now on: before they have a host."""
        table = tables_cell.instances
        with self.cell_db.reader() as conn:
            found = [(uuid, project) for uuid in conn.execute(sa.select(table.c.uuid).where(
                table.c.reservation_id == reservation)).scalars()]
        with self._lock:
            self.servers += found
        self.count('servers', len(found))

    def boot(self, dice, least=1, **chosen):
        project = chosen.get('project') or dice.choices(*zip(*self.options['projects'].items()))[0]
        group = None
        if dice.random() < chosen.get('grouped', 0.4):
            project, group = self._group_of_the_moment()
        body = {'server': {
            'name': 'proof', 'imageRef': self.options['image'], 'networks': 'none', 'min_count': least,
            'max_count': chosen.get('most', least), 'return_reservation_id': True,
            'flavorRef': chosen.get('flavor') or dice.choice(self.options['flavors'])}}
        if group is not None:
            body['os:scheduler_hints'] = {'group': group}
        code, _ = self.ask('POST', '/servers', body, project)
        self.count(f'boot {code}')

    def _group_of_the_moment(self):
        """(project, group) that the clients of all processes want servers in just now, so that they meet."""
        turn, groups = int(time.time() / TURN_S), self.options['groups']
        project = sorted(groups)[turn % len(groups)]
        return project, groups[project][turn // len(groups) % len(groups[project])]

    def some_server(self, dice, take=False):
        with self._lock:
            if not self.servers:
                return None
            numbers = [dice.randrange(len(self.servers)) for _ in range(6)]
            # those that filled the cloud are many: mostly one that came later, so that quotas have room again
            number = min(numbers, key=lambda number: self.servers[number][1] == self.options['filler'])
            if not take:
                return self.servers[number]
            self.servers[number], self.servers[-1] = self.servers[-1], self.servers[number]
            return self.servers.pop()

    def make_room(self, dice):
        """Delete a server, any of them, when the cloud is as full as it is to stay."""
        with self._deleting:                    # one at a time looks how full it is
            if self._fullness() >= FULL:
                self.remove(dice)

    def _fullness(self):
        c = tables_cell.compute_nodes.c
        with self.cell_db.reader() as conn:
            used, all_of_it = conn.execute(sa.select(
                sa.func.sum(c.memory_mb_used), sa.func.sum(c.memory_mb - c.reserved_memory_mb))).one()
        return float(used) / float(all_of_it)

    def remove(self, dice):
        found = self.some_server(dice, take=True)
        if found and self.ask('DELETE', f'/servers/{found[0]}', project=found[1])[0] == 409:
            with self._lock:
                self.servers.append(found)       # it is in the middle of something that does not allow it

    def act(self, dice, body):
        found = self.some_server(dice)
        if found:
            code, _ = self.ask('POST', f'/servers/{found[0]}/action', body, found[1])
            self.count(f'{next(iter(body))} {code}')

    def client(self, tickets, seed):
        dice = random.Random(seed)
        for _ in tickets:
            try:
                self.make_room(dice)
                self.boot(dice, least=dice.choice((1, 1, 1, 1, 1, 2, 3)))
                if dice.random() < self.options['resizing']:
                    self.act(dice, {'resize': {'flavorRef': dice.choice(self.options['flavors'])}})
                    self.act(dice, dice.choice(({'confirmResize': None}, {'revertResize': None})))
            except Exception:
                self.failed(traceback.format_exc())

    # ---- the work ----

    def prepare(self):
        """Groups, and servers until no host has room for one more: {'groups': their ids, 'placed': servers}."""
        groups = [self.ask('POST', '/os-server-groups', body, project)[1]['server_group']['id']
                  for project, body in self.options['bodies']]
        return {'groups': groups, 'placed': self._fill()}

    def _fill(self):
        least = self.options['flavors'][0]
        for size in (64, 8, 1):
            before = None
            while before != (now := self._placed()):
                before = now
                self.boot(self.dice, least=size, flavor=least, project=self.options['filler'], grouped=0)
        return now

    def _placed(self):
        table = tables_cell.instances
        with self.cell_db.reader() as conn:
            return conn.execute(sa.select(sa.func.count()).where(table.c.host.is_not(None))).scalar()

    def run(self):
        """All requests, by all threads; the servers that there are already are anybody's."""
        table = tables_cell.instances
        with self.cell_db.reader() as conn:
            everybody = sorted(tuple(row) for row in conn.execute(sa.select(table.c.uuid, table.c.project_id)))
        self.servers = everybody[self.options['number']::self.options['schedulers']]
        tickets = _shared(range(self.options['requests']))
        threads = [threading.Thread(target=self.client, args=(tickets, self.dice.random()))
                   for _ in range(self.options['threads'])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def settle(self):
        """Go on with what was interrupted by something faster, as recovery does; what is left then."""
        for _ in range(ROUNDS):
            left = self._open()
            if not left:
                break
            for row in left:
                self._go_on(row)
        return [f'{row["uuid"]} is {row["vm_state"]}, {row["task_state"]}' for row in self._open()]

    def _open(self):
        table = tables_cell.instances
        statement = sa.select(table.c.uuid, table.c.host, table.c.vm_state, table.c.task_state).where(
            table.c.task_state.is_not(None))
        with self.cell_db.reader() as conn:
            return conn.execute(statement).mappings().all()

    def _go_on(self, row):
        ctx, uuid, task_state = context.admin_context(), row['uuid'], row['task_state']
        if task_state == states.DELETING:
            self.conductor.delete_instance(ctx, instance_uuid=uuid)
        elif task_state.startswith('resize'):
            with self.cell_db.reader() as conn:
                moving = server_migrations.open_of(conn, uuid)
            if moving:
                self.conductor.continue_move(ctx, instance_uuid=uuid)
        elif row['host'] is None:
            self.conductor.build_instances(ctx, instance_uuids=[uuid])
        else:
            with self.cell_db.reader() as conn:
                instance = conn.execute(sa.select(tables_cell.instances).where(
                    tables_cell.instances.c.uuid == uuid)).mappings().first()
            if instance is not None:
                spec = self.manager.methods.get_request_spec(ctx, uuid)
                self.computes.build_instance(ctx, server=row['host'], spec=spec, instance=_object(instance))
        self.deliver()


def _object(row):
    from nova import objects
    return objects.Instance.from_row(dict(row))


def _shared(values):
    """An iterator that several threads may take from."""
    lock, found = threading.Lock(), iter(values)

    def take():
        with lock:
            return next(found, None)
    return iter(take, None)


def main():
    logging.disable(logging.WARNING)
    options = json.load(sys.stdin)
    worker = Worker(options)
    found = getattr(worker, options['work'])()
    worker.api_db.dispose()
    worker.cell_db.dispose()
    print(json.dumps({'found': found, 'counts': worker.counts, 'errors': worker.errors}))


if __name__ == '__main__':
    main()
