"""A cloud of one cell that becomes one of three while it runs: doc/source/admin/cells.rst, in its order."""
import copy
import threading
import time
import types

import pytest

from nova import exception
from nova.cloud import assembly
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.cells import rows as cell_rows
from nova.rpc import bus as rpc_bus
from nova.rpc import inprocess
from nova.runtime import wsgi
from nova.tests import schemas
from nova.tests.functional import cells_cloud
from nova.tests.functional import cloud
from nova.tests.support import cells_cloud as test_cells_cloud

HOSTS = ('one1', 'one2')


def url(directory, name):
    return f'sqlite:///{directory}/{name}.sqlite'


def broker(directory, name=''):
    return f'{inprocess.SCHEME}:///{directory}' + (name and f'/{name}')


class Growing:
    """
    :param old: the Cloud of one cell, whose processes run on
    """

    def __init__(self, old, directory):
        self.old, self.directory, self.parts, self.more = old, directory, [], []
        self.api_db, self.conf = old.api_db, old.conf
        self.cell_dbs = {'cell1': old.cell_db}

    def cells(self, db, bus):
        """What a process knows of the cells that is at home in this one."""
        made = db_cells.Cells(self.conf, self.api_db, db, lambda url: assembly.clients(self.conf, bus, url))
        self.more.append(made.close)
        return made

    def start(self, *services):
        for service in services:
            service.start()
            self.more.insert(0, lambda stop=service.stop: stop(5))

    # ---- the steps

    def name_the_first(self):
        with self.api_db.writer() as conn:
            row, = cell_rows.list(conn)
            assert (row['database_url'], row['transport_url']) == ('', '')
            cell_rows.update(conn, row['uuid'], {'database_url': url(self.directory, 'cell1'),
                                                 'transport_url': broker(self.directory)})

    def map_cell0(self):
        self.cell_dbs['cell0'] = engine.Database(url(self.directory, 'cell0'))
        schemas.migrate(self.cell_dbs['cell0'], 'cell')
        self.add('cell0', db_cells.CELL0_UUID, broker(self.directory, 'top'))

    def add(self, name, uuid, transport):
        with self.api_db.writer() as conn:
            cell_rows.insert(conn, {'uuid': uuid, 'name': name, 'database_url': url(self.directory, name),
                                    'transport_url': transport, 'disabled': False})

    def start_the_level_above(self):
        """Its own broker, conductor, scheduler and API, whose address is returned."""
        self.bus = rpc_bus.Bus(self.conf, broker(self.directory, 'top'))
        self.top = self.cells(self.cell_dbs['cell0'], self.bus)
        self.conductor = assembly.conductor(self.conf, self.bus, 'top', self.api_db, self.top, self.old.images)
        self.scheduler = assembly.scheduler(self.conf, self.bus, 'top', self.api_db, self.top)
        self.start(self.conductor, self.scheduler)
        process = copy.copy(self.old)
        process.bus, process.cells = self.bus, self.top
        http = wsgi.Server(process._application(), '127.0.0.1', 0, threads=8)
        http.listen()
        self.start(http)
        return f'http://127.0.0.1:{http.port}'

    def restart_the_first(self):
        """Its conductor again, which gets to know of cell0; a scheduler of its own it has no longer."""
        new = assembly.conductor(self.conf, self.old.bus, 'again', self.api_db,
                                self.cells(self.old.cell_db, self.old.bus), self.old.images)
        self.start(new)
        for service in self.old.services[:2]:
            assert service.binary in ('nova-conductor', 'nova-scheduler')
            service.stop(5)
        return new

    def add_a_cell(self, name, *hosts):
        self.add(name, name.ljust(36, '0'), broker(self.directory, name))
        above = types.SimpleNamespace(
            conf=self.conf, api_db=self.api_db, images=self.old.images,
            database_url=lambda name: url(self.directory, name), bus_url=lambda name: broker(self.directory, name))
        part = cells_cloud.Part(above, name, hosts)
        self.cell_dbs[name] = part.db
        self.parts.append(part)
        self.start(*part.services(above))
        self.more.append(part.close)
        return part

    def close(self):
        for end in self.more:
            end()
        self.bus.close()
        self.cell_dbs['cell0'].dispose()


class Watching(threading.Thread):
    """A user who lists and shows servers that are there, all the time; ``wrong`` is what was not as it should be."""

    def __init__(self, clients, uuids):
        super().__init__(daemon=True)
        self.clients, self.uuids, self.wrong, self.looks = clients, set(uuids), [], 0
        self.ended = threading.Event()

    def run(self):
        while not self.ended.is_set():
            for client in list(self.clients):
                listed = client.get('/servers/detail')
                names = {server['id']: server['status'] for server in listed.json().get('servers', ())}
                if {names.get(uuid) for uuid in list(self.uuids)} != {'ACTIVE'}:
                    self.wrong.append((listed.status_code, names))
                for uuid in list(self.uuids):
                    shown = client.get(f'/servers/{uuid}')
                    if (shown.status_code != 200 or shown.json()['server']['status'] != 'ACTIVE') and (
                            uuid in self.uuids):             # it was not given up before it was asked for
                        self.wrong.append(shown.text)
                self.looks += 1
            time.sleep(0.05)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_error):
        self.ended.set()
        self.join(30)


@pytest.fixture
def old(tmp_path):
    made = cloud.Cloud(tmp_path, HOSTS, database__connection=url(tmp_path, 'cell1'), quota__instances=-1)
    made.start()
    yield made
    made.stop(5)


@pytest.fixture
def growing(old, tmp_path):
    made = Growing(old, tmp_path)
    yield made
    made.close()


def refresh(*known):
    """A minute later."""
    for cells in known:
        cells.refresh()


def test_a_cloud_grows_from_one_cell_to_three(old, growing):
    user = old.client()
    image = user.upload_image(data=b'\0' * 4096)

    def boot(client, count=1):
        made = [client.boot(image)['id'] for _ in range(count)]
        return [client.wait_for(uuid)['id'] for uuid in made]
    first = boot(user, 3)
    with Watching([user], first) as watching:
        growing.name_the_first()
        refresh(old.cells)
        boot(user)
        growing.map_cell0()
        boot(user)
        refresh(old.cells)
        boot(user)
        above = copy.copy(user)
        above.url = growing.start_the_level_above()
        watching.clients.append(above)
        # two levels side by side, as between the restarts: each makes servers, each shows all
        made = boot(user) + boot(above)
        for uuid in made:
            assert user.get(f'/servers/{uuid}').status_code == above.get(f'/servers/{uuid}').status_code == 200
        conductor = growing.restart_the_first()
        boot(above, 2)
        growing.add_a_cell('cell2', 'two1', 'two2')
        boot(above)
        refresh(growing.top, conductor.manager.services.cells)
        growing.scheduler.manager.table.synchronize()
        made = boot(above, 4)
        # an API that has not noticed the third cell finds what is in it all the same
        assert len(old.cells._known) == 2 and {
            user.get(f'/servers/{uuid}').status_code for uuid in made} == {200}
        for compute in (each.manager for each in old.services if each.binary == 'nova-compute'):
            compute.driver.failures['spawn'] = exception.VirtError(operation='spawn', reason='no')
        boot(above, 2)                               # who fails in the first cell goes on in the others
        for uuid in first[:1]:
            for body, status in (({'os-stop': None}, 'SHUTOFF'), ({'os-start': None}, 'ACTIVE')):
                watching.uuids.discard(uuid)
                test_cells_cloud.act(above, uuid, body)
                above.wait_for(uuid, status)
    assert watching.wrong == [] and watching.looks > 10
    managers = [growing.conductor.manager, conductor.manager, *(part.conductor.manager for part in growing.parts)]
    for manager in managers:
        assert manager.lost_mappings.remove_lost_mappings(0) == 0 and manager.claim_check.audit() == []
        assert manager.reconciler.settle_cell_moves() == 0
    listed = above.get('/servers').json()['servers']
    there = places(growing)
    assert {server['id'] for server in listed} == there.keys() and set(there.values()) == {'cell1', 'cell2'}
    for uuid in there:
        test_cells_cloud.gone(above, uuid)
    assert places(growing) == {}
    assert above.get('/limits').json()['limits']['absolute']['totalInstancesUsed'] == 0


def places(growing):
    running = types.SimpleNamespace(databases=lambda: growing.cell_dbs, cells=growing.top, api_db=growing.api_db)
    return {uuid: name for uuid, (name, _host) in test_cells_cloud.places(running).items()}
