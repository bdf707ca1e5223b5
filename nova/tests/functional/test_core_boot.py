"""Conductor, scheduler and compute together: boots, deletes, failures, budgets."""
import datetime
import time

import pytest
import sqlalchemy as sa

from nova import exception
from nova import states
from nova import utils
from nova.db.servers import history
from nova.db.servers import instances
from nova.tests import core
from nova.tests.support import holding


@pytest.fixture
def cloud(tmp_path, request):
    cloud = core.Cloud(tmp_path, **getattr(request, 'param', {}))
    yield cloud
    cloud.close()


def many(**options):
    return pytest.mark.parametrize('cloud', [options], indirect=True)


def test_server_is_built_and_deleted(cloud):
    uuid = cloud.boot()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['power_state']) == (states.ACTIVE, None, states.RUNNING)
    assert (row['host'], row['node'], row['availability_zone']) == ('host1', 'host1', 'nova')
    assert row['launched_at'] and row['network_info'][0]['network']['label'] == 'private'
    assert cloud.actions(uuid) == [('create', None, True, [('compute_build_instance', 'Success')])]
    assert cloud.node()['memory_mb_used'] == 512
    cloud.check()
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    with cloud.db.reader() as conn:
        old = history.get(conn, uuid)
    assert (old['vm_state'], old['task_state'], old['host']) == (states.DELETED, None, 'host1')
    assert cloud.actions(uuid)[-1] == ('delete', None, True, [('compute_terminate_instance', 'Success')])
    cloud.check()


def test_a_build_that_the_stop_of_its_host_ends_keeps_its_ports(cloud, monkeypatch):
    """They may have floating addresses. The next start continues the build with them."""
    compute = cloud.computes['host1']

    def stop(ctx, instance, *rest):
        compute.host.stopping.set()
        raise exception.ServiceStopping(instance_id=instance.uuid)
    monkeypatch.setattr(compute.driver, 'spawn', stop)
    uuid, = cloud.create()
    cloud.settle()
    host, ports = cloud.network.allocated[uuid]
    assert (host, len(ports), cloud.row(uuid)['vm_state']) == ('', 1, states.BUILDING)


def test_boot_stays_within_its_statement_and_message_budget(cloud):
    """From the cast to ACTIVE: 10 statements and 6 transactions beside the API's and the network's, of which only the
    question where the server is is counted here; 6 messages.
    """
    cloud.boot()                 # the host table is read
    uuid, = cloud.insert()
    time.sleep(0.02)             # it is not fresh any more
    statements, transactions = [], []

    def count(conn, cursor, sql, *rest):
        statements.append(sql)

    def begin(conn):
        transactions.append(conn)
    for engine in (cloud.db.engine, cloud.api_db.engine):
        sa.event.listen(engine, 'before_cursor_execute', count)
        sa.event.listen(engine, 'begin', begin)
    del cloud.bus.messages[:]
    cloud.client['conductor'].build_instances(cloud.ctx, instance_uuids=[uuid])
    cloud.settle()
    for engine in (cloud.db.engine, cloud.api_db.engine):
        sa.event.remove(engine, 'before_cursor_execute', count)
        sa.event.remove(engine, 'begin', begin)
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    assert len(statements) <= 11, statements
    assert len(transactions) <= 7, transactions
    assert len(cloud.bus.messages) <= 6, cloud.bus.messages


@many(hosts=('host1', 'host2', 'host3'))
def test_servers_of_one_request_are_spread_over_hosts(cloud):
    uuids = cloud.create(count=9)
    cloud.settle()
    assert sorted(cloud.row(uuid)['host'] for uuid in uuids) == ['host1'] * 3 + ['host2'] * 3 + ['host3'] * 3
    cloud.check()


@many(hosts=('host1', 'host2', 'host3'), fake__memory_mb=1024)
def test_no_valid_host_fault_has_the_reasons(cloud):
    cloud.boot()
    uuid, = cloud.create(flavor={'memory_mb': 2048})
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['host']) == (states.ERROR, None, None)
    assert row['fault']['code'] == 500
    assert row['fault']['message'] == ('No valid host was found. 3 hosts: 3 have too little free memory '
                                       '(largest free 1024 MB, asked 2048 MB).')
    assert 'RamFilter removed 3' in row['fault']['details']
    assert cloud.actions(uuid)[0][1:3] == ('Error', True)
    cloud.delete(uuid)
    cloud.settle()
    cloud.check()


@many(hosts=('host1', 'host2', 'host3'))
def test_reschedule_to_a_host_that_works(cloud):
    for host in ('host1', 'host2'):
        cloud.computes[host].driver.failures['spawn'] = exception.VirtError(operation='spawn', reason='x')
    uuids = [cloud.create()[0] for _ in range(6)]
    cloud.settle()
    assert {cloud.row(uuid)['host'] for uuid in uuids} == {'host3'}
    cloud.check()


@many(hosts=('host1', 'host2', 'host3', 'host4'))
def test_build_fails_everywhere(cloud):
    for compute in cloud.computes.values():
        compute.driver.failures['spawn'] = exception.VirtError(operation='spawn', reason='/secret/path')
    uuid, = cloud.create()
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['host']) == (states.ERROR, None, None)
    assert row['fault']['message'].startswith('The build was tried on 3 hosts.')
    assert '/secret/path' not in row['fault']['message'] and '/secret/path' in row['fault']['details']
    events = cloud.actions(uuid)[0][3]
    assert events.count(('compute_build_instance', 'Error')) == 3
    cloud.check()


@many(hosts=('host1', 'host2'))
def test_fault_shows_the_build_error_when_no_other_host_is_left(cloud):
    """It said alone that each host had failed to build the server before."""
    for compute in cloud.computes.values():
        compute.driver.failures['spawn'] = exception.VirtError(operation='spawn', reason='/secret/path')
    uuid, = cloud.create()
    cloud.settle()
    fault = cloud.row(uuid)['fault']
    assert fault['message'].startswith('The build was tried on 2 hosts. The host could not')
    assert '/secret/path' in fault['details'] and 'RetryFilter removed 2' in fault['details']
    cloud.check()


@many(hosts=('host1', 'host2'))
def test_build_is_not_retried_for_errors_that_every_host_would_have(cloud):
    cloud.network.failure = exception.NoMoreFixedIps(network_id='n')
    uuid, = cloud.create()
    cloud.settle()
    assert cloud.bus.messages.count('compute.build_instance') == 1
    assert cloud.row(uuid)['fault']['message'] == 'No fixed IP addresses available for network n'
    assert cloud.row(uuid)['fault']['code'] == 409
    cloud.check()


def test_server_deleted_during_scheduling_is_removed(cloud):
    uuid, = cloud.insert()
    cloud.delete(uuid)
    cloud.client['conductor'].build_instances(cloud.ctx, instance_uuids=[uuid])
    cloud.settle()
    assert cloud.gone(uuid)
    cloud.check()


def test_repeated_build_request_does_not_fail_a_running_build(cloud):
    """A server that is being built already finds no second host: that is no reason to give up the first."""
    with holding.held('spawn', cloud.computes['host1'].driver.machine) as (begun, _goes_on):
        uuid, = cloud.create()
        assert begun.wait(60) and cloud.row(uuid)['task_state'] == states.SPAWNING
        cloud.force_down('host1')
        cloud.conductor.methods.build_instances(cloud.ctx, [uuid])
        cloud.force_down('host1', down=False)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE, cloud.row(uuid)['fault']
    cloud.check()


def test_repeated_messages_have_no_effect(cloud):
    uuid = cloud.boot()
    cloud.client['conductor'].build_instances(cloud.ctx, instance_uuids=[uuid])
    cloud.settle()
    spec = cloud.conductor.methods.get_request_spec(None, uuid)
    instance = cloud.conductor.methods.instances_on_host(None, 'host1')[0]['instance']
    cloud.client['compute'].build_instance(cloud.ctx, server='host1', instance=instance, spec=spec)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    cloud.check()
    cloud.delete(uuid)
    cloud.client['compute'].terminate_instance(cloud.ctx, server='host1', instance=instance)
    cloud.client['compute'].build_instance(cloud.ctx, server='host1', instance=instance, spec=spec)
    cloud.settle()
    assert cloud.gone(uuid)
    cloud.check()


def test_history_expires(cloud):
    uuid = cloud.boot()
    cloud.delete(uuid)
    cloud.settle()
    cloud.conductor.expiry.expire_history()
    with cloud.db.reader() as conn:
        assert history.deleted(conn, [uuid])
    cloud.conf.set_override('deleted_servers_kept_days', 1, group='conductor')
    with cloud.db.writer() as conn:
        conn.execute(sa.update(core.tables_cell.instances_history).values(
            deleted_at=utils.utcnow() - datetime.timedelta(days=2)))
    cloud.conductor.expiry.expire_history()
    with cloud.db.reader() as conn:
        assert not history.deleted(conn, [uuid])
        assert conn.execute(sa.select(sa.func.count()).select_from(core.tables_cell.instance_action_events)
                            ).scalar() == 0


def test_conditional_update_fails_after_another_change(cloud):
    uuid = cloud.boot()
    with cloud.db.writer() as conn:
        with pytest.raises(exception.InstanceChanged):
            instances.update(conn, uuid, {'progress': 5}, expect={'task_state': ['spawning']})
        assert instances.update(conn, uuid, {'progress': 5}, expect={'task_state': [None], 'vm_state': 'active'})
        with pytest.raises(exception.InstanceNotFound):
            instances.update(conn, 'nope', {'progress': 5})
