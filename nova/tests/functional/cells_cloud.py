"""A cloud of several cells in this process: each with its own database, bus, conductor, network service and hosts.

The level of the API has its own as well: cell0, a bus, a conductor and the scheduler, and no host. What a service knows
of the other cells it knows from the API database, as in a process of its own.
"""
import contextlib

import sqlalchemy as sa

from nova.cloud import assembly
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.tables import api as tables_api
from nova.rpc import bus as rpc_bus
from nova.rpc import inprocess
from nova.tests import schemas
from nova.tests.functional import cloud

CELLS = {'cell1': ('one1', 'one2'), 'cell2': ('two1', 'two2')}


class Part:
    """What the processes of one cell have in common.

    :param above: CellsCloud
    """

    def __init__(self, above, name, hosts):
        self.name, self.hosts = name, hosts
        self.db_url, self.bus_url = above.database_url(name), above.bus_url(name)
        self.db = engine.Database(self.db_url)
        schemas.migrate(self.db, 'cell')
        self.cells = db_cells.Cells(above.conf, above.api_db, self.db,
                                    lambda url: assembly.clients(above.conf, self.bus, url))

    def services(self, above):
        """conductor, network service and computes, not yet started."""
        conf = above.conf
        self.bus = rpc_bus.Bus(conf, self.bus_url)
        assembly.follow_versions(conf, self.bus, self.cells)
        self.conductor = assembly.conductor(conf, self.bus, f'{self.name}-control', above.api_db, self.cells,
                                           above.images)
        return [self.conductor, assembly.network(conf, self.bus, f'{self.name}-control', above.api_db, self.db),
                *(assembly.compute(conf, self.bus, host, above.images) for host in self.hosts)]

    def close(self):
        self.cells.close()
        if hasattr(self, 'bus'):
            self.bus.close()
        self.db.dispose()


class Cloud(cloud.Cloud):
    """
    :param layout: {name of a cell: names of its fake hosts}
    """

    def __init__(self, directory, layout=None, **overrides):
        self.directory, self.layout, self.below = directory, layout or CELLS, {}
        super().__init__(directory, **{'database__connection': self.database_url('cell0'), **overrides})
        self.hosts = []

    def database_url(self, name):
        return f'sqlite:///{self.directory}/{name}.sqlite'

    def bus_url(self, name):
        return f'{inprocess.SCHEME}:///{self.directory}/{name}'

    def _open(self):
        super()._open()
        own = f'{inprocess.SCHEME}:///{self.directory}'
        rows = [{'uuid': db_cells.CELL0_UUID, 'name': 'cell0', 'transport_url': own},
                *({'uuid': name.ljust(36, '0'), 'name': name, 'transport_url': self.bus_url(name)}
                  for name in self.layout)]
        with self.api_db.writer() as conn:
            known = set(conn.execute(sa.select(tables_api.cells.c.uuid)).scalars())
            for row in rows:
                if row['uuid'] not in known:
                    conn.execute(sa.insert(tables_api.cells).values(
                        disabled=False, database_url=self.database_url(row['name']), **row))
        self.below = {name: Part(self, name, hosts) for name, hosts in self.layout.items()}

    def _compose(self):
        super()._compose()
        # the level of the API has no network service
        self.services = [each for each in self.services if each.binary != 'nova-network']
        for part in self.below.values():
            self.services += part.services(self)

    def _take_over(self):
        super()._take_over()
        for part in self.below.values():
            part.conductor.manager.take_over()

    def stop(self, timeout=0):
        done = super().stop(timeout)
        for part in self.below.values():
            part.close()
        return done

    # ---- what tests do

    @property
    def conductor(self):
        """The manager of the API level's."""
        return self.services[0].manager

    @property
    def scheduler(self):
        return next(each for each in self.services if each.binary == 'nova-scheduler').manager

    def computes(self):
        """{host: its compute manager}."""
        return {each.host: each.manager for each in self.services if each.binary == 'nova-compute'}

    def databases(self):
        """{name of a cell: its Database}, cell0 first."""
        return {'cell0': self.cell_db, **{name: part.db for name, part in self.below.items()}}

    def conductors(self):
        return [self.conductor, *(part.conductor.manager for part in self.below.values())]

    def update_cell(self, name, **values):
        """As an administrator's command does it; everybody notices at once."""
        with self.api_db.writer() as conn:
            conn.execute(sa.update(tables_api.cells).where(tables_api.cells.c.name == name).values(**values))
        for known in (self.cells, *(part.cells for part in self.below.values())):
            known.refresh()

    @contextlib.contextmanager
    def down(self, name):
        """The database of a cell cannot be reached from the API level while this lasts."""
        cell = next(each for each in self.cells.all() if each.name == name)
        vars(cell).pop('rest', None)
        opened, cell._db = cell.db, engine.Database(f'sqlite:////nowhere/{name}.sqlite')
        try:
            yield
        finally:
            cell._db.dispose()
            cell._db = opened
            cell.rest = lambda seconds: None          # who asked while it was down may notice it only now
            cell._down_until = 0


def running(directory, layout=None, **overrides):
    """A started Cloud, stopped at the end."""
    return cloud.running(directory, layout, Cloud, **overrides)
