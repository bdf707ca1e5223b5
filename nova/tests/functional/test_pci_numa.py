"""PCI devices of guests that have a NUMA topology: how near they must be, and that both are claimed or neither."""
import json

import pytest

from nova import states
from nova.db.placement import pci_devices
from nova.objects import numa
from nova.objects import pci
from nova.tests import core
from nova.tests.support import pci as devices

NEAR = [{'address': f'0000:8{node}:00.0', 'vendor_id': '10de', 'product_id': '20b0', 'numa_node': node}
        for node in (0, 1)]
NOWHERE = [{'address': '0000:90:00.0', 'vendor_id': '10de', 'product_id': '20b0'}]


@pytest.fixture
def make(tmp_path):
    made = []

    def make(found, **more):
        cloud = core.Cloud(tmp_path, fake__numa_cells=['4:2048', '4:2048'], **devices.options(found), **more)
        made.append(cloud)
        return cloud
    yield make
    for cloud in made:
        assert cloud.conductor.claim_check.audit() == []
        cloud.close()


def create(cloud, policy='legacy', vcpus=2, count=1, cpu_policy='dedicated', nodes=1):
    uuid, = cloud.create(flavor={
        'vcpus': vcpus, 'extra_specs': {'hw:numa_nodes': str(nodes), 'hw:cpu_policy': cpu_policy},
        'pci_requests': pci.dump([pci.Request(count, ({'vendor_id': '10de'},), policy, 'gpu')])})
    cloud.settle()
    return uuid


def cells(cloud, uuid):
    """Ids of the host's cells that a server is on."""
    return [cell.id for cell in numa.load_guest(cloud.row(uuid)['numa_topology']).cells]


def nodes(cloud, uuid):
    """NUMA nodes of the devices that a server has."""
    return [row['numa_node'] for row in devices.rows(cloud) if row['instance_uuid'] == uuid]


@pytest.mark.parametrize('policy', ['required', 'preferred', 'legacy'])
def test_guest_and_device_are_on_the_same_node(make, policy):
    cloud = make(NEAR)
    for _ in range(2):
        uuid = create(cloud, policy)
        assert cloud.row(uuid)['vm_state'] == states.ACTIVE, cloud.row(uuid)['fault']
        assert cells(cloud, uuid) == nodes(cloud, uuid)


def test_guest_without_devices_avoids_cpus_near_devices(make):
    cloud = make(NEAR[1:])
    first = cloud.boot(flavor={'vcpus': 2, 'extra_specs': {'hw:cpu_policy': 'dedicated'}})
    assert cells(cloud, first) == [0]
    second = create(cloud, 'required', vcpus=4)
    assert cells(cloud, second) == nodes(cloud, second) == [1]


@pytest.mark.parametrize('policy, found, built', [
    ('required', NEAR[:1], False), ('legacy', NEAR[:1], False), ('preferred', NEAR[:1], True),
    ('required', NOWHERE, False), ('legacy', NOWHERE, True), ('preferred', NOWHERE, True),
    ('socket', NEAR[:1], False), ('socket', NOWHERE, False)])
def test_numa_affinity_policy_decides_on_distant_devices(make, policy, found, built):
    """The CPUs of node 0 are taken: what is left is on node 1. Fake hosts do not say which nodes are one socket."""
    cloud = make(found)
    whole = {'vcpus': 4, 'extra_specs': {'hw:cpu_policy': 'dedicated'}}
    both = {cells(cloud, uuid)[0]: uuid for uuid in (cloud.boot(flavor=whole), cloud.boot(flavor=whole))}
    cloud.delete(both[1])
    cloud.settle()
    uuid = create(cloud, policy)
    row = cloud.row(uuid)
    if built:
        assert row['vm_state'] == states.ACTIVE, row['fault']
        assert cells(cloud, uuid) == [1] and len(nodes(cloud, uuid)) == 1
        return
    assert row['vm_state'] == states.ERROR and devices.owners(cloud) == {}
    assert "1 has no free PCI devices near the guest's NUMA nodes (gpu:1)" in row['fault']['message']


@pytest.mark.parametrize('sockets, policy, taken', [
    ((0, 0), 'socket', True), ((0, 1), 'socket', False), ((None, None), 'socket', False), ((0, 0), 'required', False)])
def test_one_socket_is_near_enough_for_the_policy_socket(make, sockets, policy, taken):
    """The device is at node 0, the guest on node 1."""
    cloud = make(NEAR[:1])
    host = numa.HostTopology(tuple(numa.HostCell(id=number, cpuset=frozenset({number}), memory=1, socket=socket)
                                   for number, socket in enumerate(sockets)))
    uuid, asked = 'a' * 36, [pci.Request(1, ({'vendor_id': '10de'},), policy)]
    assert cloud.db.run(pci_devices.claim, 'host1', 'host1', asked, uuid, topology=host, cells=[1]) is taken
    assert len(devices.owners(cloud)) == taken
    cloud.db.run(pci_devices.release, 'host1', 'host1', uuid)


def test_guest_of_two_nodes_gets_a_device_near_each(make):
    cloud = make(NEAR)
    uuid = create(cloud, 'required', vcpus=4, count=2, nodes=2)
    assert sorted(cells(cloud, uuid)) == nodes(cloud, uuid) == [0, 1]


def test_neither_cpus_nor_devices_are_kept_by_a_claim_that_fails(make):
    """A card whose functions are taken looks free to the pools of its functions alone."""
    card = [dict(each, numa_node=0) for each in devices.CARD]
    cloud = make(card)
    before = cloud.node('host1')['numa_topology']
    asked = [pci.Request(1, ({'dev_type': 'type-PF'},), alias_name='nic'),
             pci.Request(1, ({'dev_type': 'type-VF'},), alias_name='vf')]
    uuid, = cloud.create(flavor={'vcpus': 1, 'extra_specs': {'hw:cpu_policy': 'dedicated'},
                                 'pci_requests': pci.dump(asked)})
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ERROR and devices.owners(cloud) == {}
    assert json.loads(cloud.node('host1')['numa_topology']) == json.loads(before)
