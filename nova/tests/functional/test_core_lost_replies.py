"""A conductor that dies after it has written and before it answers: it is asked again, and nothing is done twice."""
import threading

import pytest

from nova import states
from nova.db.placement import claims
from nova.db.servers import instances
from nova.tests import core
from nova.tests import long_runs
from nova.tests.support import core_live_migration as live
from nova.tests.support import core_moves as moves
from nova.tests.support import core_shelve as shelve
from nova.tests.support.waiting import wait_for

cloud = moves.cloud
SHARE = 2              # the replies of one in so many methods; in long runs of all of them


class Lost:
    """The answer to a method of the conductor does not come, that to the same question asked again does, each time."""

    def __init__(self, method):
        self._method, self._lock, self.times = method, threading.Lock(), 0

    def __call__(self, topic, method):
        if (topic, method) != ('conductor', self._method):
            return False
        with self._lock:
            self.times += 1
            return self.times % 2 == 1


def act(*names, state, power=states.RUNNING):
    """Actions one after the other on a server that runs on host1."""
    def scenario(cloud):
        uuid = live.boot(cloud)
        yield uuid
        for name, arguments in names:
            cloud.act(uuid, name, **arguments)
            cloud.settle()
        row = cloud.row(uuid)
        assert (row['vm_state'], row['power_state'], row['task_state']) == (state, power, None), row['fault']
    return scenario


def build(cloud):
    yield None
    uuid = cloud.boot()
    assert cloud.row(uuid)['power_state'] == states.RUNNING


def delete(cloud):
    uuid = live.boot(cloud)
    yield uuid
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid)


def migrate_live(cloud):
    uuid = live.boot(cloud)
    yield uuid
    number = live.migrate(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['host'] != 'host1' and live.move(cloud, number)['status'] == 'completed'


def resize(then):
    def scenario(cloud):
        uuid = live.boot(cloud)
        yield uuid
        cloud.move(uuid, moves.BIG)
        cloud.settle()
        assert cloud.row(uuid)['vm_state'] == states.RESIZED, cloud.row(uuid)['fault']
        cloud.end(uuid, then)
        cloud.settle()
        row = cloud.row(uuid)
        assert (row['vm_state'], row['task_state']) == (states.ACTIVE, None)
        assert (row['host'] == 'host1') == (then == 'revertResize')
    return scenario


def shelve_and_unshelve(cloud):
    """What it was shelved to is there until it runs again."""
    uuid = live.boot(cloud)
    cloud.conductor.methods.update_instance(None, uuid, {'system_metadata': {'password': 'what its guest has told'}})
    yield uuid
    shelve.shelve(cloud, uuid)
    assert shelve.state(cloud, uuid) == (states.SHELVED_OFFLOADED, None, None), cloud.row(uuid)['fault']
    assert shelve.IMAGE in cloud.images.data
    cloud.act(uuid, 'unshelve')
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['power_state'], row['task_state']) == (states.ACTIVE, states.RUNNING, None)
    assert cloud.guests()[uuid] == row['host'] and not cloud.images.data


def rebuild(cloud):
    uuid = live.boot(cloud)
    yield uuid
    cloud.act(uuid, 'rebuild', preserve_ephemeral=False, spec=cloud.conductor.methods.get_request_spec(None, uuid))
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['fault']) == (states.ACTIVE, None, None)


def snapshot(cloud):
    uuid = live.boot(cloud)
    yield uuid
    cloud.images.unfinished.add(shelve.IMAGE)
    cloud.act(uuid, 'createImage', image_id=shelve.IMAGE)
    cloud.settle()
    assert cloud.images.data.pop(shelve.IMAGE) and cloud.row(uuid)['fault'] is None


def reboot_after_a_restart(cloud):
    """What a host takes up after its restart ends as it would have."""
    uuid = live.boot(cloud)
    yield uuid
    cloud.bus.lost = lambda topic, method, server: method == 'reboot_instance'
    cloud.act(uuid, 'reboot-hard', reboot_type='HARD')
    cloud.bus.lost = None
    cloud.kill_compute('host1')
    cloud.start_compute('host1')
    cloud.settle()
    assert cloud.row(uuid)['task_state'] is None and cloud.row(uuid)['power_state'] == states.RUNNING
    assert cloud.actions(uuid)[-1][:3] == ('reboot', None, True)


def build_after_a_restart(cloud):
    yield None
    uuid, = cloud.insert()
    cloud.db.run(instances.update, uuid, {'host': 'host1', 'node': 'host1', 'task_state': states.SPAWNING})
    assert cloud.db.run(claims.claim, cloud.node()['id'], claims.resources(cloud.row(uuid)))
    cloud.kill_compute('host1')
    cloud.start_compute('host1')
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['power_state']) == (states.ACTIVE, None, states.RUNNING)


SCENARIOS = {
    'build, taken up': build_after_a_restart,
    'reboot, taken up': reboot_after_a_restart,
    'build': build,
    'delete': delete,
    'stop and start': act(('os-stop', {'clean_shutdown': True}), ('os-start', {}), state=states.ACTIVE),
    'reboot': act(('reboot-hard', {'reboot_type': 'HARD'}), state=states.ACTIVE),
    'pause': act(('pause', {}), state=states.PAUSED, power=states.POWER_PAUSED),
    'suspend and resume': act(('suspend', {}), ('resume', {}), state=states.ACTIVE),
    'live migration': migrate_live,
    'shelve and unshelve': shelve_and_unshelve,
    'rescue and unrescue': act(('rescue', shelve.RESCUE), ('unrescue', {}), state=states.ACTIVE),
    'rebuild': rebuild,
    'snapshot': snapshot,
    'soft delete and restore': act(('softDelete', {}), ('restore', {}), state=states.ACTIVE),
    'resize, confirmed': resize('confirmResize'),
    'resize, reverted': resize('revertResize'),
}


def run(cloud, scenario):
    """Run it; the methods of the conductor that were called after its preparation."""
    steps = SCENARIOS[scenario](cloud)
    next(steps)
    before = len(cloud.bus.messages)
    yield
    with pytest.raises(StopIteration):
        next(steps)
    cloud.settle()
    yield [message.partition('.')[2] for message in cloud.bus.messages[before:] if message.startswith('conductor.')]


@pytest.mark.parametrize('scenario', list(SCENARIOS))
def test_each_reply_is_lost_once(cloud, scenario):
    steps = run(cloud, scenario)
    next(steps)
    calls = core.conductor_interface.INTERFACE.methods
    methods = sorted({name for name in next(steps) if calls[name].call})
    assert methods
    for method in long_runs.turn(scenario, methods, SHARE):
        steps = run(cloud, scenario)
        next(steps)
        cloud.bus.reply_lost = lost = Lost(method)
        next(steps)
        wait_for(lambda lost=lost: lost.times > 1, what=f'{method} was not asked again')
        cloud.bus.reply_lost = None
        live.check(cloud)


def test_repeated_request_gets_the_host_claimed_before(cloud):
    """The scheduler has claimed a host and dies: asked again, it names that host, even when nothing else has room."""
    for filled in (False, True):
        uuid, = cloud.insert()
        spec = cloud.conductor.methods.get_request_spec(None, uuid)
        (first,), = cloud.scheduler.methods.select_destinations(cloud.ctx, spec, [uuid])
        if filled:
            for host in moves.HOSTS:
                cloud.force_down(host)
            cloud.scheduler.table.hosts(full=True)
        (again,), = cloud.scheduler.methods.select_destinations(cloud.ctx, spec, [uuid])
        assert (first.host, first.node) == (again.host, again.node)
        for host in moves.HOSTS:
            cloud.force_down(host, down=False)
        cloud.client['conductor'].build_instances(cloud.ctx, instance_uuids=[uuid])
        cloud.settle()
        assert cloud.row(uuid)['vm_state'] == states.ACTIVE and cloud.row(uuid)['host'] == first.host
    cloud.check()


@pytest.mark.parametrize('chosen', [False, True])
def test_a_scheduler_that_died_is_asked_again_soon(cloud, chosen):
    if chosen:
        cloud.bus.reply_lost = lambda topic, method: method == 'select_destinations'
    else:
        cloud.bus.lost = lambda topic, method, server: method == 'select_destinations'
    uuid, = cloud.create()
    cloud.settle()
    cloud.bus.lost = cloud.bus.reply_lost = None
    assert (cloud.row(uuid)['host'] is not None) == chosen
    assert cloud.row(uuid)['task_state'] == states.SCHEDULING
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    cloud.check()
