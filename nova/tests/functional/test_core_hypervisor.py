"""A hypervisor that does not answer for a while: what its servers and its host show meanwhile, and afterwards."""
import pytest

from nova import exception
from nova import states
from nova.compute import tasks
from nova.db.services import services
from nova.tests import core
from nova.tests.support import waiting

REASON = 'libvirt does not answer (no route)'


@pytest.fixture
def cloud(tmp_path):
    cloud = core.Cloud(tmp_path, hosts=('host1', 'host2'))
    yield cloud
    cloud.close()


def lost(cloud, *operations, host='host1'):
    for name in operations:
        cloud.computes[host].driver.failures[name] = exception.HypervisorUnreachable(operation=name, reason=REASON)


def service(cloud, host='host1'):
    with cloud.db.reader() as conn:
        row, = services.list(conn, host=host, topic='compute')
    return row['disabled'], row['disabled_reason']


def shows(cloud, *expected):
    waiting.wait_for(lambda: service(cloud) == expected, 10, f'the service to show {expected}')


@pytest.mark.parametrize(('name', 'operation', 'arguments'), [
    ('reboot-hard', 'reboot', {'reboot_type': 'HARD'}), ('reboot', 'reboot', {'reboot_type': 'SOFT'}),
    ('os-stop', 'power_off', {'clean_shutdown': True}), ('delete', 'destroy', {}),
    ('rescue', 'power_off', {'image_id': core.IMAGE['id'], 'admin_password': 'p', 'clean_shutdown': False})])
def test_an_action_that_cannot_reach_the_hypervisor_changes_no_state(cloud, name, operation, arguments):
    uuid = cloud.boot(force_host='host1')
    lost(cloud, operation)
    cloud.act(uuid, name, **arguments)
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['power_state']) == (states.ACTIVE, None, states.RUNNING)
    assert cloud.actions(uuid)[-1][1] == 'Error' and row['fault']['message'] == tasks.UNREACHABLE
    assert REASON in row['fault']['details']
    cloud.computes['host1'].driver.failures.clear()
    cloud.act(uuid, 'reboot-hard', reboot_type='HARD')
    cloud.settle()
    assert cloud.actions(uuid)[-1][1] is None and cloud.row(uuid)['vm_state'] == states.ACTIVE


def test_a_rebuild_that_has_removed_the_disks_is_an_error(cloud):
    uuid = cloud.boot(force_host='host1')
    lost(cloud, 'spawn')
    cloud.act(uuid, 'rebuild', preserve_ephemeral=False, spec=cloud.conductor.methods.get_request_spec(None, uuid))
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ERROR


def test_a_host_without_hypervisor_takes_no_servers_and_returns_by_itself(cloud):
    driver = cloud.computes['host1'].driver
    driver.on_hypervisor(REASON)
    shows(cloud, True, 'AUTO: ' + REASON)
    assert {cloud.row(cloud.boot())['host'] for _ in range(4)} == {'host2'}
    driver.on_hypervisor('the disk is full')
    shows(cloud, True, 'AUTO: the disk is full')
    driver.on_hypervisor('')
    shows(cloud, False, None)
    lost(cloud, 'spawn', host='host2')
    assert cloud.row(cloud.boot())['host'] == 'host1'


def test_a_service_that_an_operator_has_disabled_stays_disabled(cloud):
    driver = cloud.computes['host1'].driver
    row, = [row for row in _rows(cloud) if row['host'] == 'host1']
    cloud.db.run(services.update, row['id'], {'disabled': True, 'disabled_reason': 'new memory'})
    driver.on_hypervisor(REASON)
    driver.on_hypervisor('')
    cloud.computes['host1'].availability.settle()
    assert service(cloud) == (True, 'new memory')


def test_a_report_that_fails_is_repeated_and_a_restart_ends_an_old_one(cloud, monkeypatch):
    compute = cloud.computes['host1']
    conductor, refused = compute.host.conductor, []

    def refuse(ctx, **arguments):
        refused.append(arguments)
        raise exception.Unavailable('no conductor')
    monkeypatch.setattr(conductor, 'report_availability', refuse, raising=False)
    compute.driver.on_hypervisor(REASON)
    waiting.wait_for(lambda: refused, 10, 'the first report')
    assert service(cloud) == (False, None)
    monkeypatch.undo()
    compute.availability.settle()
    assert service(cloud) == (True, 'AUTO: ' + REASON)
    cloud.kill_compute('host1')
    cloud.start_compute('host1')
    shows(cloud, False, None)


def _rows(cloud):
    with cloud.db.reader() as conn:
        return services.list(conn, topic='compute')
