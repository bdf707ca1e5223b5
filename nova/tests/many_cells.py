"""A deployment of several cells as rows: cell0 and others with nodes, and processes that place servers in them."""
import types

import sqlalchemy as sa

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.conductor import manager as conductor_manager
from nova.conductor.cell_services import CellServices
from nova.db import engine
from nova.db.cells import cells
from nova.db.moves import cell_steps
from nova.db.placement import claims
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.scheduler import manager as scheduler_manager
from nova.tests import core
from nova.tests import schemas
from nova.tests import server_rows
from nova.tests.functional import cloud_rows

NAMES = ('cell0', 'cell1', 'cell2')


class Killed(BaseException):
    """The process is gone."""


class Life:
    """How many transactions a process may end before it dies; ``step(number)`` is called after each."""

    def __init__(self, most=None, step=None):
        self.most, self.step, self.number = most, step, 0

    def live(self):
        if self.most is not None and self.number >= self.most:
            raise Killed

    def spend(self):
        self.number += 1
        if self.step is not None:
            self.step(self.number)
        self.live()


class Mortal(engine.Database):
    """A database as a process sees it that may die between any two transactions."""

    def __init__(self, url, life):
        super().__init__(url, pool_size=1, max_overflow=20)
        self._life = life

    def run(self, *args, **kwargs):
        self._life.live()
        found = super().run(*args, **kwargs)
        self._life.spend()
        return found

    def reader(self):
        self._life.live()
        return super().reader()


class Process:
    """What one process has: the cells as it sees them from its own, and a manager of each kind.

    :param home: name of its cell
    """

    def __init__(self, deployment, home='cell0', life=None):
        self.deployment, self.life = deployment, life or Life()
        self.api_db = Mortal(deployment.url('api'), self.life)
        self.cells = cells.Cells(deployment.conf, self.api_db, Mortal(deployment.url(home), self.life), self._connect)
        for cell in self.cells.all()[1:]:
            cell._db = Mortal(cell.database_url, self.life)
        self.by_name = {cell.name: cell for cell in self.cells.all()}

    def _connect(self, url):
        return self.deployment.clients(url)

    def scheduler(self):
        made = scheduler_manager.SchedulerManager(self.deployment.conf, self.api_db, self.cells)
        made.start()
        return made

    def conductor(self):
        own = self.deployment.clients(self.cells.default.transport_url)
        return conductor_manager.ConductorManager(CellServices(
            conf=self.deployment.conf, api_db=self.api_db, cells=self.cells, scheduler=self.cells.top.rpc.scheduler,
            compute=own.compute, network=own.network, images=core.Images()))

    def close(self):
        for db in (self.api_db, *(cell.db for cell in self.cells.all())):
            db.dispose()


class Deployment:
    """cell0 without hosts, cell1 and cell2 with some.

    :param url_of: function(name) -> URL of a new, empty database; None: SQLite below the directory

    sent    [(name of the cell, topic, method, arguments)] of what was sent to services that are not there
    silent  names of cells whose broker takes nothing
    """

    def __init__(self, directory, hosts=2, url_of=None, **options):
        url_of = url_of or f'sqlite:///{directory}/{{}}.sqlite'.format
        self._urls = {name: url_of(name) for name in ('api', *NAMES)}
        self.conf = nova_conf.new(files=[], service_down_time=3600, **options)
        self.api_db = engine.Database(self.url('api'))
        schemas.create(self.api_db, 'api')
        self.dbs = {name: engine.Database(self.url(name)) for name in NAMES}
        self.uuids, self.sent, self.managers, self.silent = {}, [], {}, set()
        for number, (name, db) in enumerate(self.dbs.items()):
            schemas.create(db, 'cell')
            self.uuids[name] = cells.CELL0_UUID if name == 'cell0' else name.ljust(36, '0')
            with self.api_db.writer() as conn:
                conn.execute(sa.insert(tables_api.cells).values(
                    uuid=self.uuids[name], name=name, database_url=self.url(name), transport_url=f'test://{name}',
                    disabled=False))
            for host in range(hosts if number else 0):
                with db.writer() as conn:
                    cloud_rows.service(conn, f'{name}-host{host}')
                    cloud_rows.node(conn, f'{name}-host{host}', vcpus=64, memory_mb=65536, local_gb=1000, vcpus_used=0,
                                    memory_mb_used=0, local_gb_used=0, running_vms=0)
        self.ctx = context.RequestContext(user_id='u', project_id='p', overwrite=False)
        self._processes = []

    def url(self, name):
        return self._urls[name]

    def process(self, home='cell0', life=None):
        self._processes.append(Process(self, home, life))
        return self._processes[-1]

    def clients(self, url):
        """Clients of a cell's services: of the managers that are there, else what is sent is written down."""
        name = url.removeprefix('test://') or 'cell0'
        return types.SimpleNamespace(**{topic: _Client(self, name, topic) for topic in (
            'compute', 'conductor', 'network', 'scheduler')})

    def end_processes(self):
        for process in self._processes:
            process.close()
        self._processes.clear()

    def close(self):
        self.end_processes()
        for db in (self.api_db, *self.dbs.values()):
            db.dispose()

    # ---- what the API does

    def create(self, count=1, cell='cell0', **values):
        """Servers that wait for a host; their uuids."""
        values = {'project_id': 'p', 'user_id': 'u', 'vm_state': 'building', 'task_state': 'scheduling', 'host': None,
                  'node': None, 'availability_zone': None, 'launched_at': None, 'network_info': [], **values}
        rows = [server_rows.row(self._next(), **values) for _ in range(count)]
        uuids = [row['uuid'] for row in rows]
        with self.api_db.writer() as conn:
            for row in rows:
                conn.execute(sa.insert(tables_api.instance_mappings).values(
                    instance_uuid=row['uuid'], cell_uuid=self.uuids[cell], project_id='p', user_id='u', vcpus=1,
                    memory_mb=512, created_at=row['created_at'], server_group_id=row.get('server_group_id')))
            request_specs.insert(conn, [self.spec(row) for row in rows])
        with self.dbs[cell].writer() as conn:
            server_rows.insert(conn, rows)
            instance_actions.insert(conn, self.ctx, uuids, 'create', arguments={'admin_password': 'secret'})
        return uuids

    def _next(self):
        self._number = getattr(self, '_number', 0) + 1
        return self._number

    def spec(self, row, **values):
        group = row.get('server_group_id')
        return objects.RequestSpec(**{
            'instance_uuid': row['uuid'], 'project_id': 'p', 'user_id': 'u', 'flavor': row['flavor'],
            'image': {'id': row['image_id'], 'properties': {}}, 'availability_zone': None, 'requested_networks': None,
            'security_groups': [], 'injected_files': [], 'admin_password': None, 'block_devices': [],
            'hints': {'group': [group]} if group else {}, 'force_host': None, 'force_node': None,
            'requested_host': None, 'requested_node': None, 'retry_hosts': [], 'num_instances': 1, **values})

    def spec_of(self, uuid):
        with self.api_db.reader() as conn:
            return request_specs.get(conn, uuid)

    def resolve(self, uuid):
        """The name of the cell that a server's mapping names, None without one."""
        with self.api_db.reader() as conn:
            found = cell_steps.where(conn, [uuid]).get(uuid)
        return found and next(name for name, known in self.uuids.items() if known == found[0])

    # ---- what tests look at

    def cells_of(self, uuid):
        """{name of a cell: its row} of a server."""
        found = {}
        for name, db in self.dbs.items():
            with db.reader() as conn:
                found.update((name, row) for row in instances.get_many(conn, [uuid]).values())
        return found

    def actions(self, uuid, cell):
        with self.dbs[cell].reader() as conn:
            return sorted(row['action'] for row in instance_actions.by_instance(conn, uuid))

    def check(self):
        """What must hold when nothing is under way: every server in one cell, the mapped one, and nothing else claimed;
        {uuid: name of its cell}.
        """
        there, deleting = {}, set()
        for name, db in self.dbs.items():
            with db.reader() as conn:
                for row in conn.execute(sa.select(tables_cell.instances)).mappings():
                    assert row['uuid'] not in there, (there[row['uuid']], name)
                    assert row['cell_move'] is None
                    there[row['uuid']] = name
                    if row['task_state'] == states.DELETING:
                        deleting.add(row['uuid'])
                assert cell_steps.records(conn) == []
                actions = conn.execute(sa.select(tables_cell.instance_actions.c.instance_uuid)).scalars().all()
                assert {uuid for uuid in actions if there.get(uuid) != name} <= set(
                    conn.execute(sa.select(tables_cell.instances_history.c.uuid)).scalars())
            assert db.run(claims.audit) == []
        with self.api_db.reader() as conn:
            rows = conn.execute(sa.select(tables_api.instance_mappings)).mappings().all()
        assert {row['instance_uuid']: row['cell_uuid'] for row in rows} == {
            uuid: self.uuids[name] for uuid, name in there.items()}
        # an attempt that never got to mark its server is noticed when that is placed again
        assert all(row['move_id'] is None for row in rows if row['instance_uuid'] not in deleting)
        return there


class _Client:
    def __init__(self, deployment, cell, topic):
        self._deployment, self._cell, self._topic = deployment, cell, topic

    def __getattr__(self, name):
        def send(ctx, *, server=None, **arguments):
            if self._cell in self._deployment.silent:
                raise exception.ServiceUnavailable(service=self._topic)
            self._deployment.sent.append((self._cell, self._topic, name, {'server': server, **arguments}))
            manager = self._deployment.managers.get((self._cell, self._topic))
            return manager and getattr(getattr(manager, 'methods', manager), name)(ctx, **arguments)
        return send
