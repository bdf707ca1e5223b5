"""Live migration through conductor, scheduler and computes: to the end, aborted, failed, and with parts that die."""
import time

import pytest

from nova import exception
from nova import states
from nova.compute import recovery
from nova.conductor.upkeep import reconciler
from nova.db.moves import live_migrations
from nova.tests import races
from nova.tests.support import core_live_migration
from nova.tests.support.core_live_migration import HOSTS
from nova.tests.support.core_live_migration import begin
from nova.tests.support.core_live_migration import boot
from nova.tests.support.core_live_migration import check
from nova.tests.support.core_live_migration import down
from nova.tests.support.core_live_migration import hosts_with
from nova.tests.support.core_live_migration import migrate
from nova.tests.support.core_live_migration import move
from nova.tests.support.core_live_migration import moves
from nova.tests.support.core_live_migration import running
from nova.tests.support.core_live_migration import slow
from nova.tests.support.waiting import wait_for
from nova.virt import driver as virt

cloud = core_live_migration.cloud


def complete(cloud, uuid):
    """End the copying that ``running`` has begun."""
    server = cloud.conductor.methods.update_instance(None, uuid, {})
    cloud.computes['host1'].methods.force_complete_live_migration(cloud.ctx, server)


def at_home(cloud, uuid, number, status):
    """It stayed on host1, idle, and its migration ended so."""
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['task_state'], row['vm_state']) == ('host1', None, states.ACTIVE)
    assert move(cloud, number)['status'] == status
    assert hosts_with(cloud, uuid) == ['host1']
    check(cloud)


# ---- main path -----------------------------------------------------------------

def test_live_migration_moves_server_and_claim(cloud):
    uuid = boot(cloud)
    number = migrate(cloud, uuid)
    cloud.settle()
    row, moved = cloud.row(uuid), move(cloud, number)
    assert row['host'] == row['node'] == moved['dest_compute'] != 'host1'
    assert (row['vm_state'], row['task_state'], row['power_state']) == (states.ACTIVE, None, states.RUNNING)
    assert moved['status'] == 'completed' and moved['claims_swapped'] and moved['source_compute'] == 'host1'
    assert moved['memory_processed_bytes'] == moved['memory_total_bytes'] == 512 << 20
    assert moved['memory_remaining_bytes'] == 0 and moved['dest_host'] == cloud.conf.my_ip
    assert hosts_with(cloud, uuid) == [row['host']]
    action = cloud.actions(uuid)[-1]
    assert action[0] == 'live-migration' and action[1] is None and action[2]
    assert {result for _event, result in action[3]} == {'Success'}
    check(cloud)


def test_back_and_forth_by_name(cloud):
    uuid = boot(cloud)
    for host in ('host2', 'host3', 'host1', 'host2'):
        migrate(cloud, uuid, host=host, force=True)
        cloud.settle()
        assert cloud.row(uuid)['host'] == host and hosts_with(cloud, uuid) == [host]
    assert [row['status'] for row in moves(cloud, uuid)] == ['completed'] * 4
    check(cloud)


def test_a_paused_guest_moves_and_stays_paused(cloud):
    uuid = boot(cloud)
    cloud.act(uuid, 'pause')
    cloud.settle()
    migrate(cloud, uuid, host='host3')
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['vm_state'], row['power_state']) == ('host3', states.PAUSED, states.POWER_PAUSED)
    check(cloud)


def test_both_hosts_hold_the_share_while_it_runs(cloud):
    uuid = boot(cloud)
    number = running(cloud, uuid, host='host2')
    assert [cloud.node(host)['running_vms'] for host in HOSTS] == [1, 1, 0]
    assert cloud.row(uuid)['task_state'] == states.MIGRATING and cloud.network.expected == {(uuid, 'host2')}
    assert cloud.conductor.claim_check.audit() == []
    complete(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host2' and move(cloud, number)['status'] == 'completed'
    check(cloud)


def test_progress_is_shown(cloud):
    uuid = boot(cloud)
    number = running(cloud, uuid)
    wait_for(lambda: cloud.row(uuid)['progress'] > 0, what='no progress')
    seen = move(cloud, number)
    assert 0 < seen['memory_processed_bytes'] < seen['memory_total_bytes']
    assert seen['memory_processed_bytes'] + seen['memory_remaining_bytes'] == seen['memory_total_bytes']
    assert 0 < cloud.row(uuid)['progress'] < 100
    complete(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['progress'] == 0
    check(cloud)


def test_a_report_of_the_size_alone(cloud):
    """A host that knows how much there is and not yet how much is copied got a TypeError for its report."""
    uuid = boot(cloud)
    number = running(cloud, uuid)
    assert cloud.conductor.methods.report_live_migration(
        cloud.ctx, number, 'host1', {'memory_total_bytes': 1000}, 60) == {'abort': False, 'complete': False}
    complete(cloud, uuid)
    cloud.settle()


@pytest.mark.parametrize(('processed', 'remaining', 'progress'), [(3000, 100, 90), (10, 0, 100), (2000, 1500, 0)])
def test_progress_follows_from_the_remaining_memory(cloud, processed, remaining, progress):
    """A guest that writes memory sends pages again, and a guest with empty pages sends less than its memory."""
    first, uuid = boot(cloud), boot(cloud)
    running(cloud, first)
    number = migrate(cloud, uuid)                            # it waits for the first one, and reports nothing
    wait_for(lambda: move(cloud, number)['status'] == 'queued', what='not queued')
    cloud.conductor.methods.report_live_migration(cloud.ctx, number, 'host1', {
        'memory_total_bytes': 1000, 'memory_processed_bytes': processed, 'memory_remaining_bytes': remaining}, 60)
    assert cloud.row(uuid)['progress'] == progress
    complete(cloud, first)
    slow(cloud, 0)
    cloud.settle()


def test_one_at_a_time_leaves_a_host(cloud):
    uuids = [boot(cloud) for _ in range(3)]
    slow(cloud, 30)
    numbers = [migrate(cloud, uuid) for uuid in uuids]
    wait_for(lambda: sorted(move(cloud, number)['status'] for number in numbers) == ['queued', 'queued', 'running'],
         what='no queue')
    jobs = cloud.computes['host1'].driver.features[virt.LiveMigration].jobs
    wait_for(lambda: jobs, what='no job')
    slow(cloud, 0)
    complete(cloud, *jobs)
    cloud.settle()
    assert {move(cloud, number)['status'] for number in numbers} == {'completed'}
    check(cloud)


# ---- what is refused and what fails ----------------------------------------------

def test_no_other_host_has_room(cloud):
    uuid = boot(cloud)
    for host in ('host2', 'host3'):
        cloud.kill_compute(host)
    cloud.force_down('host2', 'host3')
    number = begin(cloud, uuid)
    with pytest.raises(exception.BadRequest, match='No valid host'):
        cloud.conductor.methods.check_and_live_migrate(cloud.ctx, uuid)
    assert cloud.actions(uuid)[-1][1] == 'Error' and cloud.row(uuid)['host'] == 'host1'
    assert move(cloud, number)['status'] == 'error'
    assert cloud.row(uuid)['task_state'] is None


def test_a_destination_that_cannot_take_it_is_passed_over(cloud):
    uuid = boot(cloud)
    cloud.computes['host2'].driver.failures['check_destination'] = exception.MigrationPreCheckError(reason='no')
    number = migrate(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host3' and move(cloud, number)['status'] == 'completed'
    check(cloud)
    for host in ('host1', 'host2'):
        cloud.computes[host].driver.failures['check_destination'] = exception.MigrationPreCheckError(reason='no')
    begin(cloud, uuid)
    with pytest.raises(exception.MigrationPreCheckError):
        cloud.conductor.methods.check_and_live_migrate(cloud.ctx, uuid)
    assert cloud.row(uuid)['task_state'] is None and cloud.row(uuid)['host'] == 'host3'
    check(cloud)


def test_a_named_destination_is_not_replaced(cloud):
    uuid = boot(cloud)
    cloud.computes['host2'].driver.failures['check_destination'] = exception.MigrationPreCheckError(reason='no')
    number = migrate(cloud, uuid, host='host2')
    at_home(cloud, uuid, number, 'error')


def test_disks_that_are_not_shared_are_refused_without_block_migration(cloud):
    uuid = boot(cloud)
    begin(cloud, uuid, block_migration=False)
    with pytest.raises(exception.MigrationPreCheckError, match='share no storage'):
        cloud.conductor.methods.check_and_live_migrate(cloud.ctx, uuid)
    at_home(cloud, uuid, moves(cloud, uuid)[0]['id'], 'error')


def test_a_server_on_volumes_has_no_disks_to_share(cloud):
    """Refused as one with disks of its own, although nothing but its memory moves."""
    uuid = boot(cloud)
    feature = cloud.computes['host2'].driver.features[virt.LiveMigration]
    instance = cloud.conductor.methods.instances_on_host(None, 'host1')[0]['instance']
    assert instance.uuid == uuid and feature.check_destination(instance, None, False) == {'block_migration': True}
    instance.image_id = None
    assert feature.check_destination(instance, False, False) == {'block_migration': False}
    instance.ephemeral_gb = 1
    with pytest.raises(exception.MigrationPreCheckError, match='share no storage'):
        feature.check_destination(instance, False, False)


@pytest.mark.parametrize(('host', 'operation', 'status'), [
    ('host1', 'check_source', 'error'), ('host2', 'pre_live_migration', 'error'), ('host1', 'live_migrate', 'failed')])
def test_failed_live_migration_is_rolled_back(cloud, host, operation, status):
    uuid = boot(cloud)
    cloud.computes[host].driver.failures[operation] = RuntimeError('canary') if operation != 'check_source' else (
        exception.VirtError(operation=operation, reason='canary'))
    number = migrate(cloud, uuid, host='host2')
    at_home(cloud, uuid, number, status)
    fault = cloud.row(uuid)['fault']
    assert 'canary' not in fault['message'] and cloud.actions(uuid)[-1][1] == 'Error'
    cloud.computes[host].driver.failures.clear()
    migrate(cloud, uuid, host='host2')
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host2'
    check(cloud)


def test_a_failure_after_the_arrival_leaves_the_server_there(cloud):
    uuid = boot(cloud)
    cloud.computes['host2'].driver.failures['post_live_migration_at_destination'] = RuntimeError('canary')
    number = migrate(cloud, uuid, host='host2')
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['task_state'], move(cloud, number)['status']) == ('host2', None, 'error')
    assert hosts_with(cloud, uuid) == ['host2'] and cloud.conductor.claim_check.audit() == []


@pytest.mark.parametrize('error', [OSError(30, 'Read-only file system'),
                                   exception.VirtError(operation='remove the guest', reason='canary')])
def test_a_failed_clean_up_at_the_source_does_not_delay_the_server(cloud, error):
    uuid = boot(cloud)
    cloud.computes['host1'].driver.failures['post_live_migration_at_source'] = error
    number = migrate(cloud, uuid, host='host2')
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['host'], row['vm_state'], row['task_state']) == ('host2', states.ACTIVE, None)
    assert move(cloud, number)['status'] == 'completed'
    check(cloud)


# ---- abort, delete ---------------------------------------------------------------

def abort(cloud, uuid, number, allowed=('queued', 'preparing', 'running'), lost=False):
    migration = cloud.db.run(live_migrations.note, number, allowed, {'abort': True})
    if migration['status'] == 'queued':
        assert cloud.db.run(live_migrations.end, migration, 'cancelled', event='e', host=None)
    elif not lost:
        server = cloud.conductor.methods.update_instance(None, uuid, {})
        cloud.computes['host1'].methods.abort_live_migration(cloud.ctx, server)


@pytest.mark.parametrize('lost', [False, True])
def test_aborted_live_migration_stays_on_the_source(cloud, lost):
    """Without its message the source hears of it with its next report."""
    uuid = boot(cloud)
    number = running(cloud, uuid, host='host2')
    abort(cloud, uuid, number, lost=lost)
    at_home(cloud, uuid, number, 'cancelled')


def test_queued_migration_can_be_aborted(cloud):
    first, second = boot(cloud), boot(cloud)
    number = running(cloud, first, host='host2')
    waiting = migrate(cloud, second, host='host2')
    wait_for(lambda: move(cloud, waiting)['status'] == 'queued', what='not queued')
    abort(cloud, second, waiting)
    assert cloud.row(second)['task_state'] is None
    again = migrate(cloud, second, host='host3')           # the first one still stands in the line
    abort(cloud, first, number)
    slow(cloud, 0)
    cloud.settle()
    assert move(cloud, waiting)['status'] == 'cancelled' and move(cloud, again)['status'] == 'completed'
    assert cloud.row(first)['host'] == 'host1' and cloud.row(second)['host'] == 'host3'
    check(cloud)


def test_other_tasks_of_a_queued_server_do_not_wait_for_others(cloud):
    """A delete, above all: it stood behind the migrations of all servers before it."""
    first, second = boot(cloud), boot(cloud)
    number = running(cloud, first, host='host2')
    waiting = migrate(cloud, second, host='host2')
    wait_for(lambda: move(cloud, waiting)['status'] == 'queued', what='not queued')
    cloud.delete(second)
    wait_for(lambda: cloud.gone(second), what='the delete waits')
    assert move(cloud, number)['status'] == 'running'
    abort(cloud, first, number)
    at_home(cloud, first, number, 'cancelled')


@pytest.mark.parametrize('lost', [False, True])
def test_a_delete_does_not_wait_for_the_end(cloud, lost):
    uuid = boot(cloud)
    running(cloud, uuid, host='host2')
    begun = time.monotonic()
    if lost:
        cloud.bus.lost = lambda topic, method, server: method == 'terminate_instance'
    cloud.delete(uuid)
    if lost:
        wait_for(
            lambda: uuid not in cloud.computes['host1'].driver.features[virt.LiveMigration].jobs, what='it goes on')
        cloud.settle()
        cloud.bus.lost = None
        cloud.pass_time()
        cloud.conductor.reconciler.reconcile()
    cloud.settle()
    assert cloud.gone(uuid) and time.monotonic() - begun < 25          # the copy would take 30
    check(cloud)


def test_a_server_is_deleted_although_its_migration_cannot_be_aborted(cloud):
    """Its migration has ended at that moment."""
    uuid = boot(cloud)
    running(cloud, uuid, host='host2')
    cloud.computes['host1'].driver.failures['abort_live_migration'] = exception.GuestNotFound(instance_id=uuid)
    cloud.delete(uuid)
    complete(cloud, uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    check(cloud)


# ---- parts that die --------------------------------------------------------------

def restart(cloud, host):
    cloud.start_compute(host)
    cloud.settle()


def test_the_source_is_restarted_while_it_runs(cloud):
    uuid = boot(cloud)
    number = running(cloud, uuid, host='host2')
    cloud.kill_compute('host1')
    restart(cloud, 'host1')
    at_home(cloud, uuid, number, 'failed')


def test_the_source_crashes_while_it_runs(cloud, monkeypatch):
    uuid = boot(cloud)
    number = running(cloud, uuid, host='host2')
    cloud.kill_compute('host1')
    monkeypatch.setattr(recovery, 'boot_id', lambda: 'next')

    def crashed(driver):
        driver.init_host()
        driver.machine.change_by_itself(uuid, states.SHUTDOWN)
    cloud.start_compute('host1', crashed)
    at_home(cloud, uuid, number, 'failed')
    assert cloud.computes['host1'].driver.guests()[uuid] == states.RUNNING


def goes_ahead(cloud):
    """A server whose guest runs at host2 already, while a part of its memory is at host1, whose nova-compute ends."""
    uuid = boot(cloud)
    number = running(cloud, uuid, host='host2')
    driver = cloud.computes['host1'].driver
    driver.machine.guests[uuid]['ahead'] = 'host2'
    driver.machine.save()
    cloud.kill_compute('host1')
    return uuid, number


def test_the_source_is_restarted_while_a_part_of_a_guest_that_runs_at_the_destination_is_here(cloud):
    """The conductor had it removed at the destination, because it was here, too (post-copy)."""
    uuid, number = goes_ahead(cloud)
    there = cloud.computes['host2'].driver.features[virt.LiveMigration]
    there.disconnect()                               # the network is broken
    cloud.start_compute('host1')
    time.sleep(0.2)
    assert cloud.row(uuid)['task_state'] == states.MIGRATING and move(cloud, number)['status'] == 'running'
    there.connect()
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host2' and move(cloud, number)['status'] == 'completed'
    assert hosts_with(cloud, uuid) == ['host2']
    check(cloud)


def test_a_server_that_is_deleted_meanwhile_is_not_waited_for(cloud):
    uuid, _number = goes_ahead(cloud)
    cloud.computes['host2'].driver.features[virt.LiveMigration].disconnect()
    cloud.start_compute('host1')
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    check(cloud)


def test_the_source_is_restarted_while_it_is_queued(cloud):
    first, second = boot(cloud), boot(cloud)
    running(cloud, first, host='host2')
    waiting = migrate(cloud, second, host='host3')
    wait_for(lambda: move(cloud, waiting)['status'] == 'queued', what='not queued')
    cloud.kill_compute('host1')
    restart(cloud, 'host1')
    assert cloud.row(first)['host'] == 'host1' and cloud.row(second)['host'] == 'host3'
    assert move(cloud, waiting)['status'] == 'completed'
    check(cloud)


def test_the_source_dies_between_the_arrival_and_its_record(cloud):
    """The guest runs at the destination, the row says that it is at the source."""
    uuid = boot(cloud)
    cloud.bus.lost = lambda topic, method, server: method == 'live_migration_arrived'
    number = migrate(cloud, uuid, host='host2')
    wait_for(lambda: hosts_with(cloud, uuid) == ['host2'], what='it does not arrive')
    cloud.kill_compute('host1')
    cloud.bus.lost = None
    assert cloud.row(uuid)['host'] == 'host1'
    cloud.kill_compute('host2')                      # the destination does not take its guest for an orphan
    restart(cloud, 'host2')
    assert hosts_with(cloud, uuid) == ['host2']
    restart(cloud, 'host1')
    assert cloud.row(uuid)['host'] == 'host2' and move(cloud, number)['status'] == 'completed'
    check(cloud)


def test_migration_completes_after_the_source_died(cloud):
    uuid = boot(cloud)
    cloud.bus.lost = lambda topic, method, server: method == 'live_migration_arrived'
    number = migrate(cloud, uuid, host='host2')
    wait_for(lambda: hosts_with(cloud, uuid) == ['host2'], what='it does not arrive')
    cloud.kill_compute('host1')
    cloud.bus.lost = None
    down(cloud, 'host1')
    cloud.pass_time()
    cloud.conductor.reconciler.reconcile()
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host2' and move(cloud, number)['status'] == 'completed'
    check(cloud)


def test_the_destination_dies_while_it_runs(cloud):
    uuid = boot(cloud)
    number = running(cloud, uuid, host='host2')
    cloud.kill_compute('host2')
    complete(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host1' and move(cloud, number)['status'] == 'failed'
    restart(cloud, 'host2')
    at_home(cloud, uuid, number, 'failed')


def test_the_destination_is_restarted_while_it_runs(cloud):
    """It has forgotten what it expects: the guest stays where it is."""
    uuid = boot(cloud)
    number = running(cloud, uuid, host='host2')
    cloud.kill_compute('host2')
    cloud.start_compute('host2')
    complete(cloud, uuid)
    at_home(cloud, uuid, number, 'failed')


def test_destination_finishes_the_migration_after_its_restart(cloud):
    uuid = boot(cloud)
    cloud.bus.lost = lambda topic, method, server: method == 'finish_live_migration'
    number = migrate(cloud, uuid, host='host2')
    wait_for(lambda: move(cloud, number)['status'] == 'post-migrating', what='it does not arrive')
    cloud.settle()
    cloud.kill_compute('host2')
    cloud.bus.lost = None
    restart(cloud, 'host2')
    assert cloud.row(uuid)['host'] == 'host2' and move(cloud, number)['status'] == 'completed'
    check(cloud)


@pytest.mark.parametrize('method', ['live_migrate_instance', 'finish_live_migration', 'continue_live_migration'])
def test_a_message_is_lost(cloud, method):
    uuid = boot(cloud)
    cloud.bus.lost = lambda topic, name, server: name == method
    number = migrate(cloud, uuid, host='host2')
    cloud.settle()
    assert cloud.row(uuid)['task_state'] == states.MIGRATING
    cloud.bus.lost = None
    cloud.pass_time()
    cloud.conductor.reconciler.reconcile()
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host2' and move(cloud, number)['status'] == 'completed'
    check(cloud)


def test_messages_that_come_twice_do_nothing(cloud):
    uuid = boot(cloud)
    number = running(cloud, uuid, host='host2')
    for _ in range(2):
        cloud.pass_time()
        cloud.conductor.reconciler.reconcile()
        cloud.client['conductor'].continue_live_migration(cloud.ctx, instance_uuid=uuid)
    complete(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host2' and move(cloud, number)['status'] == 'completed'
    check(cloud)


# ---- races -----------------------------------------------------------------------

def test_second_parallel_live_migration_is_refused(cloud):
    uuid = boot(cloud)
    results = races.outcomes(*[lambda host=host: migrate(cloud, uuid, host=host) for host in ('host2', 'host3')])
    assert [type(found) for found in results if isinstance(found, Exception)] == [exception.InstanceInvalidState]
    cloud.settle()
    assert len(moves(cloud, uuid)) == 1 and cloud.row(uuid)['host'] != 'host1'
    check(cloud)


@pytest.mark.parametrize('pause', [0, 0.01, 0.05, 0.1])
def test_delete_at_any_moment(cloud, pause):
    uuid = boot(cloud)

    def delete():
        time.sleep(pause)
        cloud.delete(uuid)
    slow(cloud, 0.05)
    races.outcomes(lambda: migrate(cloud, uuid), delete)
    cloud.settle()
    for _ in range(3):
        if cloud.gone(uuid):
            break
        cloud.pass_time()
        cloud.conductor.reconciler.reconcile()
        cloud.settle()
    assert cloud.gone(uuid)
    check(cloud)


# ---- a conductor that dies ---------------------------------------------------------

def test_a_conductor_that_starts_takes_up_what_one_was_choosing_for(cloud, monkeypatch):
    uuid = boot(cloud)
    number = begin(cloud, uuid)
    assert cloud.conductor.reconciler.reconcile() == 0
    monkeypatch.setattr(reconciler, 'START_GRACE_S', -1)
    cloud.conductor.start()
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert move(cloud, number)['status'] == 'completed'
    check(cloud)


def test_next_conductor_continues_a_claimed_migration(cloud):
    """The claim is there already: the next one goes on with it."""
    uuid = boot(cloud)
    number = begin(cloud, uuid)
    spec = cloud.conductor.methods.get_request_spec(None, uuid)
    assert cloud.scheduler.methods.select_move(cloud.ctx, spec, number, ['host1'], 'host3', False)
    assert cloud.node('host3')['running_vms'] == 1
    cloud.pass_time()
    cloud.conductor.reconciler.reconcile()
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host3' and move(cloud, number)['status'] == 'completed'
    check(cloud)


def test_reconciler_decides_about_live_migrations_and_evacuations():
    row = {'vm_state': states.ACTIVE, 'task_state': states.MIGRATING, 'host': 'h'}
    assert reconciler.decide(row, False, True) == 'migrate'
    rebuilding = {**row, 'task_state': states.REBUILDING}
    assert reconciler.decide_evacuation(rebuilding, False, True) == 'evacuate'
    assert reconciler.decide(rebuilding, True, False) == 'resend'
    assert reconciler.decide_evacuation({**row, 'task_state': None}, True, False) == 'close'


def test_nothing_of_how_to_reach_volumes_stays_in_the_record(cloud):
    uuid = boot(cloud)
    number = migrate(cloud, uuid, host='host2')
    cloud.settle()
    assert 'connector' not in move(cloud, number)['arguments'] and 'volumes' not in move(cloud, number)['arguments']
