"""Notifications in a cloud of two cells: the conductors of the cell where a server lives tell of it."""
import collections

import pytest
from oslo_messaging.notify import _impl_test

from nova.rpc import bus
from nova.tests.functional import cells_cloud
from nova.tests.functional import notifications
from nova.tests.support.waiting import wait_for


@pytest.fixture
def running(tmp_path):
    _impl_test.reset()
    cloud = cells_cloud.Cloud(tmp_path, notifications__notification_format='versioned')
    bus.register_options(cloud.conf)
    cloud.conf.set_override('driver', ['test'], group='oslo_messaging_notifications')
    cloud.start()
    yield cloud
    cloud.stop(5)


def told(uuid):
    """[(event type, publisher)] of one server's events but its updates."""
    found = [message for _context, message, _priority in notifications.told()
             if message['payload'].get('nova_object.data', {}).get('uuid') == uuid]
    return [(each['event_type'], each['publisher_id']) for each in found if each['event_type'] != 'instance.update']


def heard(uuid, event):
    wait_for(lambda: 'instance.' + event in [name for name, _publisher in told(uuid)])


def test_notifications_of_the_second_cell_are_sent(running):
    boss = running.admin('2.96')
    image = boss.upload_image(data=b'\0' * 4096)
    uuid = boss.boot(image, networks='auto', host='two1')['id']
    heard(uuid, 'create.end')                    # which follows the state that a client sees
    boss.post(f'/servers/{uuid}/action', {'os-stop': None})
    heard(uuid, 'power_off.end')
    boss.post(f'/servers/{uuid}/action', {'lock': None})
    heard(uuid, 'lock')
    boss.delete(f'/servers/{uuid}')
    heard(uuid, 'delete.end')
    assert [each for each in told(uuid) if each[0] != 'instance.lock'] == [
        (f'instance.{name}', 'nova-compute:two1') for name in (
            'create.start', 'create.end', 'power_off.start', 'power_off.end', 'delete.start', 'shutdown.start',
            'shutdown.end', 'delete.end')]
    assert ('instance.lock', f'nova-api:{running.conf.host}') in told(uuid)


def test_notifications_of_a_failed_build_are_sent(running):
    boss = running.admin('2.96')
    image = boss.upload_image(data=b'\0' * 4096)
    for driver in running.computes().values():
        driver.driver.failures['spawn'] = RuntimeError('canary')
    uuid = boss.boot(image, networks='auto')['id']
    boss.wait_for(uuid, 'ERROR')
    wait_for(lambda: any(message['event_type'] == 'compute_task.build_instances.error'
                      and message['payload']['nova_object.data']['instance_uuid'] == uuid
                      for _context, message, _priority in notifications.told()))
    wait_for(lambda: len(told(uuid)) >= 6)
    found = collections.defaultdict(list)            # each cell's conductor tells for itself, in no common order
    for name, publisher in told(uuid):
        found[publisher].append(name)
    assert list(found.values()) == [['instance.create.start', 'instance.create.error']] * 3      # max_attempts
