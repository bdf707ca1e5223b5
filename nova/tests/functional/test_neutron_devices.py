"""Servers with ports that are a device of their host (SR-IOV), on fake hosts with fake cards."""
import json

import pytest

from nova import exception
from nova.network.neutron import devices
from nova.objects import pci
from nova.tests import neutron_service
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.support import neutron as test_neutron
from nova.tests.support import pci as test_pci

rig = test_neutron.rig
ALICE, SERVER, request, server, user = (
    test_neutron.ALICE, test_neutron.SERVER, test_neutron.request, test_neutron.server, test_neutron.user)


def holding(port, address):
    """The server with the device that was claimed for its port."""
    made = server()
    made.pci_devices = pci.dump([pci.Device(address, '8086', '10ed', pci.VIRTUAL, tags={'physical_network': 'net1'},
                                            request_id=port)])
    return made


def test_direct_port_requests_a_pci_device_of_its_physical_network(rig):
    network = rig.neutron.network(ALICE, **{'provider:physical_network': 'net1'})
    port = rig.neutron.port(ALICE, network, **{'binding:vnic_type': 'direct', 'numa_affinity_policy': 'required'})
    found, = rig.api.validate_networks(user(), [request(port_id=port), request(network_id=network)]).devices
    assert found == pci.Request(1, ({'dev_type': 'type-VF', 'physical_network': 'net1'},), 'required', None, port)
    with pytest.raises(exception.NetworkRequestInvalid, match='physical network'):
        devices.request(rig.neutron.rows['ports'][port], {})
    del rig.neutron.requests[:]
    asked = rig.api.check_attach(user(), ALICE, set(), request(port_id=port))
    assert (asked.requests, asked.devices) == ([request(port_id=port)], (found,))
    # as the caller and as the system; it was asked for once more
    assert rig.neutron.requests == [('GET', 'ports'), ('GET', 'ports'), ('GET', 'networks')]
    offloaded = rig.neutron.port(ALICE, network, **{
        'binding:vnic_type': 'direct', 'binding:profile': {'capabilities': ['switchdev']}})
    with pytest.raises(exception.NetworkRequestInvalid, match='switchdev'):
        rig.allocate([request(port_id=offloaded)])


def test_the_binding_says_which_device_and_moves_say_another(rig):
    network = rig.neutron.network(ALICE)
    port = rig.neutron.port(ALICE, network, **{'binding:vnic_type': 'direct'})
    row = rig.neutron.rows['ports'][port]
    with pytest.raises(exception.PortBindingFailed, match='no device of host host1 was claimed'):
        rig.allocate([request(port_id=port)])
    assert row['device_id'] == ''
    vif, = rig.manager.allocate_for_instance(rig.ctx, holding(port, '0000:0a:00.1'), [request(port_id=port)], None,
                                             'host1')
    assert (vif['type'], vif['vnic_type'], vif['pci_slot'], vif['details']['vlan']) == (
        'hw_veb', 'direct', '0000:0a:00.1', '100')
    assert {key: row['binding:profile'][key] for key in devices.KEYS} == {
        'pci_slot': '0000:0a:00.1', 'pci_vendor_info': '8086:10ed', 'physical_network': 'net1'}
    for host, address in (('host2', '0000:0b:00.1'), ('host2', '0000:0b:00.2')):       # a move; another on its host
        vif, = rig.manager.setup_for_instance(rig.ctx, holding(port, address), host)
        assert (row['binding:host_id'], row['binding:profile']['pci_slot'], vif['pci_slot']) == (host, address, address)
    vif, = rig.manager.setup_for_instance(rig.ctx, server(), 'host2')       # a port changed: no task, no devices
    assert vif['pci_slot'] == '0000:0b:00.2'
    rig.manager.unbind_ports(rig.ctx, SERVER, 'host2')
    assert not set(devices.KEYS) & set(row['binding:profile'])
    vif, = rig.manager.allocate_for_instance(       # the next host of a build
        rig.ctx, holding(port, '0000:0a:00.2'), [request(port_id=port)], None, 'host1')
    assert (row['binding:host_id'], row['binding:profile']['pci_slot'], vif['pci_slot']) == (
        'host1', '0000:0a:00.2', '0000:0a:00.2')
    rig.manager.setup_for_instance(rig.ctx, holding(port, '0000:0a:00.1'), 'host1')
    rig.give_back()
    assert row['binding:profile'] == {} and row['device_id'] == ''


@pytest.fixture
def cloud(tmp_path):
    """Host1 has no card; two virtual functions of host2 and of host3 are on net1."""
    neutron = neutron_service.Neutron(['host1', 'host2', 'host3'])
    cards = [{**each, 'host': host} for host in ('host2', 'host3') for each in test_pci.CARD]
    with neutron_service.listening(neutron) as address, clouds.running(
            tmp_path / 'state', hosts=['host1', 'host2', 'host3'], network__backend='neutron',
            neutron__endpoint_override=address, neutron__auth_type='none', fake__pci_devices=[json.dumps(cards)],
            pci__device_spec=test_pci.SPECS) as made:
        made.neutron, made.demo, made.boss = neutron, made.client(version='2.72'), made.admin('2.74')
        known = {made.demo.token: made.demo.project_id, made.boss.token: None}
        neutron.project_of = lambda token: known.get(token, token)
        made.network = neutron.network(made.demo.project_id, **{'provider:physical_network': 'net1'})
        made.image = made.demo.upload_image()
        yield made


def test_a_server_has_a_device_for_its_port_wherever_it_goes(cloud):
    demo, neutron = cloud.demo, cloud.neutron
    port = neutron.port(demo.project_id, cloud.network, **{'binding:vnic_type': 'direct'})
    row = neutron.rows['ports'][port]
    made = demo.boot(cloud.image, networks=[{'port': port}])['id']
    demo.wait_for(made)

    def place():
        return row['binding:host_id'], row['binding:profile'].get('pci_slot')

    def act(client=cloud.boss, **body):
        return client.post(f'/servers/{made}/action', body)
    first = place()
    assert first[0] in ('host2', 'host3') and first[1] in ('0000:0a:00.1', '0000:0a:00.2')
    assert act(**{'os-migrateLive': {'host': None, 'block_migration': 'auto'}}).status_code in (202, 400)
    cloud.boss.wait_for(made)
    assert place() == first
    assert act(migrate=None).status_code == 202
    cloud.boss.wait_for(made, 'VERIFY_RESIZE')
    second = place()
    assert {first[0], second[0]} == {'host2', 'host3'} and second[1]
    assert act(revertResize=None).status_code == 202
    cloud.boss.wait_for(made)
    assert place() == first
    assert act(demo, resize={'flavorRef': '84'}).status_code == 202
    cloud.boss.wait_for(made, 'VERIFY_RESIZE')
    assert place()[1]
    assert act(demo, confirmResize=None).status_code in (202, 204)
    cloud.boss.wait_for(made)
    demo.delete(f'/servers/{made}')
    demo.wait_for(made, 'DELETED')
    waiting.wait_for(lambda: row['binding:profile'] == {}, 20, 'the port')
    # four functions for five servers
    ports = [neutron.port(demo.project_id, cloud.network, **{'binding:vnic_type': 'direct'}) for _ in range(5)]
    ends = []
    for each in ports:
        made = demo.boot(cloud.image, networks=[{'port': each}])['id']
        waiting.wait_for(lambda: demo.get(f'/servers/{made}').json()['server']['status'] != 'BUILD', 60, 'the build')
        ends.append(demo.get(f'/servers/{made}').json()['server']['status'])
    assert ends == ['ACTIVE'] * 4 + ['ERROR']
    bound = [neutron.rows['ports'][each] for each in ports[:4]]
    slots = {(each['binding:host_id'], each['binding:profile']['pci_slot']) for each in bound}
    assert len(slots) == 4
