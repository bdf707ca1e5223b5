"""What tests share with nova/tests/functional/test_servers_cells.py."""
import sqlalchemy as sa

from nova import objects
from nova.db import engine
from nova.db.servers import request_specs
from nova.db.tables import api as tables_api
from nova.tests import schemas
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import servers

NAMES = ('default', 'second', 'third')
OTHER = 'c' * 32


class Cells(servers.Servers):
    """Three cells; ``dbs`` are their databases."""

    def __init__(self, directory, **overrides):
        super().__init__(directory, **{'api__cell_timeout': 60, **overrides})
        self.dbs = {'default': self.cell_db}
        for name in NAMES[1:]:
            self.dbs[name] = self._add_cell(name)
        self.services.cells.refresh()
        self.by_name = dict(zip(NAMES, self.services.cells.all()))

    def _add_cell(self, name):
        url = f'sqlite:///{self.directory}/{name}.sqlite'
        db = engine.Database(url)
        schemas.create(db, 'cell')
        with self.api_db.writer() as conn:
            conn.execute(sa.insert(tables_api.cells).values(
                uuid=name.ljust(36, '0'), name=name, database_url=url, transport_url='', disabled=False))
        return db

    def add(self, name, number, **values):
        """A server in a cell, with its mapping and its request spec; its uuid."""
        row = server_rows.row(number, **{'project_id': base.PROJECT, **values})
        with self.dbs[name].writer() as conn:
            server_rows.insert(conn, [row])
        self.map(name, row)
        return row['uuid']

    def map(self, name, row):
        spec = objects.RequestSpec(
            instance_uuid=row['uuid'], project_id=row['project_id'], user_id=row['user_id'], flavor=row['flavor'],
            image={'id': row['image_id'], 'properties': {}}, availability_zone=None, requested_networks=None,
            security_groups=[], injected_files=[], admin_password=None, block_devices=[],
            hints={'group': [server_rows.NETWORK_ID]}, force_host=None, force_node=None, requested_host=None,
            requested_node=None, retry_hosts=[], num_instances=1)
        with self.api_db.writer() as conn:
            conn.execute(sa.insert(tables_api.instance_mappings).values(
                instance_uuid=row['uuid'], cell_uuid=self.by_name[name].uuid, project_id=row['project_id'],
                user_id=row['user_id'], vcpus=1, memory_mb=1, created_at=row['created_at']))
            request_specs.insert(conn, [spec])

    def break_cell(self, name):
        self.by_name[name]._db = engine.Database(f'sqlite:////nowhere/{name}.sqlite')

    def close(self):
        for db in self.dbs.values():
            db.dispose()
        super().close()
