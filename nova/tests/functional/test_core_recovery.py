"""Services that die in the middle: a restarted compute and the reconciler finish what was begun."""
import datetime
import time
import uuid as uuidlib

import pytest
import sqlalchemy as sa

from nova import actions
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.compute import records
from nova.compute import recovery
from nova.compute import tasks
from nova.conductor.upkeep import reconciler
from nova.db.servers import block_devices
from nova.db.servers import instance_actions
from nova.db.servers import mappings
from nova.db.servers import request_specs
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import core
from nova.tests.support.waiting import settled
from nova.tests.support.waiting import wait_for
from nova.virt import driver as virt


@pytest.fixture
def cloud(tmp_path):
    cloud = core.Cloud(tmp_path)
    yield cloud
    cloud.close()


def test_interrupted_build_is_repeated(cloud):
    uuids = cloud.kill_in('host1', 'spawn', cloud.create)
    assert cloud.row(uuids[0])['task_state'] == states.SPAWNING
    cloud.start_compute('host1')
    cloud.settle()
    assert cloud.row(uuids[0])['vm_state'] == states.ACTIVE
    cloud.check()


@pytest.mark.parametrize('recorded, told', [('The guest failed.', False), (None, True)], ids=['failed', 'ended'])
def test_an_end_that_was_not_written_is_not_taken_for_one(cloud, recorded, told):
    """A build that was sent twice: the first run failed and the server went elsewhere, the second one made a guest
    and was told that all was written. The guest stayed.
    """
    uuid, = cloud.insert()
    with cloud.db.writer() as conn:
        instance_actions.add_event(conn, uuid, 'compute_build_instance', host='host1', error=recorded)

    def end():
        cloud.conductor.methods.end_task(cloud.ctx, uuid, 'compute_build_instance', 'host1', {'task_state': None},
                                 expect={'host': ['host1']})
    if told:
        end()
    else:
        with pytest.raises(exception.InstanceChanged):
            end()


def test_the_hosts_do_not_go_down_with_the_database(tmp_path):
    """After a time without any heartbeat a server is placed where one could be before, and nowhere else."""
    cloud = core.Cloud(tmp_path, hosts=('dead', 'alive'))
    services, now = tables_cell.services, utils.utcnow()
    for host, ago in (('dead', 400), ('alive', 305)):
        with cloud.db.writer() as conn:
            conn.execute(sa.update(services).where(services.c.host == host).values(
                last_seen_at=now - datetime.timedelta(seconds=ago)))
    assert cloud.row(cloud.boot())['host'] == 'alive'
    before = {host: cloud.node(host)['change_number'] for host in ('dead', 'alive')}
    cloud.new_conductor().methods.report_service(None, host='controller', binary='nova-conductor', topic='conductor',
                                                 version=1)
    assert {host for host in before if cloud.node(host)['change_number'] != before[host]} == {'alive'}
    assert cloud.row(cloud.boot())['host'] == 'alive'
    cloud.check()
    cloud.close()


def test_build_completes_if_only_its_end_was_lost(cloud):
    cloud.bus.lost = lambda topic, method, server: method == 'end_task'
    uuid, = cloud.create()
    deadline = time.monotonic() + 120
    while 'conductor.end_task' not in cloud.bus.messages:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    cloud.kill_compute('host1')
    cloud.bus.lost = None
    assert cloud.row(uuid)['task_state'] == states.SPAWNING
    found = cloud.restarted('host1')
    cloud.settle()
    assert found == [uuid]
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    cloud.check()


def test_interrupted_delete_is_completed(cloud):
    uuid = cloud.boot()
    cloud.kill_in('host1', 'destroy', lambda: cloud.delete(uuid))
    assert cloud.row(uuid)['task_state'] == states.DELETING
    cloud.start_compute('host1')
    cloud.settle()
    assert cloud.gone(uuid)
    cloud.check()


@pytest.mark.parametrize(('name', 'operation', 'arguments', 'after'), [
    ('os-stop', 'power_off', {'clean_shutdown': True}, states.STOPPED), ('pause', 'pause', {}, states.PAUSED),
    ('suspend', 'suspend', {}, states.SUSPENDED), ('reboot', 'reboot', {'reboot_type': 'SOFT'}, states.ACTIVE),
    ('reboot-hard', 'reboot', {'reboot_type': 'HARD'}, states.ACTIVE),
    ('rebuild', 'spawn', {'preserve_ephemeral': False}, states.ACTIVE)])
def test_interrupted_operation_is_completed_or_undone(cloud, name, operation, arguments, after):
    uuid = cloud.boot()
    if name == 'rebuild':
        arguments = {**arguments, 'spec': cloud.conductor.methods.get_request_spec(None, uuid)}
    cloud.kill_in('host1', operation, lambda: cloud.act(uuid, name, **arguments))
    assert cloud.row(uuid)['task_state'] is not None
    cloud.start_compute('host1')
    cloud.settle()
    assert (cloud.row(uuid)['vm_state'], cloud.row(uuid)['task_state']) == (after, None)
    cloud.check()


def test_compute_starts_although_the_request_spec_of_a_server_is_missing(cloud):
    uuid, other = cloud.boot(), cloud.boot()
    spec = cloud.conductor.methods.get_request_spec(None, uuid)
    cloud.kill_in('host1', 'spawn', lambda: cloud.act(uuid, 'rebuild', spec=spec, preserve_ephemeral=False))
    cloud.act(other, 'os-stop', clean_shutdown=False)
    cloud.api_db.run(request_specs.delete_many, [uuid])
    cloud.start_compute('host1')
    cloud.settle()
    assert cloud.row(uuid)['task_state'] == states.REBUILD_SPAWNING
    assert (cloud.row(other)['vm_state'], cloud.row(other)['task_state']) == (states.STOPPED, None)


def test_interrupted_snapshot_leaves_no_image(cloud):
    uuid = cloud.boot()
    cloud.images.data['i1'] = b'half'
    cloud.images.unfinished.add('i1')
    cloud.kill_in('host1', 'snapshot', lambda: cloud.act(uuid, 'createImage', image_id='i1'))
    cloud.start_compute('host1')
    cloud.settle()
    assert (cloud.row(uuid)['vm_state'], cloud.row(uuid)['task_state']) == (states.ACTIVE, None)
    assert cloud.actions(uuid)[-1][1] == 'Error' and cloud.images.data == {}


def test_killed_between_the_upload_and_the_end_of_a_snapshot(cloud):
    """The image was active, its owner may have seen it: it used to be removed."""
    uuid = cloud.boot()
    cloud.images.unfinished.add('i1')
    cloud.bus.lost = lambda topic, method, server: method == 'end_task'
    cloud.act(uuid, 'createImage', image_id='i1')
    deadline = time.monotonic() + 120
    while 'i1' not in cloud.images.data:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    cloud.kill_compute('host1')
    cloud.bus.lost = None
    cloud.start_compute('host1')
    cloud.settle()
    assert (cloud.row(uuid)['vm_state'], cloud.row(uuid)['task_state']) == (states.ACTIVE, None)
    assert cloud.actions(uuid)[-1][1] is None and 'i1' in cloud.images.data


def test_a_copy_that_the_deletion_of_its_server_overtook_is_removed(cloud):
    """Its message was lost, or came after the delete: the image used to stay queued for ever."""
    uuid, whole = cloud.boot(), 'i2'
    cloud.images.unfinished.add('i1')
    cloud.images.data.update(i1=b'', i2=b'')
    cloud.act(uuid, 'createImage', image_id=whole)
    cloud.settle()
    cloud.bus.lost = lambda topic, method, server: method == 'snapshot_instance'
    cloud.act(uuid, 'createImage', image_id='i1')
    cloud.bus.lost = None
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid) and set(cloud.images.data) == {whole}
    cloud.check()


def test_lost_messages_are_derived_from_the_rows(cloud):
    """The compute did not run, and the broker kept nothing: the rows tell what to do."""
    uuid = cloud.boot()
    cloud.kill_compute('host1')
    cloud.act(uuid, 'os-stop', clean_shutdown=True)
    waiting, = cloud.insert()
    cloud.bus.lost = lambda topic, method, server: topic == 'compute'
    cloud.client['conductor'].build_instances(cloud.ctx, instance_uuids=[waiting])
    cloud.settle()
    cloud.bus.lost = None
    cloud.start_compute('host1')
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.STOPPED
    assert cloud.row(waiting)['vm_state'] == states.ACTIVE
    cloud.check()


def all_guests_are_off(driver):
    driver.init_host()
    for guest in driver.machine.guests.values():
        guest['power_state'] = states.SHUTDOWN
    driver.machine.save()


@pytest.mark.parametrize('resume', [True, False])
def test_guests_start_after_a_host_reboot_if_configured(cloud, monkeypatch, resume):
    cloud.conf.set_override('resume_guests_state_on_host_boot', resume)
    runs, stopped = cloud.boot(), cloud.boot()
    cloud.act(stopped, 'os-stop', clean_shutdown=True)
    cloud.settle()
    cloud.kill_compute('host1')
    monkeypatch.setattr(recovery, 'boot_id', lambda: 'next')
    cloud.start_compute('host1', all_guests_are_off)
    cloud.settle()
    assert cloud.row(runs)['vm_state'] == (states.ACTIVE if resume else states.STOPPED)
    assert cloud.row(stopped)['vm_state'] == states.STOPPED
    assert cloud.computes['host1'].driver.guests()[runs] == (states.RUNNING if resume else states.SHUTDOWN)


@pytest.mark.parametrize('resume', [True, False])
@pytest.mark.parametrize(('name', 'operation', 'arguments'), [
    ('createImage', 'snapshot', {'image_id': 'i1'}),
    ('createBackup', 'snapshot', {'image_id': 'i1', 'backup_type': 'daily', 'rotation': 1}),
    ('changePassword', 'set_admin_password', {'admin_password': None}), ('pause', 'pause', {}),
    ('unpause', 'unpause', {}), ('suspend', 'suspend', {})])
def test_guest_starts_after_a_host_crash_during_a_task(cloud, monkeypatch, name, operation, arguments, resume):
    cloud.conf.set_override('resume_guests_state_on_host_boot', resume)
    uuid = cloud.boot()
    cloud.images.unfinished.add('i1')
    if name == 'unpause':
        cloud.act(uuid, 'pause')
        cloud.settle()
    sent = {**arguments, 'admin_password': 'secret'} if 'admin_password' in arguments else arguments
    cloud.kill_in('host1', operation, lambda: cloud.act(uuid, name, **sent))
    monkeypatch.setattr(recovery, 'boot_id', lambda: 'next')
    cloud.start_compute('host1', all_guests_are_off)
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['power_state']) == (
        (states.ACTIVE, None, states.RUNNING) if resume else (states.STOPPED, None, states.SHUTDOWN))
    assert cloud.computes['host1'].driver.guests() == {uuid: row['power_state']}
    cloud.check()


@pytest.mark.parametrize('is_first', [True, False], ids=['first-start-of-this-release', 'boot-is-recorded'])
def test_times_show_a_boot_only_until_a_boot_is_recorded(cloud, monkeypatch, is_first):
    """The clock of the host may be wrong after a power failure."""
    uuid = cloud.boot()
    cloud.kill_compute('host1')
    recorded, = (cloud.path / records.DIRECTORY).glob(f'*/{records.BOOT}')
    if is_first:
        recorded.unlink()
    monkeypatch.setattr(recovery, 'boot_time', lambda: time.time() + 3600)
    cloud.start_compute('host1', all_guests_are_off)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == (states.ACTIVE if is_first else states.STOPPED)
    assert recorded.read_text() == recovery.boot_id()


def test_a_start_that_cannot_see_pid_1_keeps_the_record_of_the_boot(cloud, monkeypatch):
    cloud.kill_compute('host1')
    recorded, = (cloud.path / records.DIRECTORY).glob(f'*/{records.BOOT}')
    kernel = recovery.boot_id().partition(' ')[0]
    recorded.write_text(f'{kernel} 7')
    for present, kept in (('0', '7'), ('9', '9')):
        monkeypatch.setattr(recovery, 'boot_id', lambda: f'{kernel} {present}')
        cloud.start_compute('host1')
        cloud.settle()
        assert recorded.read_text() == f'{kernel} {kept}'
        cloud.kill_compute('host1')


def test_starts_after_a_host_reboot_are_continued_after_a_restart(cloud, monkeypatch):
    uuids = [cloud.boot(), cloud.boot()]
    cloud.kill_compute('host1')
    monkeypatch.setattr(recovery, 'boot_id', lambda: 'next')
    cloud.bus.lost = lambda topic, method, server: method == 'begin_task'
    compute = cloud.start_compute('host1', all_guests_are_off)
    compute.queue.stop(0)
    cloud.kill_compute('host1')
    cloud.bus.lost = None
    cloud.start_compute('host1')
    cloud.settle()
    assert [cloud.row(uuid)['vm_state'] for uuid in uuids] == [states.ACTIVE] * 2
    assert cloud.computes['host1'].driver.guests() == dict.fromkeys(uuids, states.RUNNING)


def test_guest_that_stopped_meanwhile_is_recorded_as_stopped(cloud):
    uuid = cloud.boot()
    cloud.kill_compute('host1')

    def stop(driver):
        driver.init_host()
        driver.machine.change_by_itself(uuid, states.SHUTDOWN)
    cloud.start_compute('host1', stop)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.STOPPED


def test_orphans_are_removed_at_start_unless_unknown(cloud):
    """A guest of a server deleted meanwhile is removed; one that nobody knows is left alone."""
    uuid = cloud.boot()
    cloud.kill_compute('host1')
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(forced_down=True))
    cloud.conductor.methods.update_instance(None, uuid, {'task_state': states.DELETING})
    cloud.client['conductor'].delete_instance(cloud.ctx, instance_uuid=uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    unknown = '70a599e0-31e7-49b7-b260-868f441e8620'

    def add(driver):
        driver.init_host()
        driver.machine.guests[unknown] = {'power_state': states.RUNNING, 'console': [], 'disk_gb': 0, 'networks': []}
    compute = cloud.start_compute('host1', lambda driver: None)
    cloud.settle()
    assert compute.driver.guests() == {}
    add(compute.driver)
    compute.recovery.recover()
    cloud.settle()
    assert list(compute.driver.guests()) == [unknown]


def test_orphans_are_removed_after_a_reconnect(cloud):
    """It was thought to be down, and has not been started again."""
    uuid, stays = cloud.boot(), cloud.boot()
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(forced_down=True))
    cloud.conductor.methods.update_instance(None, uuid, {'task_state': states.DELETING})
    cloud.client['conductor'].delete_instance(cloud.ctx, instance_uuid=uuid)
    cloud.settle()
    compute = cloud.computes['host1']
    assert cloud.gone(uuid) and set(compute.driver.guests()) == {uuid, stays}
    compute.came_back()
    deadline = time.monotonic() + 120
    while uuid in compute.driver.guests():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    cloud.settle()
    assert set(compute.driver.guests()) == {stays} and cloud.row(stays)['vm_state'] == states.ACTIVE


def test_reconciler_builds_servers_that_reached_no_host(cloud):
    uuid, = cloud.insert()           # the cast to the conductor was lost
    assert cloud.conductor.reconciler.reconcile() == 0
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    assert cloud.conductor.reconciler.reconcile() == 0
    cloud.check()


def test_reconcile_sends_again_what_a_living_host_does_not_know(cloud):
    uuid, second = cloud.boot(), cloud.boot()
    cloud.bus.lost = lambda topic, method, server: topic == 'compute'
    cloud.act(uuid, 'os-stop', clean_shutdown=True)
    cloud.delete(second)
    lost, = cloud.create()
    cloud.settle()
    cloud.bus.lost = None
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 3
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.STOPPED
    assert cloud.gone(second) and cloud.row(lost)['vm_state'] == states.ACTIVE
    cloud.check()


def test_reconciler_fails_builds_on_a_dead_host(cloud):
    uuids = cloud.kill_in('host1', 'spawn', cloud.create)
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(forced_down=True))
    cloud.pass_time()
    cloud.conductor.reconciler.reconcile()
    row = cloud.row(uuids[0])
    assert (row['vm_state'], row['task_state'], row['host']) == (states.BUILDING, states.SPAWNING, 'host1')
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.instance_actions).values(
            started_at=utils.utcnow() - datetime.timedelta(days=7)))
    cloud.pass_time()
    cloud.conductor.reconciler.reconcile()
    row = cloud.row(uuids[0])
    assert (row['vm_state'], row['task_state'], row['host']) == (states.ERROR, None, None)
    assert row['fault']['message'] == 'The host did not finish building the server, and no other host took it.'
    assert cloud.node()['running_vms'] == 0 and cloud.network.allocated == {}
    # the host comes back: the half-built guest is not left behind
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(forced_down=False))
    cloud.start_compute('host1')
    cloud.settle()
    assert cloud.guests() == {}


def test_failed_build_on_a_dead_host_keeps_volumes_that_its_guest_may_use(cloud):
    uuid, = cloud.kill_in('host1', 'spawn', cloud.create)
    device = {'source_type': 'volume', 'destination_type': 'volume', 'device_name': '/dev/vda',
              'connection_info': {'host': 'host1'},
              **{name: str(uuidlib.uuid4()) for name in ('uuid', 'volume_id', 'attachment_id')}}
    with cloud.db.writer() as conn:
        block_devices.insert(conn, uuid, [device])
        conn.execute(sa.update(tables_cell.services).values(forced_down=True))
        conn.execute(sa.update(tables_cell.instance_actions).values(
            started_at=utils.utcnow() - datetime.timedelta(days=7)))
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['host']) == (states.ERROR, None, 'host1')
    assert 'keeps its host and volumes' in row['fault']['message'] and cloud.actions(uuid)[0][2]
    assert cloud.node()['running_vms'] == 1 and uuid in cloud.network.allocated
    with cloud.db.reader() as conn:
        kept, = block_devices.by_instance(conn, uuid)
    assert {name: kept[name] for name in device} == device
    assert cloud.conductor.claim_check.audit() == []


def test_a_conductor_that_starts_takes_up_what_waits_for_one(cloud, monkeypatch):
    waiting, deleted = cloud.insert()[0], cloud.insert()[0]
    cloud.bus.lost = lambda topic, method, server: topic == 'conductor'
    cloud.delete(deleted)
    cloud.bus.lost = None
    monkeypatch.setattr(reconciler, 'START_GRACE_S', -1)
    cloud.conductor.start()
    assert cloud.conductor.reconciler.reconcile() == 2
    cloud.settle()
    assert cloud.row(waiting)['vm_state'] == states.ACTIVE and cloud.gone(deleted)
    cloud.check()


@pytest.mark.parametrize('method', ['build_instance', 'stop_instance', 'terminate_instance'])
def test_a_conductor_that_starts_takes_up_what_never_reached_the_host(cloud, monkeypatch, method):
    """Messages go with the conductor that was killed while it had them: their servers waited for two minutes."""
    uuid = cloud.boot() if method != 'build_instance' else None
    cloud.bus.lost = lambda topic, name, server: name == method
    if uuid is None:
        uuid, = cloud.create()
    elif method == 'stop_instance':
        cloud.act(uuid, 'os-stop', clean_shutdown=True)
    else:
        cloud.delete(uuid)
    cloud.settle()
    cloud.bus.lost = None
    monkeypatch.setattr(reconciler, 'START_GRACE_S', -1)
    cloud.conductor.start()
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert cloud.gone(uuid) if method == 'terminate_instance' else cloud.row(uuid)['vm_state'] == (
        states.STOPPED if method == 'stop_instance' else states.ACTIVE)
    cloud.check()


def test_a_network_service_that_is_away_for_a_moment_is_asked_again_soon(cloud):
    """A delete without a host that met one which restarted waited for two minutes."""
    uuid = cloud.insert()[0]
    cloud.bus.lost = lambda topic, name, server: topic == 'network'
    cloud.delete(uuid)
    cloud.settle()
    assert not cloud.gone(uuid)
    cloud.bus.lost = None
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert cloud.gone(uuid)
    cloud.check()


def test_the_only_process_takes_over_at_once(cloud):
    """After a kill of the all-in-one nothing waits for a deadline: builds that never reached a host took half a
    minute, a mapping whose server's row was never written up to a quarter of an hour, counted by the quota."""
    waiting, deleted, lost = (cloud.insert()[0] for _ in range(3))
    with cloud.db.writer() as conn:
        conn.execute(sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid == lost))
        conn.execute(sa.delete(tables_cell.instance_actions).where(
            tables_cell.instance_actions.c.instance_uuid == lost))
    cloud.bus.lost = lambda topic, method, server: topic == 'conductor'
    cloud.delete(deleted)
    cloud.bus.lost = None
    cloud.conductor.start()
    cloud.conductor.take_over()
    deadline = time.monotonic() + 120
    while cloud.row(waiting)['vm_state'] != states.ACTIVE or not cloud.gone(deleted):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    cloud.settle()
    settled(cloud.check)                     # the thread that took over looks for lost mappings in the end


def test_a_mapping_of_a_deleted_server_is_removed_at_once(cloud):
    uuid = cloud.boot()
    table = tables_api.instance_mappings
    with cloud.api_db.reader() as conn:
        mapping = dict(conn.execute(sa.select(table)).mappings().one())
    cloud.delete(uuid)
    cloud.settle()
    with cloud.api_db.writer() as conn:           # the conductor died between its two transactions
        conn.execute(sa.insert(table).values(mapping))
    assert cloud.conductor.lost_mappings.remove_lost_mappings() == 1
    cloud.check()


def test_nothing_is_logged_about_servers_that_are_deleted_during_the_look(cloud, monkeypatch, caplog):
    uuid, created = cloud.boot(), mappings.created

    def created_before(conn, *args):
        found = created(conn, *args)
        if uuid in found:
            cloud.delete(uuid)
            cloud.settle()
        return found
    monkeypatch.setattr(mappings, 'created', created_before)
    assert cloud.conductor.lost_mappings.remove_lost_mappings(0) == 0
    assert [each.getMessage() for each in caplog.records if 'mapping' in each.getMessage()] == []
    cloud.check()


def test_mapping_that_a_request_renews_during_the_look_is_kept(cloud, monkeypatch):
    uuid, created = cloud.insert()[0], mappings.created
    with cloud.db.writer() as conn:
        conn.execute(sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid == uuid))

    def created_before(conn, *args):
        found = created(conn, *args)
        assert cloud.api_db.run(mappings.renew, [uuid], utils.utcnow())
        return found
    with monkeypatch.context() as renewed:
        renewed.setattr(mappings, 'created', created_before)
        assert cloud.conductor.lost_mappings.remove_lost_mappings(0) == 0
    assert cloud.conductor.lost_mappings.remove_lost_mappings(0) == 1
    assert not cloud.api_db.run(mappings.renew, [uuid], utils.utcnow())


def test_lost_mappings_are_removed(cloud):
    uuid = cloud.boot()
    lost, young = cloud.insert()[0], cloud.insert()[0]
    with cloud.db.writer() as conn:
        conn.execute(sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid.in_([lost, young])))
    with cloud.api_db.writer() as conn:
        table = tables_api.instance_mappings
        conn.execute(sa.update(table).where(table.c.instance_uuid != young).values(
            created_at=utils.utcnow() - datetime.timedelta(hours=1)))
    services = tables_cell.services
    lost_mappings = cloud.conductor.lost_mappings
    assert lost_mappings.remove_lost_mappings() == 0, 'a database that is younger than the server is not its own'
    with cloud.db.writer() as conn:
        conn.execute(sa.update(services).values(created_at=utils.utcnow() - datetime.timedelta(hours=2)))
    assert cloud.conductor.lost_mappings.remove_lost_mappings() == 1
    with cloud.api_db.reader() as conn:
        assert set(conn.execute(sa.select(table.c.instance_uuid)).scalars()) == {uuid, young}
        assert conn.execute(sa.select(sa.func.count()).select_from(tables_api.request_specs)).scalar() == 2


def test_audit_mends_and_counts(cloud):
    cloud.boot()
    assert cloud.conductor.claim_check.audit() == [] and cloud.conductor.claim_check.drift == 0
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.compute_nodes).values(vcpus_used=7))
    assert cloud.conductor.claim_check.audit() == [
        {'host': 'host1', 'node': 'host1', 'column': 'vcpus_used', 'was': 7, 'is': 1}]
    assert cloud.conductor.claim_check.drift == 1 and cloud.node()['vcpus_used'] == 1


def test_the_conductor_is_away_when_a_task_ends(cloud):
    uuid = cloud.boot()
    cloud.bus.lost = lambda topic, method, server: method == 'end_task'
    cloud.act(uuid, 'pause')
    time.sleep(0.3)
    assert cloud.row(uuid)['task_state'] == states.PAUSING
    cloud.bus.lost = None
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.PAUSED


def _row(vm_state, task_state, host='h'):
    return {'vm_state': vm_state, 'task_state': task_state, 'host': host}


@pytest.mark.parametrize(('row', 'up', 'old', 'what'), [
    (None, False, False, 'close'), (_row('active', None), True, False, 'close'),
    (_row('active', 'deleting'), True, True, 'delete'), (_row('building', 'scheduling', None), False, False, 'build'),
    (_row('building', 'spawning'), True, False, 'resend'), (_row('building', 'spawning'), False, False, 'replace'),
    (_row('active', 'powering-off'), True, False, 'resend'), (_row('active', 'powering-off'), False, False, 'wait'),
    (_row('active', 'powering-off'), True, True, 'fail')])
def test_reconciler_decides_by_state_host_and_age(row, up, old, what):
    assert reconciler.decide(row, up, old) == what


def test_every_running_task_state_has_its_recovery():
    """What an action of the table sets, a restarted compute and the reconciler can take up."""
    for action in actions.ACTIONS.values():
        if action.running and action.calls.method:
            assert actions.OF_TASK[action.running].calls.restart, action.name


def test_a_failed_begin_leaves_no_trace(cloud):
    instance = objects.Instance(uuid='70a599e0-31e7-49b7-b260-868f441e8620')
    task = tasks.task(cloud.computes['host1'].host, cloud.ctx, instance, actions.ACTIONS['pause'].frame)
    with pytest.raises(exception.InstanceNotFound), task:
        pytest.fail('the body of a task that did not begin ran')


def with_two_ports(cloud):
    """A server and its ports: what it shows, and what its guest has."""
    uuid = cloud.boot()
    host, (first,) = cloud.network.allocated[uuid]
    second = {**first, 'id': f'{uuid[:-1]}x', 'address': f'fa:16:3e:{uuid[0:2]}:{uuid[2:4]}:02', 'devname': 'tap2'}
    cloud.computes['host1'].driver.features[virt.Interfaces].attach_interface(None, objects.Instance(uuid=uuid), second)
    cloud.network.allocated[uuid] = (host, [first, second])
    cloud.conductor.methods.update_instance(None, uuid, {'network_info': [first, second]})
    return uuid, first, second


def ports_of(cloud, uuid):
    return (cloud.computes['host1'].driver.machine.guests[uuid]['networks'],
            [vif['id'] for vif in cloud.row(uuid)['network_info']])


def test_the_device_of_a_port_whose_end_was_not_heard_leaves_the_guest(cloud):
    """The event of its deletion was lost with the process: the device stayed until somebody detached it."""
    uuid, first, second = with_two_ports(cloud)
    cloud.kill_compute('host1')
    cloud.network.allocated[uuid] = ('host1', [first])
    cloud.start_compute('host1')
    one = [first['id']]
    wait_for(lambda: ports_of(cloud, uuid) == (one, one), 20, 'the device to go')


def test_a_network_service_that_lists_nothing_takes_no_port_from_a_guest(cloud):
    """Its user may have lost the rights to see ports: all guests would lose theirs."""
    uuid, first, second = with_two_ports(cloud)
    both = [first['id'], second['id']]
    cloud.kill_compute('host1')
    cloud.network.allocated[uuid] = ('host1', [])
    compute = cloud.start_compute('host1')
    compute._lost_ports.look()
    cloud.settle()
    assert ports_of(cloud, uuid) == (both, both)
    cloud.boot()                             # whose port is listed
    compute._lost_ports.look()
    wait_for(lambda: ports_of(cloud, uuid) == ([], []), 20, 'the devices to go')


def test_a_guest_that_holds_the_device_of_a_lost_port_shows_it(cloud):
    uuid, first, second = with_two_ports(cloud)
    both = [first['id'], second['id']]
    driver = cloud.computes['host1'].driver
    driver.failures['detach_interface'] = exception.VirtError(operation='unplug', reason='the guest holds it')
    cloud.network.allocated[uuid] = ('host1', [first])

    def change():
        cloud.client['compute'].external_instance_event(
            cloud.ctx, server='host1', instance=cloud.conductor.methods.update_instance(None, uuid, {}),
            events=[{'name': 'network-changed', 'tag': None, 'status': 'completed'}])
        cloud.settle()
    change()
    assert ports_of(cloud, uuid) == (both, both)
    driver.failures.clear()
    change()
    assert ports_of(cloud, uuid) == ([first['id']],) * 2


def test_a_server_without_a_host_has_no_host_that_is_up(cloud):
    assert cloud.services.host_is_up('host1')
    assert not cloud.services.host_is_up(None)


@pytest.mark.parametrize('recorded, present, booted', [
    ('a 7', 'a 7', False), ('a 7', 'b 7', True), ('a 7', 'a 9', True), ('a 7', 'a 0', False), ('a 0', 'a 9', False),
    ('a 0', 'b 0', True)])
def test_a_boot_has_another_kernel_id_or_start_of_pid_1(recorded, present, booted):
    assert recovery.has_booted(recorded, present) is booted
