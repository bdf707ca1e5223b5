"""Evacuation through conductor, scheduler and computes: a server has one guest, whoever dies and comes back."""
import threading
import time

import pytest
import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import states
from nova import utils
from nova.db.moves import migrations as server_migrations
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import cell as tables_cell
from nova.objects import disk_clients
from nova.tests import races
from nova.tests.support import core_evacuation
from nova.tests.support import core_live_migration as live
from nova.tests.support import holding
from nova.tests.support.core_evacuation import begin
from nova.tests.support.core_evacuation import come_back
from nova.tests.support.core_evacuation import die
from nova.tests.support.core_evacuation import evacuate
from nova.tests.support.waiting import wait_for
from nova.virt import driver as virt
from nova.virt import fake

cloud = core_evacuation.cloud


def state_on_host1(cloud, uuid):
    return cloud.conductor.methods.server_states(None, host='host1', uuids=[uuid])[uuid]['state']


def test_it_is_built_elsewhere_and_its_old_host_cleans_up(cloud):
    uuid = live.boot(cloud)
    die(cloud)
    number = evacuate(cloud, uuid)
    cloud.settle()
    row, moved = cloud.row(uuid), live.move(cloud, number)
    assert row['host'] == moved['dest_compute'] != 'host1' and row['task_state'] is None
    assert (row['vm_state'], row['power_state']) == (states.ACTIVE, states.RUNNING)
    assert moved['status'] == 'done' and moved['migration_type'] == 'evacuation'
    assert live.hosts_with(cloud, uuid) == [row['host']] and cloud.node('host1')['running_vms'] == 0
    assert cloud.actions(uuid)[-1][:2] == ('evacuate', None)
    old = come_back(cloud)
    assert old.driver.guests() == {} and live.move(cloud, number)['status'] == 'completed'
    live.check(cloud)


@pytest.mark.parametrize(('before', 'leave_stopped', 'after'), [
    ((), True, states.STOPPED), (('os-stop',), False, states.STOPPED), (('os-stop',), True, states.STOPPED)])
def test_stopped_states_are_kept_by_an_evacuation(cloud, before, leave_stopped, after):
    uuid = live.boot(cloud)
    for name in before:
        cloud.act(uuid, name, clean_shutdown=False)
        cloud.settle()
    die(cloud)
    evacuate(cloud, uuid, host='host3', leave_stopped=leave_stopped)
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['vm_state'], row['power_state']) == ('host3', after, states.SHUTDOWN)
    come_back(cloud)
    live.check(cloud)


def test_a_host_that_lives_keeps_its_servers(cloud):
    uuid = live.boot(cloud)
    with pytest.raises(exception.ComputeServiceInUse):
        begin(cloud, uuid)
    assert cloud.row(uuid)['task_state'] is None and live.moves(cloud, uuid) == []
    live.check(cloud)


def test_a_host_that_comes_back_before_the_server_has_left_keeps_it(cloud):
    uuid = live.boot(cloud)
    die(cloud)
    number = begin(cloud, uuid)
    come_back(cloud)
    cloud.client['conductor'].continue_evacuation(cloud.ctx, instance_uuid=uuid)
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['task_state'], row['vm_state']) == ('host1', None, states.ACTIVE)
    assert live.move(cloud, number)['status'] == 'error' and live.hosts_with(cloud, uuid) == ['host1']
    live.check(cloud)


def test_a_host_that_is_only_said_to_be_down_loses_its_guest_at_once(cloud):
    uuid = live.boot(cloud)
    live.down(cloud, 'host1')
    number = evacuate(cloud, uuid)
    cloud.settle()
    assert live.hosts_with(cloud, uuid) == [cloud.row(uuid)['host']] != ['host1']
    assert live.move(cloud, number)['status'] == 'completed'
    live.check(cloud)


def test_a_host_that_comes_back_meanwhile_stops_its_guest(cloud):
    uuid = live.boot(cloud)
    die(cloud)
    with holding.held('spawn', cloud.computes['host2'].driver.machine):
        number = evacuate(cloud, uuid, host='host2')
        wait_for(lambda: cloud.row(uuid)['host'] == 'host2', what='it is not taken over')
        live.down(cloud, 'host1', forced=False)
        old = cloud.start_compute('host1')
        wait_for(lambda: old.driver.guests().get(uuid) == states.SHUTDOWN, what='it runs twice')
    cloud.settle()
    assert live.hosts_with(cloud, uuid) == ['host2'] and live.move(cloud, number)['status'] == 'completed'
    live.check(cloud)


@pytest.mark.parametrize('arrived', [False, True])
def test_delayed_cleanup_spares_a_server_that_returns(cloud, arrived):
    uuid, let_go = live.boot(cloud), threading.Event()
    die(cloud)
    with holding.held('spawn', cloud.computes['host2'].driver.machine):
        number = evacuate(cloud, uuid, host='host2')
        wait_for(lambda: cloud.row(uuid)['host'] == 'host2', what='it is not taken over')
        live.down(cloud, 'host1', forced=False)
        old = cloud.start_compute('host1')
        wait_for(lambda: not old.queue.busy(uuid), what='the guest is not stopped')
        old.queue.submit(uuid, let_go.wait, 60)
    wait_for(lambda: old.queue.in_progress()[uuid] == 1, what='no cleanup waits')
    live.slow(cloud, 0 if arrived else 60, 'host2')
    back = live.migrate(cloud, uuid, host='host1')
    status = 'post-migrating' if arrived else 'running'
    wait_for(lambda: live.move(cloud, back)['status'] == status, what='the server does not return')
    if arrived:
        let_go.set()
    else:
        jobs = cloud.computes['host2'].driver.features[virt.LiveMigration].jobs
        wait_for(lambda: uuid in jobs, what='no copy')
        let_go.set()
        wait_for(lambda: not old.queue.busy(uuid), what='the cleanup does not end')
        assert uuid in old.driver.machine.expected and uuid in old.driver.guests()
        jobs[uuid].seconds = 0
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['vm_state'], row['task_state']) == ('host1', states.ACTIVE, None)
    assert live.hosts_with(cloud, uuid) == ['host1']
    old.methods.remove_evacuated_guests(cloud.ctx)
    cloud.settle()
    assert live.hosts_with(cloud, uuid) == ['host1'] and live.move(cloud, number)['status'] == 'completed'
    live.check(cloud)


def test_a_failure_takes_the_server_back_to_its_old_host(cloud):
    """Its disks may be there still."""
    uuid = live.boot(cloud)
    die(cloud)
    cloud.computes['host2'].driver.failures['spawn'] = RuntimeError('canary')
    number = evacuate(cloud, uuid, host='host2')
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['task_state'], row['vm_state']) == ('host1', None, states.ACTIVE)
    assert live.move(cloud, number)['status'] == 'error' and 'canary' not in row['fault']['message']
    assert live.hosts_with(cloud, uuid) == [] and cloud.conductor.claim_check.audit() == []
    come_back(cloud)
    assert live.hosts_with(cloud, uuid) == ['host1'] and cloud.row(uuid)['vm_state'] == states.ACTIVE
    live.check(cloud)


def test_no_host_has_room(cloud):
    uuid = live.boot(cloud)
    for host in live.HOSTS:
        die(cloud, host)
    number = evacuate(cloud, uuid)
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['task_state']) == ('host1', None) and live.move(cloud, number)['status'] == 'error'
    assert cloud.actions(uuid)[-1][1] == 'Error' and cloud.conductor.claim_check.audit() == []


@pytest.mark.parametrize('shared', [True, False])
def test_a_guest_with_a_new_root_disk_posts_a_password_of_its_own(cloud, shared):
    uuid = live.boot(cloud)
    cloud.db.run(instances.update, uuid, {'system_metadata': {'password': 'first', 'other': 'x'}})
    die(cloud)
    for compute in cloud.computes.values():
        compute.driver.machine.shares_disks = shared
    evacuate(cloud, uuid, shared=shared)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    kept = cloud.row(uuid)['system_metadata']
    assert (kept.get('password'), kept['other']) == ('first' if shared else None, 'x')


@pytest.mark.parametrize('shared', [True, None])
def test_evacuation_on_shared_storage_keeps_the_disks(cloud, shared):
    uuid = live.boot(cloud)
    die(cloud)
    for compute in cloud.computes.values():
        compute.driver.machine.shares_disks = True
        compute.driver.failures['spawn'] = RuntimeError('the image is not written again')
    number = evacuate(cloud, uuid, shared=shared)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE and live.move(cloud, number)['status'] == 'done'
    assert len(live.hosts_with(cloud, uuid)) == 1


def test_shared_disks_outlive_the_guest_of_the_old_host(cloud, monkeypatch):
    """It is removed as what was evacuated, not as the guest of a server that is elsewhere."""
    uuid, kept = live.boot(cloud), []
    die(cloud)
    for compute in cloud.computes.values():
        compute.driver.machine.shares_disks = True
    evacuate(cloud, uuid, shared=True)
    cloud.settle()
    assert state_on_host1(cloud, uuid) == states.NEEDED
    destroy = fake.FakeDriver.destroy

    def watched(driver, context, instance, network_info, keep_disks=False):
        kept.append(keep_disks)
        destroy(driver, context, instance, network_info, keep_disks)
    monkeypatch.setattr(fake.FakeDriver, 'destroy', watched)
    assert come_back(cloud).driver.guests() == {} and kept == [True]
    assert state_on_host1(cloud, uuid) == states.ELSEWHERE


def test_disks_that_are_said_to_be_shared_and_are_not(cloud):
    uuid = live.boot(cloud)
    die(cloud)
    number = evacuate(cloud, uuid, shared=True)
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host1' and live.move(cloud, number)['status'] == 'error'


# ---- parts that die ----------------------------------------------------------------

def test_the_destination_is_restarted_while_it_builds(cloud):
    uuid = live.boot(cloud)
    die(cloud)
    number = cloud.kill_in('host2', 'spawn', lambda: evacuate(cloud, uuid, host='host2'))
    cloud.start_compute('host2')
    cloud.settle()
    assert cloud.row(uuid)['task_state'] is None and live.move(cloud, number)['status'] == 'done'
    assert live.hosts_with(cloud, uuid) == ['host2']


def test_evacuation_continues_after_the_destination_dies(cloud):
    uuid = live.boot(cloud)
    die(cloud)
    with holding.held('spawn', cloud.computes['host2'].driver.machine) as (begun, _goes_on):
        evacuate(cloud, uuid, host='host2')
        assert begun.wait(60) and cloud.row(uuid)['host'] == 'host2'
        die(cloud, 'host2')
    evacuate(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host3' and cloud.row(uuid)['vm_state'] == states.ACTIVE
    for host in ('host1', 'host2'):
        come_back(cloud, host)
    assert live.hosts_with(cloud, uuid) == ['host3']
    live.check(cloud)


@pytest.mark.parametrize('method', ['continue_evacuation', 'evacuate_instance', 'remove_evacuated_guests'])
def test_a_message_is_lost(cloud, method):
    uuid = live.boot(cloud)
    die(cloud)
    cloud.bus.lost = lambda topic, name, server: name == method
    number = evacuate(cloud, uuid)
    cloud.settle()
    cloud.bus.lost = None
    cloud.pass_time()
    cloud.conductor.reconciler.reconcile()
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE and cloud.row(uuid)['host'] != 'host1'
    come_back(cloud)
    assert live.move(cloud, number)['status'] == 'completed'
    live.check(cloud)


def test_a_live_migration_that_its_source_did_not_survive(cloud):
    uuid = live.boot(cloud)
    live.running(cloud, uuid, host='host2')
    die(cloud)
    number = evacuate(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE and cloud.row(uuid)['host'] != 'host1'
    come_back(cloud)
    assert live.move(cloud, number)['status'] == 'completed' and len(live.hosts_with(cloud, uuid)) == 1
    live.check(cloud)


def test_evacuation_after_an_unfinished_arrival_leaves_one_guest(cloud):
    """Its guest there is not left beside the one that the evacuation makes."""
    uuid = live.boot(cloud)
    cloud.bus.lost = lambda topic, method, server: method == 'live_migration_arrived'
    live.migrate(cloud, uuid, host='host2')
    wait_for(lambda: live.hosts_with(cloud, uuid) == ['host2'], what='it does not arrive')
    die(cloud)
    cloud.bus.lost = None
    evacuate(cloud, uuid, host='host3')
    cloud.settle()
    assert live.hosts_with(cloud, uuid) == ['host3']
    come_back(cloud)
    live.check(cloud)


def test_deleted_evacuated_server_leaves_no_guest(cloud):
    uuid = live.boot(cloud)
    die(cloud)
    evacuate(cloud, uuid)
    cloud.settle()
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    assert come_back(cloud).driver.guests() == {}
    live.check(cloud)


# ---- races -------------------------------------------------------------------------

@pytest.mark.parametrize('pause', [0, 0.005, 0.02, 0.05])
def test_the_host_comes_back_at_any_moment(cloud, pause):
    uuid = live.boot(cloud)
    die(cloud)
    cloud.computes['host2'].driver.delays['spawn'] = 0.02
    number = begin(cloud, uuid, host='host2')

    def back():
        time.sleep(pause)
        live.down(cloud, 'host1', forced=False)
        cloud.start_compute('host1')
    races.outcomes(lambda: cloud.conductor.methods.continue_evacuation(cloud.ctx, uuid), back)
    cloud.settle()
    row = cloud.row(uuid)
    assert row['task_state'] is None and live.hosts_with(cloud, uuid) == [row['host']]
    assert live.move(cloud, number)['status'] == ('error' if row['host'] == 'host1' else 'completed')
    live.check(cloud)


def test_second_parallel_evacuation_is_refused(cloud):
    uuid = live.boot(cloud)
    die(cloud)
    races.outcomes(*[lambda host=host: evacuate(cloud, uuid, host=host) for host in ('host2', 'host3')])
    cloud.settle()
    row = cloud.row(uuid)
    assert row['host'] in ('host2', 'host3') and live.hosts_with(cloud, uuid) == [row['host']]
    come_back(cloud)
    live.check(cloud)


def shrink(conn, host, vcpus):
    conn.execute(sa.update(tables_cell.compute_nodes).where(tables_cell.compute_nodes.c.host == host).values(
        vcpus=vcpus, cpu_allocation_ratio=1, change_number=utils.change_number()))


@pytest.mark.parametrize('filled', [False, True])
def test_the_message_comes_twice(cloud, filled):
    """Whoever comes too late for the choice leaves the evacuation to who was first, even if it took the last room."""
    uuid = live.boot(cloud)
    die(cloud)
    number = begin(cloud, uuid)
    if filled:
        for host, vcpus in (('host2', 1), ('host3', 0)):
            cloud.db.run(shrink, host, vcpus)
    scheduler, manager = cloud.client['scheduler'], cloud.bus.managers['scheduler', None]

    class Overtaken:
        def select_move(self, ctx, **arguments):
            cloud.bus.managers['scheduler', None] = manager
            assert scheduler.select_move(ctx, **arguments)
            return scheduler.select_move(ctx, **arguments)
    cloud.bus.managers['scheduler', None] = Overtaken()
    cloud.conductor.methods.continue_evacuation(cloud.ctx, uuid)
    cloud.conductor.methods.continue_evacuation(cloud.ctx, uuid)
    cloud.settle()
    row = cloud.row(uuid)
    assert row['host'] in ('host2', 'host3') and live.hosts_with(cloud, uuid) == [row['host']]
    assert live.move(cloud, number)['status'] == 'done'
    come_back(cloud)
    live.check(cloud)


@pytest.mark.parametrize('pause', [0, 0.01, 0.05])
def test_delete_at_any_moment(cloud, pause):
    uuid = live.boot(cloud)
    die(cloud)

    def delete():
        time.sleep(pause)
        row = cloud.delete(uuid)
        if row['host'] == 'host1':
            cloud.client['conductor'].delete_instance(cloud.ctx, instance_uuid=uuid)
    races.outcomes(lambda: evacuate(cloud, uuid), delete)
    cloud.settle()
    for _ in range(3):
        if not cloud.gone(uuid):
            cloud.pass_time()
            cloud.conductor.reconciler.reconcile()
            cloud.settle()
    assert cloud.gone(uuid)
    come_back(cloud)
    live.check(cloud)


def test_all_servers_of_a_dead_host_are_evacuated(cloud):
    uuids = [live.boot(cloud) for _ in range(6)]
    die(cloud)
    threads = [threading.Thread(target=evacuate, args=(cloud, uuid)) for uuid in uuids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cloud.settle()
    assert all(cloud.row(uuid)['host'] != 'host1' for uuid in uuids)
    come_back(cloud)
    with cloud.db.reader() as conn:
        assert {row['status'] for row in server_migrations.page(conn, nova_context.ALL_PROJECTS)} == {'completed'}
    live.check(cloud)


# ---- the former host may still write ------------------------------------------------

NOT_FENCED = exception.NotFenced(part='its disk vms/x', reason='Operation not permitted', more='', details='all of it')
CLIENTS = {'vms/x': ['10.0.0.1:0/5'], 'volumes/y': None}


def known(cloud, uuid):
    return disk_clients.read(cloud.row(uuid)['system_metadata'])


def record(cloud, uuid, host='host1', images=CLIENTS, started=True):
    cloud.computes[host]._disk_clients.record(uuid, images, started)


def fails_to_fence(cloud):
    for compute in cloud.computes.values():
        compute.driver.failures['fence'] = NOT_FENCED


def test_it_stops_where_the_former_host_may_still_write(cloud):
    uuid = live.boot(cloud)
    live.down(cloud, 'host1')                            # and its guest runs
    fails_to_fence(cloud)
    number = evacuate(cloud, uuid)
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['task_state'], row['vm_state']) == ('host1', None, states.ACTIVE)
    assert live.move(cloud, number)['status'] == 'error' and live.hosts_with(cloud, uuid) == ['host1']
    with cloud.db.reader() as conn:
        action = instance_actions.by_instance(conn, uuid)[0]
        event = next(each for each in instance_actions.events(conn, action['id'])
                     if each['event'] == 'compute_rebuild_instance')
    assert event['result'] == 'Error' and 'Operation not permitted' in event['details']
    assert 'two-writers' in event['details'] and 'all of it' in event['traceback']       # for administrators
    live.check(cloud)


def test_an_operator_accepts_two_writers(cloud):
    uuid = live.boot(cloud)
    die(cloud)
    fails_to_fence(cloud)
    number = evacuate(cloud, uuid, accepted_risk='two-writers')
    cloud.settle()
    assert cloud.row(uuid)['host'] != 'host1' and live.move(cloud, number)['status'] == 'done'
    assert known(cloud, uuid) is None                    # nobody has shut the former host out


def test_the_next_host_gets_what_the_former_one_has_recorded(cloud, monkeypatch):
    uuid, given = live.boot(cloud), []
    record(cloud, uuid, images={'vms/x': ['10.0.0.1:0/5']})
    record(cloud, uuid, images={'volumes/y': None}, started=False)
    assert known(cloud, uuid) == disk_clients.Record('host1', CLIENTS)
    die(cloud)

    def watched(_driver, _instance, former):
        given.append(former)
        return True
    monkeypatch.setattr(fake.FakeDriver, 'fence', watched)
    evacuate(cloud, uuid, host='host2')
    cloud.settle()
    assert [(each.host, each.clients, each.off, each.accepts_two_writers) for each in given] == [
        ('host1', CLIENTS, False, False)]
    assert known(cloud, uuid) == disk_clients.Record('host2', {})
    record(cloud, uuid, 'host2', {'vms/x': ['10.0.0.2:0/6']})
    assert known(cloud, uuid) == disk_clients.Record('host2', {'vms/x': ['10.0.0.2:0/6']})
    with pytest.raises(exception.InstanceChanged):       # a guest of the former host may not start again
        come_back(cloud)._disk_clients.record(uuid, CLIENTS, True)


def test_stopped_and_starting_servers_are_evacuated_with_fence(cloud, monkeypatch):
    given = []
    monkeypatch.setattr(fake.FakeDriver, 'fence', lambda _driver, _instance, former: given.append(former.off) or True)
    for starting in (False, True):
        uuid = live.boot(cloud)
        cloud.act(uuid, 'os-stop', clean_shutdown=False)
        cloud.settle()
        die(cloud)
        if starting:
            cloud.act(uuid, 'os-start')
        evacuate(cloud, uuid, host='host2')
        cloud.settle()
        come_back(cloud)
    assert given == [True, False]


def test_a_fence_is_not_repeated_after_a_crash_and_ends_with_the_next_task_of_the_former_host(cloud, monkeypatch):
    uuid, given = live.boot(cloud), []
    record(cloud, uuid)
    die(cloud)

    def fence(_driver, _instance, former):
        given.append(former.clients)
        return True
    monkeypatch.setattr(fake.FakeDriver, 'fence', fence)
    cloud.computes['host2'].driver.failures['spawn'] = RuntimeError('canary')
    for _attempt in range(2):
        evacuate(cloud, uuid, host='host2')
        cloud.settle()
    assert given == [CLIENTS] and known(cloud, uuid) == disk_clients.Record('host1', {}, 'host1')
    come_back(cloud)
    cloud.act(uuid, 'reboot-hard', reboot_type='HARD')
    cloud.settle()
    assert known(cloud, uuid) is None
    die(cloud)
    evacuate(cloud, uuid, host='host2')
    cloud.settle()
    assert given == [CLIENTS, None]
