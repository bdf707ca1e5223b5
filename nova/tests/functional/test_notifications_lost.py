"""Notifications where things break: hosts that die, answers that are lost, and telling that fails."""
import datetime

import pytest
from oslo_db import exception as db_exc

from nova import exception
from nova import notify
from nova import objects
from nova import utils
from nova.db.servers import event_facts
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.tests import core
from nova.tests.functional import servers
from nova.tests.support import core_moves as moves
from nova.tests.support import notify as test_notify
from nova.tests.support.waiting import wait_for


@pytest.fixture
def cloud(tmp_path):
    made = moves.Cloud(tmp_path, hosts=moves.HOSTS)
    made.sender = test_notify.Sender()
    made.notifier = notify.Notifier(made.conf, {'versioned': made.sender})
    made.new_conductor(notifier=made.notifier)
    yield made
    made.close()


def told(cloud):
    """Event types so far, in their order."""
    wait_for(lambda: not cloud.notifier.waiting)
    return [each[2] for each in cloud.sender.sent]


def overdue(cloud, monkeypatch):
    """Let the reconciler find what was open for longer than anything takes."""
    later = utils.utcnow() + datetime.timedelta(seconds=2 * cloud.conf.conductor.task_timeout)
    monkeypatch.setattr(utils, 'utcnow', lambda: later)
    cloud.conductor.reconciler.reconcile()


def test_reconciler_sends_error_notifications_for_tasks_of_a_dead_host(cloud, monkeypatch):
    uuid = cloud.boot()
    host = cloud.row(uuid)['host']
    cloud.bus.lost = lambda topic, method, server: (topic, method) == ('conductor', 'end_task')
    cloud.act(uuid, 'reboot-hard', reboot_type='HARD')
    wait_for(lambda: 'instance.reboot.start' in told(cloud))
    cloud.kill_compute(host)
    cloud.bus.lost = None
    overdue(cloud, monkeypatch)
    assert told(cloud)[-3:] == ['instance.reboot.start', 'instance.reboot.error', 'compute.exception.error']
    fault = cloud.sender.sent[-2][4]['nova_object.data']['fault']['nova_object.data']
    assert fault['exception_message'] == 'The host did not finish the operation.'


@pytest.mark.parametrize('method, action, arguments, name', [
    ('end_task', 'pause', {}, 'pause'), ('instance_destroyed', 'delete', {}, 'delete'),
    ('instance_offloaded', 'shelve', {'image_id': 'i1', 'clean_shutdown': False}, 'shelve_offload')])
def test_an_answer_that_is_lost_is_told_once(cloud, method, action, arguments, name):
    """The host asks again, and what is done is not done, or told, a second time."""
    uuid, lost = cloud.boot(), []

    def reply_lost(topic, called):
        if called == method and not lost:
            lost.append(called)
            return True
        return False
    cloud.bus.reply_lost = reply_lost
    cloud.act(uuid, action, **arguments)
    cloud.settle()
    assert lost and told(cloud).count(f'instance.{name}.end') == 1


def test_an_action_does_not_fail_with_what_is_told_of_it(cloud, monkeypatch):
    def broken(*_args):
        raise RuntimeError('canary')
    uuid = cloud.boot()
    monkeypatch.setattr(event_facts, 'open_actions', broken)
    cloud.act(uuid, 'pause')
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == 'paused'
    assert cloud.notifier.counts['failed'] >= 2
    assert not [name for name in told(cloud) if 'pause' in name]


def test_an_event_has_the_row_that_its_transaction_left(cloud):
    """Not the one that a quick user's next action has left, before the event was made."""
    uuid = cloud.boot()
    told(cloud)
    cloud.sender.gate.clear()
    for name in ('pause', 'unpause', 'suspend'):
        cloud.act(uuid, name)
        cloud.settle()
    cloud.sender.gate.set()
    told(cloud)
    seen = [(each[2], each[4]['nova_object.data']) for each in cloud.sender.sent[-6:]]
    assert [(name, data['state'], data['task_state']) for name, data in seen] == [
        ('instance.pause.start', 'active', 'pausing'), ('instance.pause.end', 'paused', None),
        ('instance.unpause.start', 'paused', 'unpausing'), ('instance.unpause.end', 'active', None),
        ('instance.suspend.start', 'active', 'suspending'), ('instance.suspend.end', 'suspended', None)]


def test_repeated_transaction_sends_its_notification_once(cloud, monkeypatch):
    """And what is written again is told once."""
    uuid, tries = cloud.boot(), []
    finish = instance_actions.finish

    def deadlock_once(*args, **kwargs):
        finish(*args, **kwargs)
        tries.append(args)
        if len(tries) == 1:
            raise db_exc.DBDeadlock
    monkeypatch.setattr(instance_actions, 'finish', deadlock_once)
    cloud.act(uuid, 'pause')
    cloud.settle()
    assert len(tries) == 2 and told(cloud).count('instance.pause.end') == 1


def test_a_delete_without_a_host_is_told_by_the_conductor(cloud):
    uuid, = cloud.insert()
    cloud.delete(uuid)
    cloud.settle()
    assert told(cloud) == ['instance.delete.start', 'instance.delete.end']
    assert {each[1] for each in cloud.sender.sent} == {f'nova-conductor:{cloud.conf.host}'}


def test_a_delete_of_a_server_whose_host_is_down(cloud):
    uuid = cloud.boot()
    host = cloud.row(uuid)['host']
    cloud.force_down(host)
    cloud.bus.lost = lambda topic, method, server: (topic, method) == ('compute', 'terminate_instance')
    cloud.delete(uuid)
    cloud.client['conductor'].delete_instance(cloud.ctx, instance_uuid=uuid)
    cloud.settle()
    assert told(cloud)[-2:] == ['instance.delete.start', 'instance.delete.end']


def test_a_refused_change_sends_no_notification(cloud):
    uuid = cloud.boot()
    before = told(cloud)
    with pytest.raises(exception.InstanceChanged):
        cloud.conductor.methods.end_task(cloud.ctx, uuid, 'compute_pause_instance', 'host9', {'task_state': None},
                                         {'host': 'host9'})
    cloud.conductor.methods.notify(cloud.ctx, 'no such server', 'trigger_crash_dump', 'start', 'host1')
    cloud.conductor.methods.notify(cloud.ctx, uuid, 'no such event', 'start', 'host1')
    assert told(cloud) == before


def test_event_facts_are_not_passed_as_arguments_of_a_resumed_action(cloud):
    """A host that takes up an action gets the arguments of its method, and no others."""
    uuid = cloud.boot()
    arguments = {'bdm_uuid': 'b', instance_actions.EVENT_FACTS: {'volume_id': 'v'}}
    with cloud.db.writer() as conn:
        instance_actions.insert(conn, cloud.ctx, [uuid], 'attach_volume', arguments=arguments)
        later = utils.utcnow() + datetime.timedelta(days=1)
        for found in (instance_actions.background_on_host(conn, cloud.row(uuid)['host']),
                      instance_actions.overdue(conn, later)):
            assert [row['arguments'] for row in found] == [{'bdm_uuid': 'b'}]
    cloud.conductor.methods.begin_background(cloud.ctx, uuid, cloud.row(uuid)['host'], 'compute:x', 10)
    told(cloud)
    assert cloud.sender.sent[-1][4]['nova_object.data']['volume_id'] == 'v'


def abort(cloud, uuid):
    instance = objects.Instance.from_row(cloud.row(uuid))
    cloud.client['compute'].abort_live_migration(cloud.ctx, server='host1', instance=instance)
    cloud.settle()


def test_computes_tell_only_where_somebody_listens(tmp_path):
    cloud = core.Cloud(tmp_path)
    try:
        uuid = cloud.boot()
        abort(cloud, uuid)
        assert 'conductor.notify' not in cloud.bus.messages
        cloud.conf.set_override('driver', ['log'], group='oslo_messaging_notifications')
        cloud.kill_compute('host1')
        cloud.start_compute('host1')
        abort(cloud, uuid)
        assert cloud.bus.messages.count('conductor.notify') == 2
    finally:
        cloud.close()


@pytest.mark.parametrize('broken', [(instances, 'get'), (instances, 'get_many'), (event_facts, 'read_attached')],
                         ids=['row', 'rows', 'attached'])
def test_no_operation_fails_because_its_event_cannot_be_read(tmp_path, monkeypatch, broken):
    def away(*_args):
        raise db_exc.DBConnectionError
    cloud = servers.Servers(tmp_path)
    cloud.services.notifier = notify.Notifier(cloud.conf, {'versioned': test_notify.Sender()})
    try:
        uuid = cloud.add_server()
        monkeypatch.setattr(*broken, away)
        client = cloud.client(version='2.26')
        assert cloud.client().post('/servers', cloud.body()).status == 202
        assert [name for name, _host, _arguments in cloud.conductor.sent] == ['build_instances']
        assert client.put(f'/servers/{uuid}/tags/one').status == 201
        assert cloud.services.notifier.counts['failed'] > 0
    finally:
        cloud.close()
