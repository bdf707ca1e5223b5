"""What tests share with nova/tests/functional/test_core_live_migration.py."""
import pytest

from nova import context as nova_context
from nova.api.server_actions import live_migrations as api
from nova.db.moves import migrations as server_migrations
from nova.tests import core
from nova.tests.support.waiting import wait_for
from nova.virt import driver as virt

HOSTS = ('host1', 'host2', 'host3')


@pytest.fixture
def cloud(tmp_path):
    made = core.Cloud(tmp_path, hosts=HOSTS)
    yield made
    made.close()


def begin(cloud, uuid, host=None, force=False, block_migration=None):
    """What the API writes for os-migrateLive; the number of the migration."""
    cloud.new_request()
    cloud.db.run(api._begin, cloud.ctx, uuid, {
        'host': host, 'force': force, 'block_migration': block_migration, 'disk_over_commit': False})
    return moves(cloud, uuid)[0]['id']


def migrate(cloud, uuid, **asked):
    number = begin(cloud, uuid, **asked)
    cloud.client['conductor'].continue_live_migration(cloud.ctx, instance_uuid=uuid)
    return number


def moves(cloud, uuid):
    """Its migrations, newest first."""
    with cloud.db.reader() as conn:
        return server_migrations.page(conn, nova_context.ALL_PROJECTS, {'instance_uuid': uuid})


def move(cloud, number):
    with cloud.db.reader() as conn:
        return server_migrations.get(conn, number)


def boot(cloud):
    """A server on host1 and a slow wire from there."""
    uuid = cloud.boot(requested_host='host1')
    assert cloud.row(uuid)['host'] == 'host1'
    return uuid


def slow(cloud, seconds=1, host='host1'):
    cloud.computes[host].driver.delays['live_migrate'] = seconds


def running(cloud, uuid, **asked):
    """A migration that is being copied at this moment."""
    slow(cloud, 30)
    number = migrate(cloud, uuid, **asked)
    wait_for(lambda: move(cloud, number)['status'] == 'running', what=move(cloud, number))
    wait_for(lambda: uuid in cloud.computes['host1'].driver.features[virt.LiveMigration].jobs, what='no job')
    return number


def hosts_with(cloud, uuid):
    return [host for host, compute in cloud.computes.items() if uuid in compute.driver.guests()]


def check(cloud):
    """Nothing is left of a migration that is over, wherever it ended."""
    cloud.settle()
    cloud.check()
    assert cloud.network.expected == set()
    assert all(not compute.driver.machine.expected and not compute.driver.features[virt.LiveMigration].jobs
               for compute in cloud.computes.values())
    for host in HOSTS:
        node = cloud.node(host)
        mine = [uuid for uuid, home in cloud.guests().items() if home == host]
        assert node['running_vms'] == len(mine)
    with cloud.db.reader() as conn:
        for row in server_migrations.page(conn, nova_context.ALL_PROJECTS):
            assert row['status'] in server_migrations.OVER and row['claimed_host'] is None, row


def down(cloud, host, forced=True):
    cloud.force_down(host, down=forced)
