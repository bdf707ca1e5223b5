"""PCI devices of servers that move: those of the new place are taken before those of the old one are given back, and
whatever comes between, in the end the server has what it asked for once."""

import pytest

from nova import exception
from nova import states
from nova.tests.support import core_evacuation as evacuation
from nova.tests.support import core_live_migration as live
from nova.tests.support import core_moves as moves
from nova.tests.support import core_shelve as shelving
from nova.tests.support import pci as devices

TWO = {**moves.BIG, **devices.flavor(2)}


@pytest.fixture
def cloud(tmp_path, database_url):
    made = moves.Cloud(tmp_path, hosts=('host1', 'host2'), url=database_url, **devices.options())
    yield made
    assert made.conductor.claim_check.audit() == []
    assert devices.given(made) == {place: uuid for place, (uuid, _) in devices.owners(made).items()}
    made.close()


def boot(cloud, count=1, host='host1'):
    return cloud.boot(flavor=devices.flavor(count), requested_host=host)


def had(cloud):
    """{host: sorted [held]} of what is taken."""
    found = {}
    for (host, _), (_, held) in sorted(devices.owners(cloud).items()):
        found.setdefault(host, []).append(held)
    return found


@pytest.mark.parametrize('flavor', [None, TWO])
def test_a_move_that_is_confirmed(cloud, flavor):
    uuid, count = boot(cloud), 2 if flavor else 1
    cloud.move(uuid, flavor)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.RESIZED, cloud.row(uuid)['fault']
    assert had(cloud) == {'host1': [True], 'host2': [False] * count}
    assert len(cloud.computes['host2'].driver.machine.guests[uuid]['pci_devices']) == count
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    assert had(cloud) == {'host2': [False] * count}
    assert devices.free(cloud) == {'host1': 2, 'host2': 2 - count}


@pytest.mark.parametrize('flavor', [None, TWO])
def test_a_move_that_is_reverted(cloud, flavor):
    uuid = boot(cloud)
    before = devices.owners(cloud)
    cloud.move(uuid, flavor)
    cloud.settle()
    cloud.end(uuid, 'revertResize')
    cloud.settle()
    assert devices.owners(cloud) == before and cloud.row(uuid)['vm_state'] == states.ACTIVE
    assert devices.free(cloud) == {'host1': 1, 'host2': 2}


@pytest.mark.parametrize('end, held', [('confirmResize', 1), ('revertResize', 1)])
def test_resize_on_the_same_host_holds_both_devices(cloud, end, held):
    cloud.kill_compute('host2')
    live.down(cloud, 'host2')
    uuid = boot(cloud)
    first = devices.owners(cloud).keys()
    cloud.move(uuid, {**moves.BIG, **devices.flavor(1)}, ignored_hosts=[])
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.RESIZED, cloud.row(uuid)['fault']
    assert had(cloud) == {'host1': [True, False]} or had(cloud) == {'host1': [False, True]}
    assert {place for place, (_, held) in devices.owners(cloud).items() if held} == first
    cloud.end(uuid, end)
    cloud.settle()
    assert had(cloud) == {'host1': [False]}
    assert (devices.owners(cloud).keys() == first) == (end == 'revertResize')
    cloud.start_compute('host2')


@pytest.mark.parametrize('gains', [True, False])
def test_resize_adds_and_removes_devices(cloud, gains):
    uuid = boot(cloud) if not gains else cloud.boot(requested_host='host1')
    cloud.move(uuid, TWO if gains else moves.BIG)
    cloud.settle()
    assert had(cloud) == ({'host2': [False, False]} if gains else {'host1': [True]})
    cloud.end(uuid, 'confirmResize')
    cloud.settle()
    assert had(cloud) == ({'host2': [False, False]} if gains else {})
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE


def test_no_host_has_the_devices(cloud):
    uuid, other = boot(cloud), boot(cloud, host='host2')
    before = devices.owners(cloud)
    cloud.move(uuid, TWO)
    cloud.settle()
    row = cloud.row(uuid)
    assert row['vm_state'] == states.ACTIVE and 'too few free PCI devices (gpu:2)' in row['fault']['message']
    assert devices.owners(cloud) == before and other in {owner for owner, _ in before.values()}


@pytest.mark.parametrize('failing', ['accept_guest', 'finish_migration'])
def test_failed_move_restores_the_devices(cloud, failing):
    uuid = boot(cloud)
    before = devices.owners(cloud)
    cloud.computes['host2'].driver.failures[failing] = exception.VirtError(operation='test', reason='test')
    cloud.move(uuid)
    cloud.settle()
    assert devices.owners(cloud) == before and cloud.row(uuid)['vm_state'] == states.ACTIVE


def test_server_deleted_during_a_move_releases_all_devices(cloud):
    uuid = boot(cloud)
    cloud.move(uuid, TWO)
    cloud.settle()
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid) and devices.free(cloud) == {'host1': 2, 'host2': 2}


def test_evacuation_claims_devices_at_the_destination(cloud):
    uuid = boot(cloud)
    evacuation.die(cloud)
    evacuation.evacuate(cloud, uuid)
    cloud.settle()
    assert cloud.row(uuid)['host'] == 'host2' and had(cloud) == {'host2': [False]}
    assert len(cloud.computes['host2'].driver.machine.guests[uuid]['pci_devices']) == 1
    evacuation.come_back(cloud)
    assert devices.free(cloud) == {'host1': 2, 'host2': 1}


def test_failed_evacuation_restores_the_devices(cloud):
    uuid = boot(cloud)
    before = devices.owners(cloud)
    cloud.computes['host2'].driver.failures['spawn'] = exception.VirtError(operation='test', reason='test')
    evacuation.die(cloud)
    evacuation.evacuate(cloud, uuid)
    cloud.settle()
    assert devices.owners(cloud) == before
    evacuation.come_back(cloud)


def test_shelved_server_releases_and_unshelved_claims_devices(cloud):
    uuid = boot(cloud)
    shelving.shelve(cloud, uuid)
    assert cloud.row(uuid)['vm_state'] == states.SHELVED_OFFLOADED and had(cloud) == {}
    boot(cloud, 2)
    shelving.unshelve(cloud, uuid, host=None)
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE and cloud.row(uuid)['host'] == 'host2'
    assert had(cloud) == {'host1': [False, False], 'host2': [False]}


def test_a_running_server_with_devices_does_not_leave_its_host(cloud):
    uuid = boot(cloud)
    number = live.migrate(cloud, uuid)
    cloud.settle()
    assert live.move(cloud, number)['status'] == 'error' and had(cloud) == {'host1': [False]}
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['host']) == (states.ACTIVE, None, 'host1')
    assert 'PCI devices' in row['fault']['message']


def test_a_rebuild_keeps_them(cloud):
    uuid = boot(cloud)
    before = devices.owners(cloud)
    cloud.act(uuid, 'rebuild', spec=cloud.conductor.methods.get_request_spec(None, uuid), preserve_ephemeral=False)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE and devices.owners(cloud) == before


@pytest.mark.parametrize('step', ['prep_resize', 'resize_instance', 'finish_resize'])
def test_a_host_that_dies_in_the_middle_of_a_move(cloud, step):
    """The message is lost with the host; when it is back it goes on."""
    uuid = boot(cloud)
    cloud.bus.lost = lambda topic, method, server: method == step
    cloud.move(uuid)
    cloud.settle()
    cloud.bus.lost = None
    host = 'host1' if step == 'resize_instance' else 'host2'
    cloud.kill_compute(host)
    cloud.start_compute(host)
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.RESIZED and had(cloud) == {'host1': [True], 'host2': [False]}
    cloud.end(uuid, 'revertResize')
    cloud.settle()
    assert had(cloud) == {'host1': [False]}
