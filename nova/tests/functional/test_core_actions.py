"""Power operations, rebuild, images, consoles and power states, through conductor and compute."""
import threading
import time

import pytest

from nova import exception
from nova import states
from nova.compute import screenshots
from nova.compute import tasks
from nova.db.servers import instances
from nova.tests import core
from nova.tests.support import holding
from nova.tests.support import waiting
from nova.virt import driver as virt
from nova.virt.fake import driver as fake


@pytest.fixture
def cloud(tmp_path, request):
    cloud = core.Cloud(tmp_path, **getattr(request, 'param', {}))
    yield cloud
    cloud.close()


def state(cloud, uuid):
    row = cloud.row(uuid)
    assert cloud.computes['host1'].driver.guests()[uuid] == row['power_state']
    return row['vm_state'], row['task_state'], row['power_state']


# name, arguments, state before (actions that lead there), state after
POWER = (
    ('os-stop', {'clean_shutdown': True}, (), (states.STOPPED, None, states.SHUTDOWN)),
    ('os-start', {}, ('os-stop',), (states.ACTIVE, None, states.RUNNING)),
    ('reboot', {'reboot_type': 'SOFT'}, (), (states.ACTIVE, None, states.RUNNING)),
    ('reboot-hard', {'reboot_type': 'HARD'}, ('os-stop',), (states.ACTIVE, None, states.RUNNING)),
    ('reboot-hard', {'reboot_type': 'HARD'}, ('pause',), (states.ACTIVE, None, states.RUNNING)),
    ('pause', {}, (), (states.PAUSED, None, states.POWER_PAUSED)),
    ('unpause', {}, ('pause',), (states.ACTIVE, None, states.RUNNING)),
    ('suspend', {}, (), (states.SUSPENDED, None, states.POWER_SUSPENDED)),
    ('resume', {}, ('suspend',), (states.ACTIVE, None, states.RUNNING)),
)
ARGUMENTS = {'os-stop': {'clean_shutdown': False}}


@pytest.mark.parametrize(('name', 'arguments', 'before', 'after'), POWER)
def test_power_actions_set_the_state_of_the_server(cloud, name, arguments, before, after):
    uuid = cloud.boot()
    for step in before:
        cloud.act(uuid, step, **ARGUMENTS.get(step, {}))
        cloud.settle()
    cloud.act(uuid, name, **arguments)
    cloud.settle()
    assert state(cloud, uuid) == after
    action = cloud.actions(uuid)[-1]
    assert action[1:3] == (None, True) and action[3][0][1] == 'Success'
    cloud.check()


@pytest.mark.parametrize(('name', 'operation', 'after'), [
    ('os-stop', 'power_off', states.ACTIVE), ('pause', 'pause', states.ACTIVE),
    ('reboot', 'reboot', states.ERROR), ('rebuild', 'spawn', states.ERROR)])
def test_failed_operation_records_the_fault_and_ends_the_task(cloud, name, operation, after):
    uuid = cloud.boot()
    cloud.computes['host1'].driver.failures[operation] = RuntimeError('canary')
    arguments = {'os-stop': {'clean_shutdown': True}, 'reboot': {'reboot_type': 'SOFT'},
                 'rebuild': {'preserve_ephemeral': False, 'spec': cloud.conductor.methods.get_request_spec(None, uuid)}}
    cloud.act(uuid, name, **arguments.get(name, {}))
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state']) == (after, None)
    assert row['fault']['code'] == 500 and 'canary' not in row['fault']['message']
    assert 'canary' in row['fault']['details']
    assert cloud.actions(uuid)[-1][1] == 'Error' and cloud.actions(uuid)[-1][3][0][1] == 'Error'


def test_a_message_for_a_feature_that_the_driver_does_not_have(cloud, monkeypatch):
    """The API refuses such a request; where it comes all the same the server stayed in its task state."""
    uuid = cloud.boot()
    monkeypatch.setattr(virt, 'Pause', type('Pause', (), {'feature': 'pause'}))
    cloud.act(uuid, 'pause')
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, states.RUNNING)
    assert cloud.row(uuid)['fault']['code'] == 501
    assert 'The driver of host host1 does not have the feature pause.' in cloud.row(uuid)['fault']['details']
    assert cloud.actions(uuid)[-1][1] == 'Error'


def test_begin_refuses_by_the_table(cloud):
    uuid = cloud.boot()
    with pytest.raises(exception.InstanceInvalidState) as caught:
        cloud.act(uuid, 'os-start')
    assert caught.value.kwargs == {'attr': 'vm_state', 'instance_id': uuid, 'method': 'start', 'state': 'active'}
    with holding.held('power_off', cloud.computes['host1'].driver.machine):
        cloud.act(uuid, 'os-stop', clean_shutdown=True)
        with pytest.raises(exception.InstanceInvalidState) as caught:
            cloud.act(uuid, 'pause')
    assert caught.value.kwargs['attr'] == 'task_state' and caught.value.kwargs['state'] == 'powering-off'
    cloud.settle()
    cloud.conductor.methods.update_instance(None, uuid, {'locked': True})
    with pytest.raises(exception.InstanceIsLocked):
        cloud.act(uuid, 'os-start')
    cloud.act(uuid, 'os-start', admin=True)
    cloud.settle()
    assert state(cloud, uuid)[0] == states.ACTIVE
    with pytest.raises(exception.InstanceNotFound):
        cloud.act('70a599e0-31e7-49b7-b260-868f441e8620', 'os-start')
    assert [action[0] for action in cloud.actions(uuid)] == ['create', 'stop', 'start']


@pytest.mark.parametrize('stopped', [False, True])
def test_rebuild_keeps_addresses_and_stays_stopped(cloud, stopped):
    uuid = cloud.boot()
    addresses = cloud.row(uuid)['network_info']
    if stopped:
        cloud.act(uuid, 'os-stop', clean_shutdown=True)
        cloud.settle()
    cloud.act(uuid, 'rebuild', preserve_ephemeral=False, spec=cloud.conductor.methods.get_request_spec(None, uuid))
    cloud.settle()
    assert state(cloud, uuid)[0] == (states.STOPPED if stopped else states.ACTIVE)
    assert cloud.row(uuid)['network_info'] == addresses
    cloud.check()


def test_a_rebuild_that_is_to_keep_the_ephemeral_disk_leaves_the_guest(cloud):
    """Asked for by an API of the release before; the guest and its disks were removed first."""
    uuid = cloud.boot()
    cloud.db.run(instances.update, uuid, {'ephemeral_gb': 1})
    cloud.act(uuid, 'rebuild', preserve_ephemeral=True, spec=cloud.conductor.methods.get_request_spec(None, uuid))
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, states.RUNNING)
    assert cloud.actions(uuid)[-1][:2] == ('rebuild', 'Error')


def test_snapshot_uploads_the_disk(cloud):
    uuid = cloud.boot()
    cloud.act(uuid, 'createImage', image_id='i1')
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, states.RUNNING)
    assert cloud.images.data['i1'].startswith(b'fake disk')


@pytest.mark.parametrize(('action', 'arguments'), [('createImage', {}), ('shelve', {'clean_shutdown': False})])
def test_progress_is_shown_during_a_snapshot(cloud, monkeypatch, action, arguments):
    """The progress of a server stood at 0 while its disk was copied."""
    uuid, seen = cloud.boot(), []
    upload = cloud.images.upload
    monkeypatch.setattr(tasks, 'PROGRESS_INTERVAL_S', 0)
    cloud.computes['host1'].driver.delays['snapshot'] = 0.1

    def look(*args, **named):
        seen.append(cloud.row(uuid)['progress'])
        upload(*args, **named)
    monkeypatch.setattr(cloud.images, 'upload', look)
    cloud.images.unfinished.add('i1')
    cloud.act(uuid, action, image_id='i1', **arguments)
    cloud.settle()
    assert seen == [90] and cloud.row(uuid)['progress'] == 0 and cloud.images.data['i1']


def test_progress_is_shown_during_a_build(cloud, monkeypatch):
    """The progress of a server stood at 0 while it was built. A report costs a write, so most are not shown."""
    driver, seen = cloud.computes['host1'].driver, []
    monkeypatch.setattr(tasks, 'PROGRESS_INTERVAL_S', 0)
    spawn = driver.spawn

    def report(context, instance, request):
        for percent in (0, 9, 10, 11, 19, 20, 5, 95, 96):
            request.report(percent)
            seen.append(cloud.row(instance.uuid)['progress'])
        spawn(context, instance, request)
    monkeypatch.setattr(driver, 'spawn', report)
    uuid = cloud.boot()
    assert seen == [0, 0, 10, 10, 10, 20, 20, 95, 95]
    assert cloud.row(uuid)['progress'] == 0 and cloud.row(uuid)['vm_state'] == states.ACTIVE


def test_a_short_build_shows_no_progress(cloud, monkeypatch):
    driver, shown = cloud.computes['host1'].driver, []
    spawn = driver.spawn

    def report(context, instance, request):
        for percent in range(100):
            request.report(percent)
        shown.append(cloud.row(instance.uuid)['progress'])
        spawn(context, instance, request)
    monkeypatch.setattr(driver, 'spawn', report)
    cloud.boot()
    assert shown == [0]


def test_a_build_whose_server_is_deleted_meanwhile_ends_at_its_next_report(cloud, monkeypatch):
    driver, went_on = cloud.computes['host1'].driver, []
    monkeypatch.setattr(tasks, 'PROGRESS_INTERVAL_S', 0)

    def spawn(context, instance, request):
        cloud.delete(instance.uuid)
        request.report(50)
        went_on.append(instance.uuid)
    monkeypatch.setattr(driver, 'spawn', spawn)
    uuid, = cloud.create()
    cloud.settle()
    assert not went_on and cloud.gone(uuid) and not driver.guests()


def test_failed_snapshot_removes_the_image(cloud):
    uuid = cloud.boot()
    cloud.images.data['i1'] = b'half'
    cloud.images.failure = exception.ImageUnacceptable(image_id='i1', reason='no room')
    cloud.act(uuid, 'createImage', image_id='i1')
    cloud.settle()
    assert state(cloud, uuid) == (states.ACTIVE, None, states.RUNNING)
    assert cloud.images.data == {} and cloud.actions(uuid)[-1][1] == 'Error'


def test_console_output_returns_the_last_lines(cloud):
    uuid = cloud.boot()
    cloud.act(uuid, 'reboot', reboot_type='SOFT')
    cloud.settle()
    instance = cloud.conductor.methods.instances_on_host(None, 'host1')[0]['instance']

    def console(length):
        return cloud.client['compute'].get_console_output(cloud.ctx, server='host1', instance=instance, length=length)
    boot = ''.join(f'vm: {line}\n' for line in fake.BOOT)
    assert console(None) == boot + boot and boot.endswith('vm: booted\n')
    assert console(1) == 'vm: booted' and console(0) == '' and console(99) == (boot + boot)[:-1]
    # a client counts what it asked for: nothing follows the last line
    assert console(3).split('\n') == [f'vm: {line}' for line in (fake.BOOT + fake.BOOT)[-3:]]
    cloud.computes['host1'].driver.destroy(None, instance, [])
    with pytest.raises(exception.InstanceNotReady):
        console(None)
    cloud.computes['host1'].recovery.recover()
    cloud.settle()


def test_pictures_of_guests_that_hang_hold_up_nobody(cloud, monkeypatch):
    """So many at once as the host takes; the next one is refused, and does not wait."""
    cloud.boot()
    compute, instance = cloud.computes['host1'], cloud.conductor.methods.instances_on_host(None, 'host1')[0]['instance']
    feature = compute.driver.features[virt.Screenshots]
    take, go_on, begun = feature.screenshot, threading.Event(), threading.Semaphore(0)

    def hang(guest):
        begun.release()
        assert go_on.wait(60)
        return take(guest)
    monkeypatch.setattr(feature, 'screenshot', hang)
    found = []
    threads = [threading.Thread(target=lambda: found.append(compute.methods.get_console_screenshot(None, instance)))
               for _ in range(screenshots.MAX_CONCURRENT)]
    for thread in threads:
        thread.start()
        assert begun.acquire(timeout=60)
    with pytest.raises(exception.ServiceBusy):
        compute.methods.get_console_screenshot(None, instance)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert len(found) == screenshots.MAX_CONCURRENT
    assert compute.methods.get_console_screenshot(None, instance) == found[0]


@pytest.mark.parametrize(('power', 'vm_state'), [
    (states.SHUTDOWN, states.STOPPED), (states.CRASHED, states.STOPPED), (states.POWER_PAUSED, states.PAUSED)])
def test_a_guest_that_changes_by_itself(cloud, power, vm_state):
    uuid = cloud.boot()
    cloud.computes['host1'].driver.machine.change_by_itself(uuid, power)
    for _ in range(400):
        cloud.settle()
        if cloud.row(uuid)['vm_state'] == vm_state:
            break
        time.sleep(0.05)
    assert state(cloud, uuid) == (vm_state, None, power)


@pytest.mark.parametrize('action', ['createImage', 'createBackup'])
@pytest.mark.parametrize('missed', [False, True], ids=['event', 'missed-event'])
def test_guest_that_shuts_down_while_its_server_is_imaged_is_stopped(cloud, action, missed):
    uuid, compute = cloud.boot(), cloud.computes['host1']
    cloud.images.unfinished.add('i1')
    if missed:
        compute.driver.machine.on_event = lambda *args: None
    arguments = {'backup_type': 'daily', 'rotation': 1} if action == 'createBackup' else {}
    with holding.held('snapshot', compute.driver.machine) as (begun, goes_on):
        cloud.act(uuid, action, image_id='i1', **arguments)
        assert begun.wait(60)
        compute.driver.machine.change_by_itself(uuid, states.SHUTDOWN)
        if not missed:
            waiting.wait_for(lambda: compute.queue.in_progress() == {uuid: 1})       # the report waits for the task
        goes_on.set()
    cloud.settle()
    assert not missed or compute.power_states.synchronize() == 1
    cloud.settle()
    assert state(cloud, uuid) == (states.STOPPED, None, states.SHUTDOWN)


def test_a_missed_event_is_found(cloud):
    uuid = cloud.boot()
    driver = cloud.computes['host1'].driver
    driver.machine.on_event = lambda *args: None
    driver.machine.change_by_itself(uuid, states.SHUTDOWN)
    assert cloud.computes['host1'].power_states.synchronize() == 1
    cloud.settle()
    assert state(cloud, uuid)[0] == states.STOPPED
    assert cloud.computes['host1'].power_states.synchronize() == 0


def test_a_host_keeps_no_power_state_of_a_server_that_has_left_it(cloud):
    uuid, stays = cloud.boot(), cloud.boot()
    compute = cloud.computes['host1']
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    for each in (uuid, stays):
        compute.power_states.report(each)               # as after an event of its guest
    cloud.settle()
    assert compute.host.power_states == {stays: states.RUNNING}


def test_a_delete_overtakes_a_slow_operation(cloud):
    uuid = cloud.boot()
    with holding.held('power_off', cloud.computes['host1'].driver.machine) as (begun, _goes_on):
        cloud.act(uuid, 'os-stop', clean_shutdown=True)
        assert begun.wait(60)
        cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid)
    assert [action[:3] for action in cloud.actions(uuid)] == [
        ('create', None, True), ('stop', 'Error', True), ('delete', None, True)]
    cloud.check()


@pytest.mark.parametrize('cloud', [{'max_concurrent_tasks': 3}], indirect=True)
def test_a_waiting_task_does_not_hold_up_other_servers(cloud):
    """A busy server's tasks stand in its own queue; threads stay free for the others."""
    first, second = cloud.boot(), cloud.boot()
    driver, goes_on = cloud.computes['host1'].driver, threading.Event()
    reboot = driver.reboot
    driver.reboot = lambda *args, **kwargs: goes_on.wait(60) and reboot(*args, **kwargs)
    for _ in range(5):
        cloud.act(first, 'reboot-hard', reboot_type='HARD')
    cloud.act(second, 'pause')
    waiting.wait_for(lambda: cloud.row(second)['vm_state'] == states.PAUSED, 20, 'the other server')
    assert cloud.row(first)['task_state'] is not None
    goes_on.set()
    cloud.settle()
    assert cloud.row(first)['vm_state'] == states.ACTIVE
