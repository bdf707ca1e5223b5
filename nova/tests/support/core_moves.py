"""What tests share with nova/tests/functional/test_core_moves.py."""
import pytest
import sqlalchemy as sa

from nova import actions
from nova.db.moves import migrations as server_migrations
from nova.db.projects import quotas
from nova.db.servers import tasks
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import core
from nova.virt import driver as virt

HOSTS = ('host1', 'host2', 'host3')
BIG = {**core.FLAVOR, 'flavor_id': '2', 'name': 'big', 'memory_mb': 1024, 'vcpus': 2, 'root_gb': 2}


class Cloud(core.Cloud):
    """With what the API does to begin a move, its confirmation and its revert."""

    def move(self, uuid, flavor=None, send=True, **arguments):
        self.new_request()
        action = actions.ACTIONS['resize' if flavor else 'migrate']
        kind = server_migrations.RESIZE if flavor else server_migrations.MIGRATION

        def begin(conn):
            row = tasks.begin(conn, self.ctx, uuid, action)
            return server_migrations.create(
                conn, self.ctx, row, kind, 'pre-migrating', new_flavor=flavor,
                arguments={'old_vm_state': row['vm_state'], 'ignored_hosts': [row['host']], **arguments})['id']
        if flavor:
            limits = {'instances': -1, 'cores': -1, 'ram': -1}
            self.api_db.run(quotas.check_and_grow, limits, 'p', uuid, flavor['vcpus'], flavor['memory_mb'])
        number = self.db.run(begin)
        if send:
            self.client['conductor'].continue_move(self.ctx, instance_uuid=uuid)
        return number

    def end(self, uuid, name):
        status = {'confirmResize': 'confirming', 'revertResize': 'reverting'}[name]
        self.new_request()
        self.db.run(server_migrations.begin_end, self.ctx, uuid, actions.ACTIONS[name], status)
        self.client['conductor'].continue_move(self.ctx, instance_uuid=uuid)

    def migration(self, number):
        with self.db.reader() as conn:
            return server_migrations.get(conn, number)

    def counted(self, uuid):
        """(vCPUs, MiB) that the quota counts."""
        table = tables_api.instance_mappings
        with self.api_db.reader() as conn:
            return tuple(conn.execute(sa.select(table.c.vcpus, table.c.memory_mb).where(
                table.c.instance_uuid == uuid)).one())

    def state(self, uuid):
        row = self.row(uuid)
        return row['vm_state'], row['task_state'], row['power_state']

    def check(self):
        """Of core.Cloud, and no guest is put aside, no share held, and the quota counts what the servers have."""
        super().check()
        for compute in self.computes.values():
            assert compute.driver.features[virt.Resize].resize_backups() == [] and compute.driver.leftovers() == {}
        table = tables_cell.migrations
        with self.db.reader() as conn:
            assert conn.execute(sa.select(table.c.id).where(sa.or_(
                table.c.claimed_host.is_not(None), table.c.status.not_in(server_migrations.OVER)))).all() == []
            rows = conn.execute(sa.select(tables_cell.instances)).mappings().all()
        for row in rows:
            assert self.counted(row['uuid']) == (row['vcpus'], row['memory_mb'])
            host, _ = self.network.allocated.get(row['uuid'], (row['host'], None))
            assert host == row['host']


@pytest.fixture
def cloud(tmp_path):
    cloud = Cloud(tmp_path, hosts=HOSTS)
    yield cloud
    cloud.close()
