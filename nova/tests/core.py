"""A small cloud of conductor, scheduler and computes in one process, for tests below the API.

Messages go straight to the managers, copied as a real transport does, casts in threads. The network service is the
smallest that keeps the contract of network/interface.py: it counts what is allocated.
"""
import contextlib
import dataclasses
import datetime
import functools
import threading
import time
import types
import uuid as uuidlib

import sqlalchemy as sa

from nova import actions
from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.compute import interface as compute_interface
from nova.compute import manager as compute_manager
from nova.conductor import interface as conductor_interface
from nova.conductor import manager as conductor_manager
from nova.conductor.cell_services import CellServices
from nova.db import engine
from nova.db.cells import cells
from nova.db.placement import compute_nodes
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.servers import tasks
from nova.db.services import services
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.image import api as image_api
from nova.image import granted
from nova.network import authority as network_authority
from nova.network import interface as network_interface
from nova.rpc import serializer
from nova.runtime import concurrency
from nova.scheduler import interface as scheduler_interface
from nova.scheduler import manager as scheduler_manager
from nova.tests import schemas
from nova.tests.support import holding
from nova.tests.support import waiting
from nova.virt import driver as virt
from nova.virt import fake

IMAGE = {'id': '70a599e0-31e7-49b7-b260-868f441e862b', 'status': 'active', 'disk_format': 'raw',
         'container_format': 'bare', 'min_ram': 0, 'min_disk': 0, 'properties': {}}
FLAVOR = {'flavor_id': '1', 'name': 'tiny', 'memory_mb': 512, 'vcpus': 1, 'root_gb': 1, 'ephemeral_gb': 0, 'swap': 0,
          'extra_specs': {}}


# arguments that a caller may leave out
OPTIONAL = {'build_instances': {'spec'}}


class Client:
    """What rpc.Bus.client gives, without a transport between."""

    def __init__(self, bus, interface, host=None):
        self._bus, self._interface, self._host = bus, interface, host
        for row in interface.methods.values():
            setattr(self, row.name, self._sender(row))

    def _sender(self, row):
        def send(ctx, *, server=None, **arguments):
            missing = set(row.arguments) - set(arguments)
            assert set(arguments) <= set(row.arguments) and missing <= OPTIONAL.get(row.name, set()), (
                row.name, arguments)
            topic = self._interface.topic
            copied = serializer.from_primitive(serializer.to_primitive(arguments))
            sent = context.RequestContext.from_dict(ctx.to_dict(), overwrite=False)
            sent.sender_host, sent.observer = self._host, ctx.observer
            self._bus.messages.append(f'{topic}.{row.name}')
            if self._bus.lost and self._bus.lost(topic, row.name, server):
                if row.call:
                    raise exception.ServiceUnavailable(service=topic)
                return None
            manager = self._bus.managers.get((topic, server))
            if manager is None:
                raise exception.HostUnavailable(host=server)
            if row.call:
                try:
                    return serializer.from_primitive(serializer.to_primitive(self._bus.dispatch(
                        topic, manager, row.name, sent, copied)))
                finally:
                    if self._bus.reply_lost and self._bus.reply_lost(topic, row.name):
                        raise exception.ServiceUnavailable(service=topic)
            self._bus.cast(functools.partial(self._bus.dispatch, topic, manager, row.name), sent, copied)
        return send


class Bus:
    def __init__(self):
        self.managers, self.messages, self.lost, self.reply_lost = {}, [], None, None
        self._running, self._lock = 0, threading.Condition()
        self.admissions = {}         # {topic: rpc.admission.Admission}

    def dispatch(self, topic, manager, method, ctx, arguments):
        if topic in self.admissions:
            ctx = self.admissions[topic].admit(ctx, method, arguments)
        return getattr(getattr(manager, 'methods', manager), method)(ctx, **arguments)

    def cast(self, function, ctx, arguments):
        with self._lock:
            self._running += 1
        concurrency.spawn('cast', self._run, function, ctx, arguments)

    def _run(self, function, ctx, arguments):
        try:
            function(ctx, arguments)
        finally:
            with self._lock:
                self._running -= 1

    @property
    def idle(self):
        return self._running == 0


class Grave:
    """The bus of a process that was killed."""

    messages, reply_lost = [], None

    @staticmethod
    def lost(topic, method, server):
        raise exception.NovaException('This process is dead.')


class Network:
    """Addresses of servers: {uuid: (host, vifs)}."""

    def __init__(self):
        self.allocated, self.failure, self._lock = {}, None, threading.Lock()
        self.expected = set()        # (uuid, host): plumbing of a server that is about to come

    def allocate_for_instance(self, ctx, instance, requested_networks, security_groups, host):
        if self.failure:
            raise self.failure
        with self._lock:
            _, vifs = self.allocated.get(instance.uuid, (None, [{
                'id': str(uuidlib.uuid4()), 'address': 'fa:16:3e:00:00:01', 'type': 'bridge', 'devname': 'tap1',
                'active': True, 'tag': None,
                'network': {'id': 'n', 'label': 'private', 'bridge': 'br', 'mtu': 1500, 'subnets': [
                    {'id': 's', 'cidr': '10.0.0.0/8', 'version': 4, 'gateway': None, 'dns': [], 'routes': [],
                     'dhcp_server': None, 'ips': [{'address': '10.0.0.2', 'type': 'fixed', 'floating_ips': []}]}
                ]}}]))
            self.allocated[instance.uuid] = (host, vifs)
        return vifs

    def deallocate_for_instance(self, ctx, instance_uuid, host):
        with self._lock:
            if host in (None, '', self.allocated.get(instance_uuid, ('', []))[0]):
                self.allocated.pop(instance_uuid, None)
            self.expected = {(uuid, host) for uuid, host in self.expected if uuid != instance_uuid}

    def setup_for_instance(self, ctx, instance, host):
        with self._lock:
            self.expected.discard((instance.uuid, host))
            if instance.uuid not in self.allocated:
                return []
            vifs = self.allocated[instance.uuid][1]
            self.allocated[instance.uuid] = (host, vifs)       # the server is there now
        return vifs

    def unbind_ports(self, ctx, instance_uuid, host):
        with self._lock:
            now, vifs = self.allocated.get(instance_uuid, (None, []))
            if now == host:
                self.allocated[instance_uuid] = ('', vifs)

    def prepare_for_instance(self, ctx, instance, host):
        with self._lock:
            self.expected.add((instance.uuid, host))
        return self.network_info(ctx, instance.uuid)

    def unprepare_for_instance(self, ctx, instance_uuid, host):
        with self._lock:
            self.expected.discard((instance_uuid, host))

    def network_info(self, ctx, instance_uuid):
        return self.allocated.get(instance_uuid, (None, []))[1]

    def refresh_ports(self, ctx, port_ids):
        pass


class Images(image_api.Images):
    """Images that were made from servers: {id: bytes}. Those that a rotation has listed are backups of its server."""

    def __init__(self):
        self.data, self.failure = {}, None
        self.unfinished = set()      # without data, or with a part of it
        self.backups_of = None

    def show(self, ctx, image_id):
        properties = {'image_type': 'backup', 'instance_uuid': self.backups_of} if image_id in self.data else {}
        return {**IMAGE, 'id': image_id, 'owner': 'p', 'status': 'queued' if image_id in self.unfinished else 'active',
                'properties': {**IMAGE['properties'], **properties}}

    def upload(self, ctx, image_id, path, disk_format, container_format=None, moved=None, give=False):
        if self.failure:
            raise self.failure
        with open(path, 'rb') as file:
            self.data[image_id] = file.read()
        self.unfinished.discard(image_id)

    def list(self, ctx, filters=None, limit=None, marker=None, sort=None):
        """All that have data, the newest first, on one page."""
        self.backups_of = filters['instance_uuid']
        return [] if marker else [{'id': image_id} for image_id in reversed(self.data)]

    def delete(self, ctx, image_id):
        self.data.pop(image_id, None)
        self.unfinished.discard(image_id)


class Source:
    """The images of one compute: others, once it is killed."""

    def __init__(self, images):
        self.images = images

    def __getattr__(self, name):
        return getattr(self.images, name)


class Cloud:
    """
    :param path: directory for databases and guests
    :param hosts: names of compute hosts
    :param url: of the cell's database; SQLite below the path by default
    """

    def __init__(self, path, hosts=('host1',), url=None, **options):
        self.path = path
        options = {'reserved_host_memory_mb': 0, 'fake__state_dir': str(path / 'guests'), 'state_path': str(path),
                   **options}
        self.conf = nova_conf.new(files=[], **options)
        self.api_db = engine.Database(f'sqlite:///{path}/api.sqlite')
        self.db = engine.Database(url or f'sqlite:///{path}/cell.sqlite', max_overflow=100)
        schemas.create(self.api_db, 'api')
        schemas.create(self.db, 'cell')
        self.cells = cells.Cells(self.conf, self.api_db, self.db, lambda url: types.SimpleNamespace(**self.client))
        self.bus, self.network, self.images = Bus(), Network(), Images()
        client = {each.topic: Client(self.bus, each) for each in (
            compute_interface.INTERFACE, conductor_interface.INTERFACE, network_interface.INTERFACE,
            scheduler_interface.INTERFACE)}
        self.client = client
        self.scheduler = scheduler_manager.SchedulerManager(self.conf, self.api_db, self.cells)
        self.bus.managers.update({('scheduler', None): self.scheduler, ('network', None): self.network})
        self.bus.admissions['network'] = network_authority.admission_of(self.db)
        self.services = CellServices(
            conf=self.conf, api_db=self.api_db, cells=self.cells, scheduler=client['scheduler'],
            compute=client['compute'], network=client['network'], images=self.images)
        self.new_conductor()
        self.computes, self.killed, self.image_sources = {}, [], {}
        for host in hosts:
            self.start_compute(host)
        self.new_request()

    def new_request(self):
        """Another request of the same user."""
        self.ctx = context.RequestContext(user_id='u', project_id='p', overwrite=False)

    def new_conductor(self, **services):
        """A new conductor process in the place of the one before.

        :param services: fields of CellServices that it, and those after it, have instead of the usual ones
        """
        self.services = dataclasses.replace(self.services, **services)
        self.conductor = conductor_manager.ConductorManager(self.services)
        self.bus.managers['conductor', None] = self.conductor
        self.bus.admissions['conductor'] = self.conductor.admission()
        return self.conductor

    def start_compute(self, host, prepare=None):
        """A new compute process of this host; ``prepare(driver)`` before it starts."""
        source = self.image_sources[host] = Source(self.images)
        images = granted.GrantedImages(source)
        driver = fake.FakeDriver(self.conf, host, images)
        if prepare:
            prepare(driver)
        compute = compute_manager.ComputeManager(
            self.conf, host, driver, Client(self.bus, conductor_interface.INTERFACE, host),
            Client(self.bus, network_interface.INTERFACE, host), images)
        self.heartbeat(host)
        self.bus.managers['compute', host] = self.computes[host] = compute
        compute.start()
        return compute

    def restart_scheduler(self):
        """A new scheduler process, whose table of hosts is its own."""
        self.scheduler = scheduler_manager.SchedulerManager(self.conf, self.api_db, self.cells)
        self.bus.managers['scheduler', None] = self.scheduler

    def force_down(self, *hosts, down=True):
        """As an administrator does it; the scheduler sees it at its next look."""
        with self.db.reader() as conn:
            known = {row['host']: row['id'] for row in services.list(conn, topic='compute')}
        for host in hosts:
            self.db.run(services.update, known[host], {'forced_down': down})

    def heartbeat(self, host):
        self.conductor.methods.report_service(None, host=host, binary='nova-compute', topic='compute', version=1)

    def kill_compute(self, host):
        """The process is gone: nothing that it still does reaches anybody, or its guests' file."""
        compute = self.computes.pop(host)
        del self.bus.managers['compute', host]
        machine = compute.driver.machine
        machine.guests_file = machine.kept_file = machine.incoming_file = None
        compute.driver.features[virt.LiveMigration].disconnect()
        self.image_sources.pop(host).images = Images()
        compute.host.conductor.client._bus = compute.host.network.client._bus = Grave()
        compute.power_states.stop()
        self.killed.append(compute)

    def restarted(self, host):
        """Start a host's compute again; uuids of the guests that its driver has before that."""
        found = []

        def look(driver):
            driver.init_host()
            found.extend(driver.guests())
        self.start_compute(host, look)
        return found

    def pass_time(self):
        """The deadline of whatever is open has passed."""
        table = tables_cell.instance_actions
        with self.db.writer() as conn:
            conn.execute(sa.update(table).where(table.c.finished_at.is_(None)).values(
                deadline=utils.utcnow() - datetime.timedelta(seconds=1)))

    def kill_in(self, host, operation, act):
        """Kill a host's compute while its driver is in this operation, which ``act()`` brings about; its result."""
        with holding.held(operation, self.computes[host].driver.machine) as (begun, _goes_on):
            made = act()
            assert begun.wait(60), f'nobody does {operation}'
            self.kill_compute(host)
        return made

    def close(self):
        """Stop all, and wait for the threads of what was killed: no one of them outlives its test.

        CPython 3.11 parses source where it prints a traceback, and its parser fails (SystemError) when another thread
        parses at that moment: a thread that logged its death disturbed what pytest imports at its end.
        """
        for compute in self.killed:
            compute.queue.stop(20)
        for compute in self.computes.values():
            compute.stop()
        self.api_db.dispose()
        self.db.dispose()

    # ---- what the API does ----

    def insert(self, count=1, flavor=None, **spec):
        """Rows of new servers, as POST /servers leaves them; their uuids."""
        self.new_request()
        flavor = {**FLAVOR, **(flavor or {})}
        uuids = [str(uuidlib.uuid4()) for _ in range(count)]
        now = utils.utcnow()
        with self.api_db.writer() as conn:
            conn.execute(sa.insert(tables_api.instance_mappings), [dict(
                instance_uuid=uuid, cell_uuid=self.cells.default.uuid, project_id='p', user_id='u',
                vcpus=flavor['vcpus'], memory_mb=flavor['memory_mb'], created_at=now) for uuid in uuids])
            request_specs.insert(conn, [objects.RequestSpec(**{
                'instance_uuid': uuid, 'project_id': 'p', 'user_id': 'u', 'flavor': flavor, 'image': IMAGE,
                'availability_zone': None, 'requested_networks': None, 'security_groups': ['default'],
                'injected_files': [], 'admin_password': None, 'block_devices': [], 'hints': {},
                'force_host': None, 'force_node': None, 'requested_host': None, 'requested_node': None,
                'retry_hosts': [], 'num_instances': count, **spec}) for uuid in uuids])
        with self.db.writer() as conn:
            instances.insert(conn, [dict(
                uuid=uuid, project_id='p', user_id='u', vm_state=states.BUILDING, task_state=states.SCHEDULING,
                display_name='vm', hostname='vm', reservation_id='r-1', metadata={}, flavor_id='1', flavor=flavor,
                vcpus=flavor['vcpus'], memory_mb=flavor['memory_mb'], root_gb=flavor['root_gb'],
                ephemeral_gb=flavor['ephemeral_gb'], image_properties={}, network_info=[], security_groups=[],
                volumes=[], system_metadata={}, image_id=IMAGE['id']) for uuid in uuids])
            instance_actions.insert(conn, self.ctx, uuids, 'create',
                                    deadline_s=self.conf.conductor.task_deadline)
        return uuids

    def create(self, count=1, flavor=None, **spec):
        uuids = self.insert(count, flavor, **spec)
        self.client['conductor'].build_instances(self.ctx, instance_uuids=uuids)
        return uuids

    def boot(self, **spec):
        """One server, ACTIVE."""
        uuid, = self.create(**spec)
        self.settle()
        assert self.row(uuid)['vm_state'] == states.ACTIVE, self.row(uuid)['fault']
        return uuid

    def act(self, uuid, name, values=None, admin=False, **arguments):
        """An action as the API does it: begin, then cast to the host."""
        self.new_request()
        action = actions.ACTIONS[name]
        stored = {key: value for key, value in arguments.items() if key != 'spec'}
        row = self.db.run(tasks.begin, self.ctx, uuid, action, arguments=stored, values=values, admin=admin)
        if action.calls.conductor:
            getattr(self.client['conductor'], action.calls.conductor)(self.ctx, instance_uuid=uuid)
        elif name == 'delete' and row['host'] is None:
            self.client['conductor'].delete_instance(self.ctx, instance_uuid=uuid)
        else:
            with contextlib.suppress(exception.HostUnavailable):
                getattr(self.client['compute'], action.calls.method)(
                    self.ctx, server=row['host'], instance=objects.Instance.from_row(row), **arguments)
        return row

    def delete(self, uuid):
        return self.act(uuid, 'delete')

    # ---- what tests look at ----

    def settle(self, timeout=30):
        """Wait until nothing is under way."""
        limit = waiting.Limit(timeout)
        quiet = 0
        while quiet < 3:
            idle = self.bus.idle and all(not each.queue.in_progress() for each in self.computes.values())
            quiet = quiet + 1 if idle else 0
            assert not limit.is_over(), 'the cloud does not come to rest'
            time.sleep(0.005)

    def row(self, uuid):
        with self.db.reader() as conn:
            return instances.get(conn, uuid)

    def gone(self, uuid):
        with self.db.reader() as conn:
            return not instances.existing(conn, [uuid])

    def actions(self, uuid):
        """[(action, message, [results])], oldest first."""
        with self.db.reader() as conn:
            return [(row['action'], row['message'], row['finished_at'] is not None,
                     [(event['event'], event['result']) for event in instance_actions.events(conn, row['id'])])
                    for row in reversed(instance_actions.by_instance(conn, uuid))]

    def guests(self):
        return {uuid: host for host, compute in self.computes.items() for uuid in compute.driver.guests()}

    def node(self, host='host1'):
        with self.db.reader() as conn:
            return compute_nodes.by_host(conn, host)[0]

    def check(self):
        """What must hold whenever nothing is under way: rows, claims, guests and addresses agree."""
        assert self.conductor.claim_check.audit() == []
        with self.db.reader() as conn:
            rows = [dict(row) for row in conn.execute(sa.select(tables_cell.instances)).mappings()]
            for node in conn.execute(sa.select(tables_cell.compute_nodes)).mappings():
                assert node['vcpus_used'] <= node['vcpus'] * node['cpu_allocation_ratio']
                assert node['memory_mb_used'] <= node['memory_mb'] * node['ram_allocation_ratio']
                assert node['local_gb_used'] <= node['local_gb'] * node['disk_allocation_ratio']
        living = {row['uuid']: row['host'] for row in rows if row['host']}
        assert self.guests() == living
        offloaded = {row['uuid']: '' for row in rows if row['vm_state'] == states.SHELVED_OFFLOADED}
        assert {uuid: host for uuid, (host, _) in self.network.allocated.items()} == {**offloaded, **living}
        with self.api_db.reader() as conn:
            mapped = set(conn.execute(sa.select(tables_api.instance_mappings.c.instance_uuid)).scalars())
            specs = set(conn.execute(sa.select(tables_api.request_specs.c.instance_uuid)).scalars())
        assert mapped == specs == {row['uuid'] for row in rows}
        assert all(row['task_state'] is None for row in rows)
