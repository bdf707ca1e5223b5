"""Servers that are deleted for the time being: restored, or reclaimed, whoever dies in the middle."""
import datetime

import pytest

from nova import exception
from nova import states
from nova import utils
from nova.db.projects import quotas
from nova.db.servers import instances
from nova.db.servers import mappings
from nova.tests import core
from nova.tests.support import core_shelve as shelve


@pytest.fixture
def cloud(tmp_path):
    made = core.Cloud(tmp_path, hosts=('host1',), reclaim_instance_interval=100)
    yield made
    made.close()


def soft_delete(cloud, uuid):
    cloud.act(uuid, 'softDelete')
    cloud.settle()


def used(cloud):
    with cloud.api_db.reader() as conn:
        return quotas.usage(conn, 'p')['instances']


@pytest.mark.parametrize('before', [(), ('rescue',)])
def test_soft_delete_and_restore(cloud, before):
    uuid = cloud.boot()
    for step in before:
        cloud.act(uuid, step, **shelve.RESCUE)
        cloud.settle()
    soft_delete(cloud, uuid)
    row = cloud.row(uuid)
    assert (row['vm_state'], row['power_state']) == (states.SOFT_DELETED, states.SHUTDOWN) and row['deleted_at']
    assert used(cloud) == 0 and cloud.node()['running_vms'] == 1        # it keeps its place
    assert cloud.conductor.deferred.reclaim_deleted() == 0
    cloud.check()
    cloud.act(uuid, 'restore')
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['power_state'], row['deleted_at']) == (states.ACTIVE, states.RUNNING, None)
    assert 'rescue' not in cloud.computes['host1'].driver.machine.guests[uuid]
    assert cloud.conductor.quota_check.count_soft_deleted() == 1 and used(cloud) == 1     # act() asks no quota
    assert cloud.conductor.quota_check.count_soft_deleted() == 0
    cloud.check()


def test_soft_deleted_server_is_reclaimed_after_its_time(cloud):
    uuid, other = cloud.boot(), cloud.boot()
    soft_delete(cloud, uuid)
    soft_delete(cloud, other)
    long_ago(cloud, uuid)
    assert cloud.conductor.deferred.reclaim_deleted() == 1
    cloud.settle()
    assert cloud.gone(uuid) and not cloud.gone(other)
    cloud.check()


def long_ago(cloud, uuid):
    with cloud.db.writer() as conn:
        instances.update(conn, uuid, {'deleted_at': utils.utcnow() - datetime.timedelta(seconds=101)})


def test_soft_deleted_server_is_restored_or_reclaimed_never_both(cloud):
    for _ in range(4):
        uuid = cloud.boot()
        soft_delete(cloud, uuid)
        long_ago(cloud, uuid)
        both = iter((lambda: cloud.act(uuid, 'restore') and True,
                     lambda: cloud.conductor.deferred.reclaim_deleted() or _lost()))
        assert shelve.core_threads(2, lambda: next(both)()) == 1
        cloud.settle()
        if cloud.gone(uuid):
            assert uuid not in cloud.guests()
        else:
            assert cloud.row(uuid)['vm_state'] == states.ACTIVE and uuid in cloud.guests()
        cloud.check()


def _lost():
    raise exception.Conflict('It was left alone.')


@pytest.mark.parametrize(('name', 'operation', 'after'), [
    ('softDelete', 'power_off', states.SOFT_DELETED), ('restore', 'power_on', states.ACTIVE)])
def test_killed_in_a_soft_delete(cloud, name, operation, after):
    uuid = cloud.boot()
    if name == 'restore':
        soft_delete(cloud, uuid)
    shelve.kill_in(cloud, operation, lambda: cloud.act(uuid, name))
    cloud.start_compute('host1')
    cloud.settle()
    assert shelve.state(cloud, uuid) == (after, None, 'host1')
    cloud.check()


def test_a_restore_that_fails_leaves_it_soft_deleted(cloud):
    uuid = cloud.boot()
    soft_delete(cloud, uuid)
    with cloud.api_db.writer() as conn:
        mappings.set_queued(conn, uuid, False)                          # what the API does
    cloud.computes['host1'].driver.failures['power_on'] = exception.VirtError(operation='start', reason='x')
    cloud.act(uuid, 'restore')
    cloud.settle()
    assert shelve.state(cloud, uuid) == (states.SOFT_DELETED, None, 'host1') and used(cloud) == 0
    cloud.check()
