"""What tests share with nova/tests/functional/test_placement_explain.py."""
import sqlalchemy as sa

from nova import utils
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.scheduler import interface
from nova.scheduler import manager
from nova.tests import core
from nova.tests.functional import base
from nova.tests.functional import servers

PATH = '/os-scheduler/explain'


class Fixture(servers.Servers):
    """The API with hosts host1 to host4, and a scheduler that it calls."""

    def __init__(self, directory, **overrides):
        super().__init__(directory, **overrides)
        with self.cell_db.writer() as conn:
            for number in (2, 3, 4):
                self.add_host(conn, f'host{number}', f'node{number}')
        bus = core.Bus()
        self.scheduler = manager.SchedulerManager(self.conf, self.api_db, self.cells)
        bus.managers['scheduler', None] = self.scheduler
        self.services.scheduler = core.Client(bus, interface.INTERFACE)

    def change_host(self, host, **values):
        with self.cell_db.writer() as conn:
            conn.execute(sa.update(tables_cell.compute_nodes).where(
                tables_cell.compute_nodes.c.host == host).values(
                    change_number=utils.change_number(), usage_change_number=utils.change_number(), **values))

    def disable(self, host):
        with self.cell_db.writer() as conn:
            conn.execute(sa.update(tables_cell.services).where(tables_cell.services.c.host == host)
                         .values(disabled=True))
        self.change_host(host)

    def explain(self, body=None, query='', code=200, client=None, **more):
        answer = (client or self.admin(project=base.PROJECT)).post(PATH + query, body or self.body(), **more)
        assert answer.status == code, answer.body
        return answer.json['explanation'] if code == 200 else answer.fault

    def everything(self):
        """{table: its rows} of both databases, without the record of who has asked."""
        found = {}
        for database, metadata in ((self.api_db, tables_api.metadata), (self.cell_db, tables_cell.metadata)):
            with database.reader() as conn:
                for name, table in metadata.tables.items():
                    if name == 'audit_records':
                        continue
                    found[metadata is tables_api.metadata, name] = sorted(map(repr, conn.execute(sa.select(table))))
        return found

    def create(self, **values):
        """A server that waits for a host, and the spec that goes to the scheduler; (uuid, spec)."""
        answer = self.client().post('/servers', self.body(**values))
        assert answer.status == 202, answer.body
        return answer.json['server']['id'], self.conductor.sent[-1][2]['spec']
