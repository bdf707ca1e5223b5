"""Rollbacks that cannot remove the guest: the server keeps its host, volumes and ports, and no other host gets it."""
from nova import exception
from nova import states
from nova.tests.support import core_evacuation
from nova.tests.support import core_moves
from nova.tests.support import core_shelve

cloud = core_moves.cloud
REMOVALS = ('destroy', 'drop_migrated')


def _fail_after_the_start(cloud, hosts):
    """The guest is there when its task fails, and stays."""
    for host in hosts:
        def fails(server, driver=cloud.computes[host].driver):
            driver.failures.update(dict.fromkeys(REMOVALS, 1.0))
            raise exception.VirtError(operation='read the power state', reason='canary')
        cloud.computes[host].driver.power_state = fails


def _remains(cloud, uuid, action):
    """The host that keeps the server in ERROR; a later delete ends its guest and everything of it."""
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state']) == (states.ERROR, None), row
    assert 'did not remove its guest' in row['fault']['message'] and 'canary' not in row['fault']['message']
    assert 'canary' in row['fault']['details'] and any(name in row['fault']['details'] for name in REMOVALS)
    assert uuid in cloud.computes[row['host']].driver.guests() and cloud.network.allocated[uuid][0] == row['host']
    assert cloud.actions(uuid)[-1][:3] == (action, 'Error', True)
    cloud.pass_time()
    cloud.conductor.reconciler.reconcile()
    cloud.settle()
    assert cloud.row(uuid)['host'] == row['host']
    for compute in cloud.computes.values():
        compute.driver.failures.clear()
        vars(compute.driver).pop('power_state', None)
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid) and cloud.guests() == {} and cloud.network.allocated == {}
    cloud.check()
    return row['host']


def test_a_failed_build_whose_guest_remains_is_not_tried_elsewhere(cloud):
    _fail_after_the_start(cloud, core_moves.HOSTS)
    uuid, = cloud.create()
    host = _remains(cloud, uuid, 'create')
    assert cloud.bus.messages.count('compute.build_instance') == 1 and host in core_moves.HOSTS


def test_a_failed_build_without_a_guest_is_tried_elsewhere(cloud):
    """Files of a guest that does not exist change no volume."""
    for host in core_moves.HOSTS[:2]:
        cloud.computes[host].driver.failures.update(spawn=1.0, destroy=1.0)
    uuids = [cloud.create()[0] for _ in range(4)]
    cloud.settle()
    assert {cloud.row(uuid)['host'] for uuid in uuids} == {'host3'}


def test_a_move_whose_guest_remains_at_the_destination_does_not_return(cloud):
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    _fail_after_the_start(cloud, [host for host in core_moves.HOSTS if host != source])
    cloud.move(uuid)
    assert _remains(cloud, uuid, 'migrate') != source


def test_an_evacuation_whose_guest_remains_does_not_return(cloud):
    uuid = cloud.boot(force_host='host1')
    core_evacuation.die(cloud)
    _fail_after_the_start(cloud, ['host2'])
    core_evacuation.evacuate(cloud, uuid, host='host2')
    cloud.settle()
    old = core_evacuation.come_back(cloud)
    assert old.driver.guests().get(uuid) in (None, states.SHUTDOWN)
    assert _remains(cloud, uuid, 'evacuate') == 'host2'


def test_an_unshelved_server_whose_guest_remains_keeps_its_host(cloud):
    uuid = cloud.boot()
    core_shelve.shelve(cloud, uuid)
    _fail_after_the_start(cloud, core_moves.HOSTS)
    core_shelve.unshelve(cloud, uuid)
    _remains(cloud, uuid, 'unshelve')


def test_a_rebuild_that_cannot_remove_the_guest_changes_nothing_of_it(cloud):
    uuid = cloud.boot()
    before = cloud.row(uuid)
    cloud.computes[before['host']].driver.failures['destroy'] = 1.0
    cloud.act(uuid, 'rebuild', preserve_ephemeral=False, spec=cloud.conductor.methods.get_request_spec(None, uuid))
    cloud.settle()
    row = cloud.row(uuid)
    assert (row['vm_state'], row['host'], row['network_info']) == (
        states.ERROR, before['host'], before['network_info']) and uuid in cloud.guests()
