"""Cold moves between three hosts, below the API: every path, every failure, every crash leaves nothing behind."""
import dataclasses
import datetime
import threading

import pytest
import sqlalchemy as sa

from nova import actions
from nova import exception
from nova import states
from nova import utils
from nova.compute import records
from nova.conductor.moves import cold
from nova.db.moves import migrations as server_migrations
from nova.db.projects import quotas
from nova.db.servers import history
from nova.db.servers import tasks
from nova.db.tables import cell as tables_cell
from nova.runtime import metrics
from nova.tests import core
from nova.tests.support import core_moves
from nova.tests.support.core_moves import BIG
from nova.tests.support.core_moves import Cloud
from nova.tests.support.core_moves import HOSTS
from nova.tests.support.waiting import wait_for
from nova.virt import driver as virt

cloud = core_moves.cloud


MORE = {**core.FLAVOR, 'flavor_id': '3', 'name': 'more', 'memory_mb': 1024, 'vcpus': 2}
def pass_time(cloud, seconds=None):
    """Every deadline has passed; with ``seconds`` the actions were begun so long ago."""
    table = tables_cell.instance_actions
    values = {'deadline': utils.utcnow() - datetime.timedelta(seconds=1)}
    if seconds:
        values['started_at'] = utils.utcnow() - datetime.timedelta(seconds=seconds)
    with cloud.db.writer() as conn:
        conn.execute(sa.update(table).where(table.c.finished_at.is_(None)).values(**values))


def boot(cloud, stopped):
    uuid = cloud.boot()
    if stopped:
        cloud.act(uuid, 'os-stop', clean_shutdown=True)
        cloud.settle()
    power = states.SHUTDOWN if stopped else states.RUNNING
    return uuid, (states.STOPPED if stopped else states.ACTIVE, None, power)


def test_hosts_of_another_hypervisor_cannot_take_a_guest(cloud):
    """A simulated one would take it, and its disks would stay where they are."""
    def replaced(host):
        driver = cloud.computes[host].driver
        known = driver.resources()
        driver.resources = lambda: [dataclasses.replace(node, hypervisor_type='QEMU') for node in known]
        cloud.computes[host].inventory.report()
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    first, second = (host for host in HOSTS if host != source)
    replaced(first)
    number = cloud.move(uuid)
    cloud.settle()
    assert cloud.migration(number)['dest_compute'] == second
    cloud.end(uuid, 'revertResize')
    cloud.settle()
    replaced(second)
    number = cloud.move(uuid)
    cloud.settle()
    row = cloud.row(uuid)
    assert cloud.migration(number)['status'] == 'error' and row['host'] == source
    assert 'MovedGuestFilter removed 2' in row['fault']['details'], row['fault']


@pytest.mark.parametrize('stopped', [False, True])
@pytest.mark.parametrize('ending', ['confirmResize', 'revertResize'])
@pytest.mark.parametrize('flavor', [None, BIG])
def test_a_move_and_its_end(cloud, stopped, ending, flavor):
    uuid, before = boot(cloud, stopped)
    source, address = cloud.row(uuid)['host'], cloud.row(uuid)['network_info']
    number = cloud.move(uuid, flavor)
    cloud.settle()
    row, move = cloud.row(uuid), cloud.migration(number)
    assert cloud.state(uuid) == (states.RESIZED, None, before[2]), row['fault']
    assert row['host'] != source and move['status'] == 'finished' and move['claims_swapped']
    assert (move['source_compute'], move['dest_compute']) == (source, row['host'])
    assert move['dest_host'] == '127.0.0.1' and move['claimed_host'] == source
    assert row['flavor'] == (flavor or core.FLAVOR) and row['memory_mb'] == row['flavor']['memory_mb']
    assert cloud.guests()[uuid] == row['host'] and cloud.conductor.claim_check.audit() == []
    assert cloud.computes[source].driver.features[virt.Resize].resize_backups() == [uuid]
    assert cloud.counted(uuid) == (row['vcpus'], row['memory_mb'])
    cloud.end(uuid, ending)
    cloud.settle()
    row, move = cloud.row(uuid), cloud.migration(number)
    assert cloud.state(uuid) == before
    assert move['status'] == ('confirmed' if ending == 'confirmResize' else 'reverted')
    assert (row['host'] == source) == (ending == 'revertResize') and row['network_info'] == address
    assert row['flavor'] == ((flavor or core.FLAVOR) if ending == 'confirmResize' else core.FLAVOR)
    assert [action[:3] for action in cloud.actions(uuid)][-2:] == [
        ('resize' if flavor else 'migrate', None, True), (ending, None, True)]
    cloud.check()


@pytest.mark.parametrize('ending', ['confirmResize', 'revertResize'])
def test_resize_on_the_same_host_can_be_confirmed_and_reverted(tmp_path, ending):
    cloud = Cloud(tmp_path)
    uuid = cloud.boot()
    cloud.move(uuid, BIG, ignored_hosts=[])
    cloud.settle()
    assert cloud.state(uuid)[0] == states.RESIZED and cloud.node()['memory_mb_used'] == 1536
    cloud.end(uuid, ending)
    cloud.settle()
    assert cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING)
    assert cloud.row(uuid)['memory_mb'] == (1024 if ending == 'confirmResize' else 512)
    cloud.check()
    cloud.close()


def test_migration_uses_the_requested_host(cloud):
    uuid = cloud.boot()
    wanted = next(host for host in HOSTS if host != cloud.row(uuid)['host'])
    cloud.move(uuid, host=wanted)
    cloud.settle()
    assert cloud.row(uuid)['host'] == wanted
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    cloud.check()


def failing(cloud, operation, hosts=HOSTS):
    for host in hosts:
        cloud.computes[host].driver.failures[operation] = exception.VirtError(operation=operation, reason='canary')


def others(cloud, uuid):
    return [host for host in HOSTS if host != cloud.row(uuid)['host']]


def test_a_destination_that_refuses_is_replaced(cloud):
    uuid = cloud.boot()
    refusing, taking = others(cloud, uuid)
    failing(cloud, 'accept_guest', [refusing])
    for _ in range(4):                   # until the one that refuses was chosen first
        number = cloud.move(uuid)
        cloud.settle()
        assert cloud.state(uuid)[0] == states.RESIZED
        assert cloud.row(uuid)['host'] == taking
        tried = cloud.migration(number)['arguments'].get('tried_hosts')
        cloud.end(uuid, 'revertResize')
        cloud.settle()
        assert cloud.migration(number)['status'] == 'reverted' and cloud.row(uuid)['fault'] is None
        assert cloud.actions(uuid)[-1][:2] == ('revertResize', None)
        if tried:
            break
        with cloud.db.writer() as conn:
            conn.execute(sa.update(tables_cell.compute_nodes).where(
                tables_cell.compute_nodes.c.host == refusing).values(
                memory_mb=10 ** 6, change_number=utils.change_number()))
    assert tried == [refusing]
    cloud.check()


@pytest.mark.parametrize('stopped', [False, True])
@pytest.mark.parametrize(('operation', 'attempts'), [('accept_guest', 2), ('send_guest', 1), ('finish_migration', 1)])
def test_a_move_that_fails_leaves_the_server_as_it_was(cloud, operation, attempts, stopped):
    uuid, before = boot(cloud, stopped)
    source = cloud.row(uuid)['host']
    failing(cloud, operation)
    number = cloud.move(uuid, BIG)
    cloud.settle()
    row = cloud.row(uuid)
    assert cloud.state(uuid) == before and row['host'] == source and row['flavor'] == core.FLAVOR
    assert row['fault']['code'] == 500 and 'canary' not in row['fault']['message']
    assert 'canary' in row['fault']['details']
    action, message, finished, events = cloud.actions(uuid)[-1]
    assert (action, message, finished) == ('resize', 'Error', True)
    assert cloud.migration(number)['status'] == 'error'
    if operation == 'accept_guest':
        assert len(cloud.migration(number)['arguments']['tried_hosts']) == attempts
    cloud.check()


def test_no_host_is_left(cloud):
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    number = cloud.move(uuid, {**BIG, 'vcpus': 1000})
    cloud.settle()
    row = cloud.row(uuid)
    assert cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING) and row['host'] == source
    assert 'No valid host was found. 3 hosts: 1 is excluded' in row['fault']['message']
    assert cloud.migration(number)['status'] == 'error'
    cloud.check()


@pytest.mark.parametrize(('ending', 'operation'), [
    ('confirmResize', 'confirm_migration'), ('revertResize', 'drop_migrated')])
def test_an_end_that_fails_can_be_asked_for_again(cloud, ending, operation):
    uuid = cloud.boot()
    cloud.move(uuid, BIG)
    cloud.settle()
    failing(cloud, operation)
    cloud.end(uuid, ending)
    cloud.settle()
    assert cloud.state(uuid)[:2] == (states.RESIZED, None)
    assert cloud.row(uuid)['fault'] and cloud.actions(uuid)[-1][1] == 'Error'
    assert cloud.conductor.claim_check.audit() == []
    for compute in cloud.computes.values():
        compute.driver.failures.clear()
    cloud.end(uuid, ending)
    cloud.settle()
    assert cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING)
    cloud.check()


def test_failed_revert_leaves_the_server_in_error_on_its_source(cloud):
    """The server is in ERROR on its source, nothing is held, and a hard reboot helps."""
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    number = cloud.move(uuid, BIG)
    cloud.settle()
    failing(cloud, 'finish_revert_migration')
    cloud.end(uuid, 'revertResize')
    cloud.settle()
    assert cloud.state(uuid)[:2] == (states.ERROR, None) and cloud.row(uuid)['host'] == source
    assert cloud.migration(number)['status'] == 'error' and cloud.conductor.claim_check.audit() == []
    cloud.act(uuid, 'reboot-hard', reboot_type='HARD')
    cloud.settle()
    assert cloud.state(uuid)[0] == states.ACTIVE


# what is interrupted, on which end of the move
CRASHES = (('accept_guest', 'dest'), ('send_guest', 'source'), ('finish_migration', 'dest'),
           ('confirm_migration', 'source'), ('drop_migrated', 'dest'), ('finish_revert_migration', 'source'))


@pytest.mark.parametrize(('operation', 'end'), CRASHES)
def test_move_continues_after_a_host_was_killed(cloud, operation, end):
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    target = others(cloud, uuid)[0]
    host = source if end == 'source' else target
    numbers = []

    def move():
        numbers.append(cloud.move(uuid, BIG, host=target))
    if operation in ('accept_guest', 'send_guest', 'finish_migration'):
        cloud.kill_in(host, operation, move)
    else:
        move()
        cloud.settle()
        cloud.kill_in(host, operation, lambda: cloud.end(
            uuid, 'confirmResize' if operation == 'confirm_migration' else 'revertResize'))
    assert cloud.row(uuid)['task_state'] is not None
    cloud.settle()
    cloud.start_compute(host)
    cloud.settle()
    if cloud.row(uuid)['vm_state'] == states.RESIZED:
        cloud.end(uuid, 'confirmResize')
        cloud.settle()
    assert cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING), cloud.row(uuid)['fault']
    assert cloud.migration(numbers[0])['status'] == ('reverted' if 'revert' in operation or 'drop' in operation
                                                     else 'confirmed')
    cloud.check()


CALLS = ('move_accepted', 'move_sent', 'move_finished', 'move_confirmed', 'reverted_guest_removed', 'move_reverted',
         'prep_resize', 'resize_instance', 'finish_resize', 'confirm_resize', 'revert_resize', 'finish_revert_resize')


@pytest.mark.parametrize('method', CALLS)
def test_lost_message_of_a_move_is_sent_again(cloud, method, monkeypatch):
    """The reconciler sends it again when its deadline has passed; a call that finds no conductor ends its task."""
    monkeypatch.setattr('nova.rpc.retrying_client.RETRIES', 1)
    uuid = cloud.boot()
    lost = []

    def lose(topic, name, server):
        if name == method and not lost:
            lost.append(name)
            return True
        return False
    cloud.bus.lost = lose

    def until(condition):
        cloud.settle()
        for _ in range(3):
            if condition():
                return
            pass_time(cloud)
            cloud.conductor.reconciler.reconcile()
            cloud.settle()
        assert condition(), cloud.row(uuid)
    cloud.move(uuid, BIG)
    until(lambda: cloud.state(uuid)[:2] == (states.RESIZED, None))
    reverts = method in ('reverted_guest_removed', 'move_reverted', 'revert_resize', 'finish_revert_resize')
    cloud.end(uuid, 'revertResize' if reverts else 'confirmResize')
    until(lambda: cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING))
    assert lost == [method]
    cloud.check()


def test_every_message_comes_twice(cloud):
    """Nothing is done twice, and nothing is undone."""
    uuid = cloud.boot()
    original = cloud.bus.cast

    def twice(function, ctx, arguments):
        original(function, ctx, arguments)
        original(function, ctx, arguments)
    cloud.bus.cast = twice
    cloud.move(uuid, BIG)
    cloud.settle()
    assert cloud.state(uuid) == (states.RESIZED, None, states.RUNNING)
    cloud.end(uuid, 'revertResize')
    cloud.settle()
    assert cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING)
    cloud.move(uuid)
    cloud.settle()
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    assert cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING)
    cloud.check()


@pytest.mark.parametrize('action, status', [('confirmResize', 'confirming'), ('revertResize', 'reverting')])
def test_a_guest_is_said_to_be_there_again_after_its_owner_has_answered(cloud, action, status):
    """The destination took it for another's change, and removed the guest that its owner had just confirmed."""
    uuid = cloud.boot()
    number = cloud.move(uuid, BIG)
    cloud.settle()
    cloud.db.run(server_migrations.begin_end, cloud.ctx, uuid, actions.ACTIONS[action], status)
    for _ in range(2):
        row = cloud.row(uuid)
        cloud.client['conductor'].move_finished(cloud.ctx, migration_id=number, host=row['host'],
                                                power_state=states.RUNNING, network_info=row['network_info'])
        cloud.client['conductor'].continue_move(cloud.ctx, instance_uuid=uuid)
        cloud.settle()
    assert cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING)
    cloud.check()


def test_move_continues_after_a_conductor_died_before_the_choice(cloud):
    uuid = cloud.boot()
    cloud.move(uuid, BIG, send=False)
    pass_time(cloud)
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert cloud.state(uuid)[0] == states.RESIZED
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    cloud.check()


def test_a_scheduler_that_is_away_for_a_moment_is_asked_again_soon(cloud):
    """A resize that met one which restarted waited for two minutes."""
    uuid = cloud.boot()
    cloud.bus.lost = lambda topic, name, server: topic == 'scheduler'
    cloud.move(uuid)
    cloud.settle()
    cloud.bus.lost = None
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.RESIZED
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    cloud.check()


def test_a_confirmation_does_not_wait_for_a_source_that_is_down(cloud):
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    cloud.move(uuid, BIG)
    cloud.settle()
    cloud.kill_compute(source)
    cloud.force_down(source)
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    assert cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING) and cloud.conductor.claim_check.audit() == []
    cloud.start_compute(source)
    cloud.settle()
    cloud.check()


def test_a_destination_that_went_down_before_it_was_asked_is_replaced(cloud):
    """Its message waits in the broker for ever: the reconciler does not send it there again."""
    uuid = cloud.boot()
    cloud.bus.lost = lambda topic, method, server: method == 'prep_resize'
    number = cloud.move(uuid)
    cloud.settle()
    cloud.bus.lost = None
    dead = cloud.migration(number)['dest_compute']
    cloud.force_down(dead)
    pass_time(cloud)
    cloud.conductor.reconciler.reconcile()
    cloud.settle()
    assert cloud.state(uuid)[0] == states.RESIZED and cloud.row(uuid)['host'] != dead
    assert cloud.migration(number)['arguments']['tried_hosts'] == [dead]
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    cloud.check()


@pytest.mark.parametrize('host', ['source', 'dest'])
def test_a_move_that_hangs_is_given_up(cloud, host):
    """Its host does not come back: the server is set free as far as that is possible."""
    uuid = cloud.boot()
    source, target = cloud.row(uuid)['host'], others(cloud, uuid)[0]
    dead = source if host == 'source' else target
    lost = 'resize_instance' if host == 'source' else 'finish_resize'
    cloud.bus.lost = lambda topic, method, server: method == lost
    number = cloud.move(uuid, BIG, host=target)
    cloud.settle()
    cloud.kill_compute(dead)
    cloud.bus.lost = None
    pass_time(cloud, 100000)
    for _ in range(3):
        cloud.conductor.reconciler.reconcile()
        cloud.settle()
        pass_time(cloud, 100000)
    assert cloud.state(uuid)[:2] == (states.ACTIVE, None) and cloud.row(uuid)['host'] == source
    assert cloud.migration(number)['status'] == 'error' and cloud.row(uuid)['fault']
    cloud.start_compute(dead)
    cloud.settle()
    cloud.check()


def test_a_guest_that_keeps_running_is_given_up_before_its_host_begins(cloud):
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    cloud.bus.lost = lambda topic, method, server: method == 'grow_instance'
    number = cloud.move(uuid, MORE, host=source, ignored_hosts=[], in_place=True)
    cloud.settle()
    cloud.kill_compute(source)
    cloud.bus.lost = None
    pass_time(cloud, 100000)
    cloud.conductor.reconciler.reconcile()
    cloud.settle()
    assert cloud.state(uuid)[:2] == (states.ACTIVE, None) and cloud.migration(number)['status'] == 'error'
    assert cloud.row(uuid)['vcpus'] == 1
    cloud.start_compute(source)
    cloud.settle()
    cloud.check()


def test_resize_claim_is_kept_until_an_unreachable_host_returns(cloud):
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    number = cloud.kill_in(source, 'grow', lambda: cloud.move(uuid, MORE, host=source, ignored_hosts=[], in_place=True))
    cloud.force_down(source)
    for _ in range(2):
        pass_time(cloud, 100000)
        cloud.conductor.reconciler.reconcile()
        cloud.settle()
    assert cloud.row(uuid)['task_state'] == states.RESIZE_FINISH and cloud.counted(uuid) == (2, 1024)
    assert cloud.migration(number)['claimed_vcpus'] == 1 and cloud.conductor.claim_check.audit() == []
    cloud.start_compute(source)
    cloud.settle()
    assert cloud.state(uuid)[:2] == (states.ACTIVE, None) and cloud.row(uuid)['vcpus'] == 2
    assert cloud.migration(number)['status'] == 'confirmed'
    cloud.check()


def test_a_delete_while_the_other_host_is_down(cloud):
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    cloud.move(uuid, BIG)
    cloud.settle()
    cloud.kill_compute(source)
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    cloud.start_compute(source)
    cloud.settle()
    cloud.check()


def test_a_resize_backup_of_a_deleted_server_is_compared_with_its_last_generation(cloud):
    """The host has a record of the guest that left, and no row."""
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    cloud.move(uuid, BIG)
    cloud.settle()
    record = cloud.computes[source].host.records.get(uuid)
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    with cloud.db.reader() as conn:
        generation = history.generations(conn, [uuid])[uuid]
    entry, = cloud.conductor.methods['continue_moves'](cloud.ctx, host=source, resize_backups=[uuid])
    assert not entry['restore'] and entry['instance'].generation == generation
    assert records.refusal(record, entry['instance'], None, '') is None


def removed(what):
    return metrics.REGISTRY.get_sample_value('nova_compute_orphans_removed_total', {'kind': what}) or 0


def killed_while_a_guest_comes(cloud):
    """(uuid of the server, its destination, which is down)."""
    uuid = cloud.boot()
    target = others(cloud, uuid)[0]
    cloud.kill_in(target, 'finish_migration', lambda: cloud.move(uuid, host=target))
    cloud.settle()
    return uuid, target


def deleted_meanwhile(cloud):
    uuid, target = killed_while_a_guest_comes(cloud)
    cloud.force_down(target)
    cloud.db.run(tasks.begin, cloud.ctx, uuid, actions.ACTIONS['delete'])
    cloud.client['conductor'].delete_instance(cloud.ctx, instance_uuid=uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    return uuid, target


def test_files_of_a_deleted_server_are_removed_from_its_destination(cloud):
    """There is no guest of what had come, so nothing looked for it."""
    uuid, target = deleted_meanwhile(cloud)
    before, here = removed('files'), []

    def look(driver):
        driver.init_host()
        here.extend(driver.leftovers())
    cloud.start_compute(target, look)
    cloud.settle()
    assert here == [uuid] and removed('files') == before + 1
    cloud.check()


def test_files_of_a_server_that_moves_here_stay(cloud):
    """Also where a second look comes before the move goes on."""
    uuid, target = killed_while_a_guest_comes(cloud)
    before = removed('files')
    cloud.bus.lost = lambda topic, method, server: method == 'finish_resize'
    driver = cloud.start_compute(target).driver
    cloud.settle()
    cloud.computes[target].power_states.synchronize()
    cloud.settle()
    assert list(driver.leftovers()) == [uuid] and removed('files') == before
    cloud.bus.lost = None
    cloud.client['conductor'].continue_move(cloud.ctx, instance_uuid=uuid)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.RESIZED
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    cloud.check()


def test_moves_are_read_before_servers(cloud):
    """On a server each statement sees its own moment: of a move that ends between, the row says where the server is. In
    the other order a host heard that what had just come to it is elsewhere, and removed it."""
    uuid, read, here = cloud.boot(), [], threading.get_ident()

    def note(conn, cursor, statement, *rest):
        if threading.get_ident() == here:
            read.extend(name for name in ('migrations', 'instances') if f'FROM {name} ' in statement.replace('\n', ' '))
    sa.event.listen(sa.engine.Engine, 'before_cursor_execute', note)
    try:
        answer = cloud.conductor.methods.server_states(None, host='host1', uuids=[uuid])
    finally:
        sa.event.remove(sa.engine.Engine, 'before_cursor_execute', note)
    assert list(answer) == [uuid] and set(read) == {'migrations', 'instances'}
    assert read.index('instances') > max(index for index, name in enumerate(read) if name == 'migrations')


def test_nothing_is_removed_without_an_answer(cloud, monkeypatch):
    monkeypatch.setattr('nova.rpc.retrying_client.RETRIES', 1)
    uuid, target = deleted_meanwhile(cloud)
    compute = cloud.start_compute(target, lambda driver: setattr(driver, 'leftovers', dict))
    del compute.driver.leftovers
    cloud.bus.lost = lambda topic, method, server: method == 'server_states'
    with pytest.raises(exception.ServiceUnavailable):
        compute.power_states.synchronize()
    assert list(compute.driver.leftovers()) == [uuid]
    cloud.bus.lost = None
    compute.came_back()
    wait_for(lambda: not compute.driver.leftovers())
    cloud.settle()
    cloud.check()


def test_incoming_guests_are_discarded_after_their_move(cloud):
    """A host that died before the rollback kept the ports of the guest plugged until the next attempt."""
    uuid, given_up = cloud.boot(), []
    here = cloud.row(uuid)['host']
    other = next(name for name in cloud.computes if name != here)
    for name in (here, other):                  # at home, the guest has come: what was made ready is its own
        feature = cloud.computes[name].driver.features[virt.LiveMigration]
        feature.incoming_guests = lambda: [uuid] if uuid not in given_up else []
        feature.discard_incoming_guest = given_up.append
        cloud.computes[name].power_states.synchronize()
        cloud.settle()
        assert given_up == ([] if name == here else [uuid])
    cloud.check()


def test_unknown_orphans_are_reported_and_kept(cloud, caplog):
    unknown, kept = '70a599e0-31e7-49b7-b260-868f441e8620', '70a599e0-31e7-49b7-b260-868f441e8621'
    compute = cloud.computes['host1']
    compute.driver.machine.set_incoming(unknown, True)
    compute.driver.machine.keep(kept, {})
    for _ in range(2):
        compute.power_states.synchronize()
        cloud.settle()
    assert list(compute.driver.leftovers()) == [unknown]
    assert compute.driver.features[virt.Resize].resize_backups() == [kept]
    for what in ('files', 'resize_backup'):
        assert metrics.REGISTRY.get_sample_value('nova_compute_orphans', {'kind': what}) == 1
    assert [record.message.partition(':')[0] for record in caplog.records if unknown in record.message] == [
        f'Files of an incomplete operation of server {unknown}']
    compute.driver.machine.set_incoming(unknown, False)
    compute.driver.machine.forget_kept(kept)
    compute.power_states.synchronize()
    assert metrics.REGISTRY.get_sample_value('nova_compute_orphans', {'kind': 'resize_backup'}) == 0


def test_old_moves_are_confirmed_automatically(cloud):
    uuid, other = cloud.boot(), cloud.boot()
    for each in (uuid, other):
        cloud.move(each)
        cloud.settle()
    assert cloud.conductor.moves.confirm_old_moves() == 0
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.migrations).where(
            tables_cell.migrations.c.instance_uuid == uuid).values(
            updated_at=utils.utcnow() - datetime.timedelta(hours=24, seconds=1)))
    cloud.conf.set_override('resize_confirm_window', 0)                     # never
    assert cloud.conductor.moves.confirm_old_moves() == 0
    cloud.conf.clear_override('resize_confirm_window')                      # after 24 hours
    assert cloud.conductor.moves.confirm_old_moves() == 1
    cloud.settle()
    assert cloud.state(uuid)[0] == states.ACTIVE and cloud.state(other)[0] == states.RESIZED


def test_claims_of_a_resize_are_counted_on_both_hosts(cloud):
    """A host that takes a move has no room for others, and a source keeps the room for a revert."""
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    cloud.move(uuid, {**BIG, 'memory_mb': cloud.conf.fake.memory_mb})
    cloud.settle()
    assert cloud.state(uuid)[0] == states.RESIZED
    taken = cloud.row(uuid)['host']
    assert cloud.node(taken)['memory_mb_used'] == cloud.conf.fake.memory_mb
    assert cloud.node(source)['memory_mb_used'] == 512 and cloud.node(source)['running_vms'] == 1
    for _ in range(4):
        assert cloud.row(cloud.boot())['host'] != taken
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.compute_nodes).where(
            tables_cell.compute_nodes.c.host == source).values(memory_mb_used=1))
    assert [each['column'] for each in cloud.conductor.claim_check.audit()] == ['memory_mb_used']


def test_quota_check_repairs_wrong_sizes(cloud):
    """A process that died between its writes to the two databases leaves the wrong size; a move does not."""
    uuid, moving = cloud.boot(), cloud.boot()
    cloud.move(moving, {**BIG, 'memory_mb': 256})
    cloud.settle()
    conductor = cloud.conductor
    assert cloud.counted(moving) == (2, 512) and conductor.quota_check.count_sizes() == 0
    cloud.api_db.run(quotas.set_size, uuid, 7, 7)
    assert [conductor.quota_check.count_sizes() for _ in range(3)] == [0, 0, 0]         # not due
    conductor.messages_lost()
    assert [conductor.quota_check.count_sizes() for _ in range(3)] == [0, 1, 0]
    assert cloud.counted(uuid) == (1, 512)
    cloud.api_db.run(quotas.set_size, uuid, 7, 7)
    conductor.quota_check.doubt_sizes()
    assert conductor.quota_check.count_sizes() == 0
    cloud.api_db.run(quotas.set_size, uuid, 1, 512)                         # a request was between its writes
    assert conductor.quota_check.count_sizes() == 0 and cloud.counted(uuid) == (1, 512)
    cloud.end(moving, 'confirmResize')
    cloud.settle()
    assert cloud.counted(moving) == (2, 256)
    cloud.check()


@pytest.mark.parametrize(('task', 'held', 'claims_swapped', 'step'), [
    (states.RESIZE_PREP, None, False, None), (states.RESIZE_PREP, 'd', False, ('prep_resize', 'd')),
    (states.RESIZE_MIGRATING, 'd', False, ('resize_instance', 's')),
    (states.RESIZE_MIGRATED, 's', True, ('finish_resize', 'd')),
    (states.RESIZE_FINISH, 's', True, ('finish_resize', 'd')),
    (states.RESIZE_CONFIRMING, 's', True, ('confirm_resize', 's')),
    (states.RESIZE_REVERTING, 's', True, ('revert_resize', 'd')),
    (states.RESIZE_REVERTING, 'd', False, ('finish_revert_resize', 's'))])
def test_next_step_of_a_move_follows_from_its_state(task, held, claims_swapped, step):
    migration = {'claimed_host': held, 'claims_swapped': claims_swapped, 'source_compute': 's', 'dest_compute': 'd',
                 'arguments': {}}
    assert cold.next_step(task, migration) == step


@pytest.mark.parametrize(('task', 'held', 'step'), [
    (states.RESIZE_PREP, None, None), (states.RESIZE_PREP, 's', ('grow_instance', 's')),
    (states.RESIZE_FINISH, 's', ('grow_instance', 's'))])
def test_next_step_of_a_live_migration_follows_from_its_state(task, held, step):
    migration = {'claimed_host': held, 'claims_swapped': False, 'source_compute': 's', 'dest_compute': held,
                 'arguments': {'in_place': True}}
    assert cold.next_step(task, migration) == step
