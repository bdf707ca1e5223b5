"""Shelving, rescue and what is done inside of guests, through conductor, scheduler and computes; services
that die in the middle."""
import datetime
import threading
import time

import pytest
import sqlalchemy as sa

from nova import actions
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.conductor.upkeep import reconciler
from nova.db.servers import console_tokens
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import core
from nova.tests.support import waiting
from nova.tests.support import core_shelve
from nova.tests.support.core_shelve import IMAGE
from nova.tests.support.core_shelve import RESCUE
from nova.tests.support.core_shelve import core_threads
from nova.tests.support.core_shelve import kill_in
from nova.tests.support.core_shelve import shelve
from nova.tests.support.core_shelve import state
from nova.tests.support.core_shelve import unshelve
from nova.virt import driver as virt

cloud = core_shelve.cloud


# ---- shelving ----------------------------------------------------------------

def test_an_offloaded_server_has_no_host_and_no_claim(cloud):
    uuid = cloud.boot()
    host, address = cloud.row(uuid)['host'], cloud.row(uuid)['network_info']
    shelve(cloud, uuid)
    row = cloud.row(uuid)
    assert state(cloud, uuid) == (states.SHELVED_OFFLOADED, None, None)
    assert row['node'] is None and row['power_state'] == states.NOSTATE and row['network_info'] == address
    assert row['system_metadata']['shelved_image_id'] == IMAGE and cloud.images.data[IMAGE]
    assert cloud.guests() == {} and cloud.node(host)['running_vms'] == 0
    assert cloud.actions(uuid)[-1][:3] == ('shelve', None, True)
    cloud.check()
    unshelve(cloud, uuid)
    row = cloud.row(uuid)
    assert row['vm_state'] == states.ACTIVE and row['host'] and row['power_state'] == states.RUNNING
    assert row['network_info'] == address and row['system_metadata'] == {}
    assert cloud.images.data == {} and cloud.guests() == {uuid: row['host']}
    assert cloud.actions(uuid)[-1][:3] == ('unshelve', None, True)
    cloud.check()


@pytest.mark.parametrize('cloud', [{'shelved_offload_time': -1}], indirect=True)
def test_a_shelved_server_stays_where_it_is_until_it_is_offloaded(cloud):
    uuid = cloud.boot()
    host = cloud.row(uuid)['host']
    shelve(cloud, uuid)
    assert state(cloud, uuid) == (states.SHELVED, None, host)
    assert cloud.row(uuid)['power_state'] == states.SHUTDOWN
    assert cloud.conductor.deferred.offload_shelved() == 0
    unshelve(cloud, uuid)
    assert state(cloud, uuid) == (states.ACTIVE, None, host) and cloud.images.data == {}
    shelve(cloud, uuid)
    cloud.act(uuid, 'shelveOffload')
    cloud.settle()
    assert state(cloud, uuid) == (states.SHELVED_OFFLOADED, None, None)
    cloud.check()


@pytest.mark.parametrize('cloud', [{'shelved_offload_time': 100}], indirect=True)
def test_a_shelved_server_is_offloaded_after_its_time(cloud):
    uuid = cloud.boot()
    shelve(cloud, uuid)
    assert cloud.conductor.deferred.offload_shelved() == 0
    past = (utils.utcnow() - datetime.timedelta(seconds=101)).isoformat()
    cloud.conductor.methods.update_instance(None, uuid, {'system_metadata': {'shelved_at': past}})
    assert cloud.row(uuid)['system_metadata']['shelved_image_id'] == IMAGE
    assert cloud.conductor.deferred.offload_shelved() == 1
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.SHELVED_OFFLOADED
    assert cloud.conductor.deferred.offload_shelved() == 0
    cloud.check()


@pytest.mark.parametrize('cloud', [{'shelved_offload_time': 100}], indirect=True)
@pytest.mark.parametrize('value', ['x', 5, '2026-01-01T00:00:00+00:00'])
def test_malformed_time_of_a_server_does_not_stop_the_offloading_of_others(cloud, value):
    past = (utils.utcnow() - datetime.timedelta(seconds=101)).isoformat()
    uuids = [cloud.boot() for _ in range(3)]
    for uuid, since in zip(uuids, (value, past, value), strict=True):
        shelve(cloud, uuid)
        cloud.conductor.methods.update_instance(None, uuid, {'system_metadata': {'shelved_at': since}})
    assert cloud.conductor.deferred.offload_shelved() == 1
    cloud.settle()
    assert [cloud.row(uuid)['vm_state'] for uuid in uuids] == [
        states.SHELVED, states.SHELVED_OFFLOADED, states.SHELVED]


def test_an_upload_that_fails_leaves_the_server_running(cloud):
    uuid = cloud.boot()
    host = cloud.row(uuid)['host']
    cloud.images.failure = exception.ServiceUnavailable(service='image')
    shelve(cloud, uuid)
    assert state(cloud, uuid) == (states.ACTIVE, None, host)
    assert cloud.computes[host].driver.guests() == {uuid: states.RUNNING}
    assert cloud.row(uuid)['fault'] and not cloud.images.unfinished
    cloud.check()


def test_a_shelved_server_finds_no_room(cloud):
    uuid = cloud.boot()
    shelve(cloud, uuid)
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(disabled=True))
    cloud.restart_scheduler()
    unshelve(cloud, uuid)
    assert state(cloud, uuid) == (states.SHELVED_OFFLOADED, None, None)
    with cloud.db.reader() as conn:
        event = instance_actions.events(conn, instance_actions.by_instance(conn, uuid, limit=1)[0]['id'])[0]
    assert event['result'] == 'Error' and 'No valid host' in event['details'] and IMAGE in cloud.images.data
    cloud.check()
    with cloud.db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(disabled=False))
    cloud.restart_scheduler()
    unshelve(cloud, uuid)
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    cloud.check()


def test_to_the_host_that_an_administrator_names(cloud):
    uuid = cloud.boot()
    for host in ('host2', 'host1'):
        shelve(cloud, uuid)
        unshelve(cloud, uuid, host=host)
        assert state(cloud, uuid) == (states.ACTIVE, None, host)
    cloud.check()


def test_a_host_that_cannot_spawn_gives_the_server_back(cloud):
    uuid = cloud.boot()
    shelve(cloud, uuid)
    for compute in cloud.computes.values():
        compute.driver.failures['spawn'] = exception.VirtError(operation='spawn', reason='x')
    unshelve(cloud, uuid)
    assert state(cloud, uuid) == (states.SHELVED_OFFLOADED, None, None)
    assert cloud.row(uuid)['fault'] and IMAGE in cloud.images.data and cloud.guests() == {}
    cloud.check()
    for compute in cloud.computes.values():
        compute.driver.failures.clear()
    unshelve(cloud, uuid)
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    cloud.check()


def test_a_server_whose_image_is_not_known_is_not_destroyed(cloud):
    uuid = cloud.boot()
    cloud.act(uuid, 'shelve', image_id=None, clean_shutdown=True)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE and uuid in cloud.guests()
    cloud.check()


@pytest.mark.parametrize('operation', ['power_off', 'snapshot', 'destroy'])
def test_interrupted_shelve_is_completed(cloud, operation):
    uuid = cloud.boot()
    host = kill_in(cloud, operation, lambda: shelve(cloud, uuid, settle=False), cloud.row(uuid)['host'])
    assert cloud.row(uuid)['task_state'] in (*actions.ACTIONS['shelve'].tasks, states.SHELVING_OFFLOADING)
    cloud.start_compute(host)
    cloud.settle()
    assert state(cloud, uuid) == (states.SHELVED_OFFLOADED, None, None) and cloud.images.data[IMAGE]
    cloud.check()
    unshelve(cloud, uuid)
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    cloud.check()


@pytest.mark.parametrize(('vm_state', 'after'), [
    (states.ACTIVE, states.RUNNING), (states.STOPPED, states.SHUTDOWN)])
@pytest.mark.parametrize(('name', 'arguments', 'operation'), [
    ('shelve', core_shelve.SHELVE, 'snapshot'), ('rescue', RESCUE, 'rescue')])
@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_a_guest_runs_after_an_interrupted_task_that_fails_only_if_it_ran_before(
        cloud, name, arguments, operation, vm_state, after):
    uuid = cloud.boot()
    if vm_state == states.STOPPED:
        cloud.act(uuid, 'os-stop', clean_shutdown=True)
        cloud.settle()
    cloud.images.unfinished.add(IMAGE)
    kill_in(cloud, operation, lambda: cloud.act(uuid, name, **arguments))

    def prepare(driver):
        driver.init_host()
        assert driver.guests() == {uuid: states.SHUTDOWN}
        driver.failures[operation] = exception.VirtError(operation=operation, reason='x')
    cloud.start_compute('host1', prepare)
    cloud.settle()
    assert state(cloud, uuid) == (vm_state, None, 'host1') and cloud.row(uuid)['fault']
    assert cloud.computes['host1'].driver.guests() == {uuid: after}
    cloud.check()


@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_a_guest_runs_after_an_interrupted_shelve_with_an_image_that_is_gone(cloud, monkeypatch):
    uuid = cloud.boot()
    kill_in(cloud, 'snapshot', lambda: shelve(cloud, uuid, settle=False))

    def show(ctx, image_id):
        raise exception.ImageNotFound(image_id=image_id)
    monkeypatch.setattr(cloud.images, 'show', show)
    assert cloud.restarted('host1') == [uuid]
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, 'host1') and cloud.row(uuid)['fault']
    assert cloud.computes['host1'].driver.guests() == {uuid: states.RUNNING}
    cloud.check()


@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_interrupted_unshelve_is_completed(cloud):
    uuid = cloud.boot()
    shelve(cloud, uuid)
    kill_in(cloud, 'spawn', lambda: cloud.act(uuid, 'unshelve'))
    assert state(cloud, uuid) == (states.SHELVED_OFFLOADED, states.UNSHELVING, 'host1')
    cloud.start_compute('host1')
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, 'host1') and cloud.images.data == {}
    cloud.check()


@pytest.mark.parametrize('lost', ['image', 'end_task'])
@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_killed_at_the_end_of_unshelving(cloud, lost):
    """The image goes only when the server does not need it, and it does go."""
    uuid = cloud.boot()
    shelve(cloud, uuid)
    killed = threading.Event()
    if lost == 'image':
        delete, cloud.images.delete = cloud.images.delete, lambda ctx, image_id: killed.wait(30)
    cloud.bus.lost = lambda topic, name, server: lost == name
    seen = len(cloud.bus.messages)
    cloud.act(uuid, 'unshelve')
    deadline = time.monotonic() + 120
    while f'conductor.{"update_instance" if lost == "image" else lost}' not in cloud.bus.messages[seen:]:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    cloud.kill_compute('host1')
    killed.set()
    cloud.bus.lost = None
    if lost == 'image':
        cloud.images.delete = delete
        assert IMAGE in cloud.images.data
    cloud.start_compute('host1')
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, 'host1')
    assert cloud.images.data == {} and cloud.row(uuid)['system_metadata'] == {}
    cloud.check()


@pytest.mark.parametrize('lost', [('conductor', 'unshelve_instance'), ('scheduler', 'select_unshelve'),
                                  ('compute', 'unshelve_instance')])
def test_the_reconciler_takes_up_an_unshelving_whose_message_was_lost(cloud, lost):
    uuid = cloud.boot()
    shelve(cloud, uuid)
    cloud.bus.lost = lambda topic, method, server: (topic, method) == lost
    unshelve(cloud, uuid, host='host2')
    assert cloud.row(uuid)['task_state'] == states.UNSHELVING
    cloud.bus.lost = None
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, 'host2')
    cloud.check()


def back(cloud, uuid):
    assert state(cloud, uuid) == (states.ACTIVE, None, 'host2') and cloud.images.data == {}


@pytest.mark.parametrize('slow', [False, True])
def test_the_host_dies_before_the_server_is_back(cloud, slow):
    """Another one brings it back; a host that was only thought to be dead takes back what it did."""
    uuid = cloud.boot()
    shelve(cloud, uuid)
    goes_on = threading.Event()
    if slow:
        driver, entered = cloud.computes['host1'].driver, threading.Event()
        spawn = driver.spawn

        def held(*args, **kwargs):
            entered.set()
            goes_on.wait(60)
            return spawn(*args, **kwargs)
        driver.spawn = held
        cloud.act(uuid, 'unshelve', host='host1')
        assert entered.wait(20)
    else:
        kill_in(cloud, 'spawn', lambda: cloud.act(uuid, 'unshelve', host='host1'), 'host1')
    cloud.force_down('host1')
    with cloud.db.writer() as conn:
        action = tables_cell.instance_actions
        conn.execute(sa.update(action).where(action.c.finished_at.is_(None)).values(arguments=None))
    cloud.restart_scheduler()
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    waiting.settled(lambda: back(cloud, uuid))
    goes_on.set()
    cloud.settle()
    back(cloud, uuid)
    if not slow:
        cloud.start_compute('host1')
        cloud.settle()
    assert cloud.guests() == {uuid: 'host2'}
    cloud.check()


def test_deleted_while_it_is_shelved(cloud):
    """Its image goes with it, in whatever state it is."""
    uuid, other = cloud.boot(), cloud.boot()
    driver = cloud.computes[cloud.row(uuid)['host']].driver
    driver.delays['snapshot'] = 0.3
    shelve(cloud, uuid, settle=False)
    time.sleep(0.1)
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid) and cloud.images.data == {} and not cloud.images.unfinished
    driver.delays.clear()
    shelve(cloud, other)
    assert IMAGE in cloud.images.data
    cloud.delete(other)
    cloud.settle()
    assert cloud.gone(other) and cloud.images.data == {} and cloud.network.allocated == {}
    cloud.check()


def test_deleted_while_it_is_unshelved(cloud):
    uuid = cloud.boot()
    shelve(cloud, uuid)
    for compute in cloud.computes.values():
        compute.driver.delays['spawn'] = 0.3
    cloud.act(uuid, 'unshelve')
    deadline = time.monotonic() + 120
    while cloud.row(uuid)['host'] is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid) and cloud.images.data == {} and cloud.guests() == {}
    cloud.check()


def test_one_of_parallel_unshelves_wins(cloud):
    uuid = cloud.boot()
    shelve(cloud, uuid)
    won = core_threads(6, lambda: cloud.act(uuid, 'unshelve'))
    cloud.settle()
    assert won == 1 and cloud.row(uuid)['vm_state'] == states.ACTIVE and len(cloud.guests()) == 1
    cloud.check()


# ---- rescue ------------------------------------------------------------------

@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_server_can_be_rescued_and_unrescued(cloud):
    uuid = cloud.boot()
    cloud.act(uuid, 'rescue', **RESCUE)
    cloud.settle()
    guest = cloud.computes['host1'].driver.machine.guests[uuid]
    assert state(cloud, uuid) == (states.RESCUED, None, 'host1') and guest['rescue']['image'] == core.IMAGE['id']
    assert cloud.row(uuid)['power_state'] == states.RUNNING and cloud.actions(uuid)[-1][1] is None
    cloud.check()
    cloud.act(uuid, 'unrescue')
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, 'host1')
    assert 'rescue' not in cloud.computes['host1'].driver.machine.guests[uuid]
    cloud.check()


@pytest.mark.parametrize(('name', 'arguments', 'operation', 'after'), [
    ('rescue', RESCUE, 'rescue', states.RESCUED), ('rescue', RESCUE, 'power_off', states.RESCUED),
    ('unrescue', {}, 'unrescue', states.ACTIVE),
    ('changePassword', {'admin_password': 'canary'}, 'set_admin_password', states.ACTIVE)])
@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_interrupted_rescue_is_completed(cloud, name, arguments, operation, after):
    uuid = cloud.boot()
    if name == 'unrescue':
        cloud.act(uuid, 'rescue', **RESCUE)
        cloud.settle()
    kill_in(cloud, operation, lambda: cloud.act(uuid, name, **arguments))
    assert cloud.row(uuid)['task_state'] is not None
    cloud.start_compute('host1')
    cloud.settle()
    guest = cloud.computes['host1'].driver.machine.guests[uuid]
    assert state(cloud, uuid) == (after, None, 'host1')
    assert ('rescue' in guest) == (after == states.RESCUED) and ('password' in guest) == (name == 'changePassword')
    assert cloud.actions(uuid)[-1][1] is None
    with cloud.db.reader() as conn:          # what was needed to do it again held a password
        stored = conn.execute(sa.select(tables_cell.instance_actions.c.arguments)).scalars().all()
    assert stored and 'canary' not in str(stored)
    cloud.check()


@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_a_failed_rescue_says_why(cloud):
    uuid = cloud.boot()
    cloud.computes['host1'].driver.failures['rescue'] = exception.VirtError(operation='rescue', reason='x')
    cloud.act(uuid, 'rescue', **RESCUE)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE and cloud.actions(uuid)[-1][1] == 'Error'
    assert cloud.computes['host1'].driver.guests()[uuid] == states.RUNNING           # it is started again
    assert 'canary' not in str(cloud.row(uuid)['fault'])
    cloud.computes['host1'].driver.failures['unrescue'] = exception.VirtError(operation='start', reason='x')
    cloud.act(uuid, 'rescue', **RESCUE)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ERROR           # it could not be started again
    cloud.check()


@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_a_failed_rescue_of_a_server_without_a_guest_is_undone(cloud, monkeypatch):
    uuid, driver = cloud.boot(), cloud.computes['host1'].driver
    driver.machine.guests.pop(uuid)
    driver.failures['rescue'], ended = exception.VirtError(operation='rescue', reason='x'), []
    monkeypatch.setattr(driver.features[virt.Rescue], 'unrescue', lambda *_given: ended.append('unrescue'))
    cloud.act(uuid, 'rescue', **RESCUE)
    cloud.settle()
    assert ended == ['unrescue'] and cloud.actions(uuid)[-1][1] == 'Error'


# ---- backup ------------------------------------------------------------------

BACKUP = {'image_id': IMAGE, 'backup_type': 'daily', 'rotation': 2}


@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_killed_while_a_backup_is_made(cloud):
    uuid = cloud.boot()
    cloud.images.data.update({'old': b'', 'older': b''})
    cloud.images.unfinished.add(IMAGE)
    kill_in(cloud, 'snapshot', lambda: cloud.act(uuid, 'createBackup', **BACKUP))
    assert cloud.row(uuid)['task_state'] == states.IMAGE_BACKUP
    cloud.start_compute('host1')
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, 'host1') and cloud.actions(uuid)[-1][1] == 'Error'
    assert set(cloud.images.data) == {'old', 'older'} and not cloud.images.unfinished
    cloud.check()


@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_interrupted_backup_deletes_the_oldest_backups(cloud, monkeypatch):
    uuid = cloud.boot()
    cloud.images.data.update({'older': b'', 'old': b''})
    cloud.images.unfinished.add(IMAGE)
    killed = threading.Event()
    monkeypatch.setattr(cloud.images, 'list', lambda *args, **kwargs: killed.wait(30) and [])
    cloud.act(uuid, 'createBackup', **BACKUP)
    deadline = time.monotonic() + 120
    while IMAGE not in cloud.images.data:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    cloud.kill_compute('host1')
    killed.set()
    monkeypatch.undo()
    cloud.start_compute('host1')
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, 'host1') and cloud.actions(uuid)[-1][1] is None
    assert set(cloud.images.data) == {'old', IMAGE}
    cloud.check()


# ---- others ------------------------------------------------------------------

@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_crash_dump_network_reset_and_diagnostics_reach_the_guest(cloud):
    uuid = cloud.boot()
    compute, instance = cloud.computes['host1'], objects.Instance.from_row(cloud.row(uuid))
    cloud.act(uuid, 'trigger_crash_dump')
    cloud.act(uuid, 'injectNetworkInfo')
    cloud.settle()
    assert compute.driver.machine.guests[uuid]['dumps'] == 1
    assert ('trigger_crash_dump', None, True) in [action[:3] for action in cloud.actions(uuid)]
    facts = compute.methods.get_diagnostics(None, instance)
    assert facts['state'] == 'running' and len(facts['nic_details']) == 1
    compute.driver.failures['trigger_crash_dump'] = exception.VirtError(operation='dump', reason='secret')
    cloud.act(uuid, 'trigger_crash_dump')
    cloud.settle()
    assert cloud.row(uuid)['fault'] and 'secret' not in cloud.row(uuid)['fault']['message']
    assert cloud.actions(uuid)[-1][:3] == ('trigger_crash_dump', 'Error', True)
    cloud.act(uuid, 'os-stop', clean_shutdown=True)
    cloud.settle()
    with pytest.raises(exception.InstanceInvalidState):
        compute.methods.get_diagnostics(None, instance)
    cloud.check()


@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_crash_dumps_of_a_server_do_not_queue_up(cloud):
    """They set no task state: their owner could request any number while the host was at the first."""
    uuid, go = cloud.boot(), threading.Event()
    feature = cloud.computes['host1'].driver.features[virt.CrashDump]
    dump, begun = feature.trigger_crash_dump, []
    feature.trigger_crash_dump = lambda guest: (begun.append(1), go.wait(60), dump(guest))
    cloud.act(uuid, 'trigger_crash_dump')
    waiting.wait_for(lambda: begun, 20, 'the first')
    for _ in range(3):
        with pytest.raises(exception.Conflict, match='in progress'):
            cloud.act(uuid, 'trigger_crash_dump')
    for _ in range(5):
        cloud.act(uuid, 'injectNetworkInfo')
    assert cloud.computes['host1'].queue.in_progress()[uuid] == 1       # set up once for all
    go.set()
    cloud.settle()
    cloud.act(uuid, 'trigger_crash_dump')
    cloud.settle()
    assert len(begun) == 2
    cloud.check()


@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_repeated_message_of_a_closed_crash_dump_does_not_interrupt_the_guest_again(cloud):
    uuid = cloud.boot()
    compute = cloud.computes['host1']
    cloud.act(uuid, 'trigger_crash_dump')
    cloud.settle()
    compute.methods.trigger_crash_dump(cloud.ctx, objects.Instance.from_row(cloud.row(uuid)))
    cloud.settle()
    assert compute.driver.machine.guests[uuid]['dumps'] == 1 and not cloud.row(uuid)['fault']
    cloud.check()


@pytest.mark.parametrize('cloud', [{'hosts': ('host1',)}], indirect=True)
def test_a_crash_dump_that_was_interrupted_is_not_done_again(cloud):
    uuid = cloud.boot()
    cloud.bus.lost = lambda topic, method, server: method == 'trigger_crash_dump'
    cloud.act(uuid, 'trigger_crash_dump')
    cloud.bus.lost = lambda topic, method, server: False
    cloud.kill_compute('host1')
    cloud.start_compute('host1')
    cloud.settle()
    assert cloud.actions(uuid)[-1][:3] == ('trigger_crash_dump', 'Error', True)
    assert not cloud.computes['host1'].driver.machine.guests[uuid].get('dumps')
    cloud.check()


def test_a_token_goes_with_its_server_and_with_its_host(cloud):
    uuid = cloud.boot()
    row = cloud.row(uuid)
    place = {'instance_uuid': uuid, 'console_type': 'novnc', 'instance_host': row['host'], 'host': '192.0.2.1',
             'port': 5900, 'tls_port': None, 'internal_access_path': None}
    for token, ttl in (('good', 100), ('late', -1)):
        cloud.db.run(console_tokens.insert, token, ttl, place)
    assert cloud.db.run(console_tokens.get, 'good')['port'] == 5900
    for token in ('late', 'unknown'):
        with pytest.raises(exception.ConsoleTokenNotFound):
            cloud.db.run(console_tokens.get, token)
    assert cloud.conductor.expiry.expire_console_tokens() == 1
    with cloud.db.writer() as conn:
        instances.update(conn, uuid, {'host': 'elsewhere'})
    with pytest.raises(exception.ConsoleTokenNotFound):
        cloud.db.run(console_tokens.get, 'good')
    with cloud.db.writer() as conn:
        instances.update(conn, uuid, {'host': row['host']})
    cloud.delete(uuid)
    cloud.settle()
    with cloud.db.reader() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(console_tokens.table)).scalar() == 0


@pytest.mark.parametrize(('name', 'arguments', 'stays'), [
    ('os-stop', {'clean_shutdown': False}, False), ('reboot-hard', {'reboot_type': 'HARD'}, False),
    ('suspend', {}, False), ('rescue', RESCUE, False), ('pause', {}, True),
    ('changePassword', {'admin_password': 'p'}, True), (None, {}, False)])
def test_a_token_opens_no_other_guest_that_gets_the_port(cloud, name, arguments, stays):
    uuid = cloud.boot()
    host = cloud.row(uuid)['host']
    cloud.db.run(console_tokens.insert, 'token', 100, {
        'instance_uuid': uuid, 'console_type': 'novnc', 'instance_host': host, 'host': '192.0.2.1', 'port': 5900,
        'tls_port': None, 'internal_access_path': None})
    if name:
        cloud.act(uuid, name, **arguments)
    else:
        cloud.conductor.methods.report_power_states(None, host, {uuid: states.SHUTDOWN})
    cloud.settle()
    if stays:
        assert cloud.db.run(console_tokens.get, 'token')
    else:
        with pytest.raises(exception.ConsoleTokenNotFound):
            cloud.db.run(console_tokens.get, 'token')


@pytest.mark.parametrize(('row', 'up', 'what'), [
    ({'vm_state': 'shelved_offloaded', 'task_state': 'unshelving', 'host': None}, False, 'resend'),
    ({'vm_state': 'shelved_offloaded', 'task_state': 'unshelving', 'host': 'h'}, False, 'resend'),
    ({'vm_state': 'active', 'task_state': 'shelving_image_uploading', 'host': 'h'}, True, 'resend')])
def test_reconciler_decides_about_interrupted_shelve_tasks(row, up, what):
    assert reconciler.decide(row, up, False) == what


def test_metadata_of_the_system_is_merged(cloud):
    """A key that somebody else writes meanwhile is not lost."""
    uuid = cloud.boot()
    instance = cloud.conductor.methods.update_instance(None, uuid, {'system_metadata': {'a': 1}})
    cloud.conductor.methods.update_instance(None, uuid, {'system_metadata': {'b': 2}})
    assert instance.system_metadata == {'a': 1}
    cloud.conductor.methods.update_instance(None, uuid, {'system_metadata': {'a': None}})
    assert cloud.row(uuid)['system_metadata'] == {'b': 2}


def test_an_action_that_is_cancelled_leaves_no_trace(cloud):
    uuid = cloud.boot()
    action = actions.ACTIONS['shelve']
    cloud.db.run(tasks.begin, cloud.ctx, uuid, action, {'image_id': IMAGE})
    cloud.db.run(tasks.cancel, cloud.ctx, uuid, action)
    with cloud.db.reader() as conn:
        assert instance_actions.arguments_of_open(conn, [uuid]) == {}
    with cloud.api_db.reader() as conn:
        assert not conn.execute(sa.select(tables_api.instance_mappings.c.queued_for_delete)).scalar()
