"""The hosts' own networks by the manager that is chosen."""
import json

import pytest

from nova import exception
from nova import objects
from nova.db.networks import networks
from nova.db.tables import network as t
from nova.network import managers
from nova.tests.support import metadata as test_metadata
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_manager as unit
from nova.virt import metadata


def test_a_flat_manager_serves_no_dhcp_and_the_config_drive_has_the_addresses(tmp_path):
    face = test_network_api.Face(tmp_path, network__manager='FlatManager', network__dns_servers=['9.9.9.9'])
    try:
        vif, = face.allocate(unit.make_instance())
        state, = face.manager.load().networks
        assert [subnet.dhcp for subnet in state.subnets] == [False]
        server = objects.Instance.from_row(test_metadata.instance_row(network_info=[vif]))
        document = json.loads(metadata.openstack_files(server)['network_data.json'])
        network, = document['networks']
        assert network == {
            **network, 'type': 'ipv4', 'ip_address': unit.address(vif), 'netmask': '255.255.255.0',
            'routes': [{'network': '0.0.0.0', 'netmask': '0.0.0.0', 'gateway': '10.44.0.1'}],
            'services': [{'type': 'dns', 'address': '9.9.9.9'}]}
        subnet = {'network_id': face.network_id, 'cidr': '10.45.0.0/24', 'ip_version': 4}
        answer = face('admin', 'POST', 'subnets', {'subnet': subnet})
        assert answer.status_code == 400 and 'serves no DHCP' in answer.text
        made = face('admin', 'POST', 'subnets', {'subnet': {**subnet, 'enable_dhcp': False}}).json()['subnet']
        answer = face('admin', 'PUT', f"subnets/{made['id']}", {'subnet': {'enable_dhcp': True}})
        assert answer.status_code == 400 and 'serves no DHCP' in answer.text
        # networks of projects are their own
        network = face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']
        answer = face('demo', 'POST', 'subnets', {'subnet': {**subnet, 'network_id': network}})
        assert answer.json()['subnet']['enable_dhcp']
    finally:
        face.close()


@pytest.mark.parametrize('external', [False, True])
def test_gateway_without_dhcp_is_a_name_server_except_in_external_networks(tmp_path, external):
    """Hosts serve no DNS in external networks without DHCP."""
    rig = unit.Rig(tmp_path)
    network = rig.add_network()
    with rig.db.writer() as conn:
        subnet, = networks.many(conn, t.subnets, [network], 'network_id')
        networks.update(conn, t.subnets, subnet['id'], {'enable_dhcp': False})
        networks.update(conn, t.networks, network, {'external': external})
    vif, = rig.allocate(requested=[{'network_id': network, 'port_id': None, 'fixed_ip': None, 'tag': None}])
    assert vif['network']['subnets'][0]['dns'] == ([] if external else ['10.9.0.1'])
    rig.db.dispose()


def test_dhcp_is_what_there_is_unless_another_one_is_chosen(tmp_path):
    rig = unit.Rig(tmp_path, network__default_cidr='10.44.0.0/24')
    vif, = rig.allocate()
    assert metadata.network_data([vif])['networks'][0]['type'] == 'ipv4_dhcp'
    rig.db.dispose()


@pytest.mark.parametrize(('name', 'said'), [
    ('VlanManager', 'needs .network. vlan_ranges'), ('OtherManager', 'FlatDHCPManager')])
def test_unknown_network_manager_is_refused(tmp_path, name, said):
    with pytest.raises(exception.InvalidOption, match=said):
        unit.Rig(tmp_path, network__manager=name)
    assert managers.FlatManager.serves_dhcp is False


def test_vlans_are_not_in_the_routing_table_of_the_hosts(tmp_path):
    with pytest.raises(exception.InvalidOption, match='and have no VLANs'):
        unit.Rig(tmp_path, network__manager='VlanManager', network__vlan_ranges=['wire:1:2'],
                 network__project_ranges=['10.0.0.0/8'])
