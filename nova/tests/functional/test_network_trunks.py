"""Trunks: their rules, the ports that they change, and what the hosts and the guest of a parent port get."""
import json

import pytest

from nova.db.networks import ports as db_ports
from nova.db.servers import instances
from nova.network.host import state as host_state
from nova.objects import network_info
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.support import network_api as test_network_api
from nova.tests.support.floating_addresses import make
from nova.tests.support.network_subnet_pools import MISSING
from nova.tests.support.network_subnet_pools import ok
from nova.virt import metadata


class Ports:
    """A face with networks and ports of the project, and requests about trunks."""

    def __init__(self, face):
        self.face, self.known = face, {}

    def network(self, number, user='demo', **values):
        if number not in self.known:
            ident = ok(self.face(user, 'POST', 'networks', {'network': values}))['id']
            ok(self.face(user, 'POST', 'subnets', {'subnet': {
                'network_id': ident, 'cidr': f'10.{number}.0.0/24', 'ip_version': 4}}))
            self.known[number] = ident
        return self.known[number]

    def port(self, number=1, user='demo', **values):
        return ok(self.face(user, 'POST', 'ports', {'port': {'network_id': self.network(number), **values}}))['id']

    def show(self, ident):
        return ok(self.face('admin', 'GET', f'ports/{ident}'), 200)

    def post(self, parent, *subports, user='demo', **values):
        return self.face(user, 'POST', 'trunks', {'trunk': {'port_id': parent, 'sub_ports': list(subports), **values}})

    def trunk(self, parent, *subports, **values):
        return ok(self.post(parent, *subports, **values))

    def put(self, trunk, action, *subports, user='demo'):
        return self.face(user, 'PUT', f"trunks/{trunk['id']}/{action}", {'sub_ports': list(subports)})


def vlan(port, number, **more):
    return {'port_id': port, 'segmentation_type': 'vlan', 'segmentation_id': number, **more}


def refused(answer, code, kind):
    assert (answer.status_code, answer.json()['NeutronError']['type']) == (code, kind), answer.text


@pytest.fixture
def world(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield Ports(rig)
    rig.close()


def test_trunk_is_created_changed_and_deleted(world):
    parent, first, second = world.port(1), world.port(2), world.port(3)
    made = world.trunk(parent, vlan(first, 100), name='t', tags=['a'])
    assert made == {**made, 'name': 't', 'description': '', 'port_id': parent, 'admin_state_up': True, 'status': 'DOWN',
                    'tags': ['a'], 'sub_ports': [vlan(first, 100)], 'revision_number': 1}
    assert world.show(first)['device_owner'] == 'trunk:subport'
    added = world.put(made, 'add_subports', vlan(second, '200'))
    assert added.status_code == 200, added.text
    assert added.json()['sub_ports'] == [vlan(first, 100), vlan(second, 200)]
    assert added.json()['id'] == made['id'] and added.json()['revision_number'] == 2
    path = f"trunks/{made['id']}"
    assert ok(world.face('demo', 'GET', path + '/get_subports'), 200) == [vlan(first, 100), vlan(second, 200)]
    assert world.show(parent)['trunk_details'] == {'trunk_id': made['id'], 'sub_ports': [
        vlan(ident, number, mac_address=world.show(ident)['mac_address'])
        for ident, number in ((first, 100), (second, 200))]}
    assert world.show(first)['trunk_details'] is None
    removed = world.put(made, 'remove_subports', {'port_id': first})
    assert removed.json()['sub_ports'] == [vlan(second, 200)]
    assert world.show(first)['device_owner'] == world.show(first)['device_id'] == ''
    for up in (False, True):
        changed = ok(world.face('demo', 'PUT', path, {'trunk': {'name': 'n', 'admin_state_up': up}}), 200)
        assert (changed['name'], changed['admin_state_up']) == ('n', up)
    assert [each['id'] for each in ok(world.face('demo', 'GET', f'trunks?port_id={parent}&status=DOWN'), 200)] == [
        made['id']]
    assert ok(world.face('demo', 'GET', 'trunks?status=ACTIVE'), 200) == []
    assert world.face('demo', 'DELETE', path).status_code == 204
    refused(world.face('demo', 'GET', path), 404, 'TrunkNotFound')
    assert world.show(second)['device_owner'] == '' and world.show(parent)['trunk_details'] is None
    for ident in (parent, first, second):
        assert world.face('demo', 'DELETE', f'ports/{ident}').status_code == 204
    aliases = {each['alias'] for each in ok(world.face('demo', 'GET', 'extensions'), 200)}
    assert {'trunk', 'trunk-details'} <= aliases


def test_trunk_without_subports_is_accepted_and_null_refused(world):
    assert world.trunk(world.port())['sub_ports'] == []
    answer = world.face('demo', 'POST', 'trunks', {'trunk': {'port_id': world.port(), 'sub_ports': None}})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize('subport', [
    {}, {'segmentation_type': 'vlan', 'segmentation_id': 5}, {'port_id': 'own'},
    {'port_id': 'own', 'segmentation_id': 5}, {'port_id': 'own', 'segmentation_type': 'vlan'},
    {'port_id': 'own', 'segmentation_type': 'vlan', 'segmentation_id': 0},
    {'port_id': 'own', 'segmentation_type': 'vlan', 'segmentation_id': 4095},
    {'port_id': 'own', 'segmentation_type': 'vlan', 'segmentation_id': -1},
    {'port_id': 'own', 'segmentation_type': 'vxlan', 'segmentation_id': 5},
    {'port_id': 'own', 'segmentation_type': 'inherit'}, {'port_id': 'own', 'x': 1}, 'own', None])
def test_invalid_subport_returns_400(world, subport):
    own = world.port(2)
    if isinstance(subport, dict) and 'port_id' in subport:
        subport = {**subport, 'port_id': own}
    assert world.post(world.port(), subport).status_code == 400
    assert world.put(world.trunk(world.port()), 'add_subports', subport).status_code == 400
    assert world.show(own)['device_owner'] == ''


def test_ports_in_use_are_refused(world):
    parent, subport = world.port(1), world.port(2)
    made = world.trunk(parent, vlan(subport, 100))
    bound = world.port(3, 'admin', device_id='d', device_owner='compute:nova')
    refused(world.post(parent), 409, 'ParentPortInUse')
    refused(world.post(subport), 409, 'TrunkPortInUse')
    refused(world.post(bound, user='admin'), 409, 'ParentPortInUse')
    free = world.port(1)
    refused(world.post(free, vlan(free, 5)), 409, 'ParentPortInUse')
    refused(world.post(free, vlan(parent, 5)), 409, 'ParentPortInUse')
    refused(world.post(free, vlan(subport, 5)), 409, 'TrunkPortInUse')
    refused(world.post(free, vlan(bound, 5), user='admin'), 409, 'PortInUse')
    refused(world.put(made, 'add_subports', vlan(world.port(3), 100)), 409, 'DuplicateSubPort')
    twice = world.port(2)
    for pair in ((vlan(twice, 5), vlan(twice, 6)), (vlan(world.port(2), 5), vlan(world.port(2), 5))):
        refused(world.post(free, *pair), 400, 'InvalidInput')
    refused(world.face('demo', 'DELETE', f'ports/{parent}'), 409, 'PortInUseAsTrunkParent')
    refused(world.face('demo', 'DELETE', f'ports/{subport}'), 409, 'PortInUseAsSubPort')
    for values in ({'device_owner': 'x'}, {'device_id': 'x'}, {'binding:host_id': 'x'}):
        refused(world.face('admin', 'PUT', f'ports/{subport}', {'port': values}), 409, 'PortInUseAsSubPort')
    assert ok(world.face('demo', 'PUT', f'ports/{subport}', {'port': {'name': 'x'}}), 200)['name'] == 'x'
    for missing in (world.post(MISSING), world.post(free, vlan(MISSING, 5))):
        refused(missing, 404, 'PortNotFound')
    refused(world.put(made, 'remove_subports', {'port_id': free}), 404, 'SubPortNotFound')
    refused(world.put(made, 'remove_subports', vlan(subport, 101)), 404, 'SubPortNotFound')


def test_disabled_trunk_neither_changes_its_subports_nor_is_deleted(world):
    subport = world.port(2)
    made = world.trunk(world.port(), vlan(subport, 100), admin_state_up=False)
    refused(world.put(made, 'add_subports', vlan(world.port(3), 101)), 409, 'TrunkDisabled')
    refused(world.put(made, 'remove_subports', {'port_id': subport}), 409, 'TrunkDisabled')
    refused(world.face('demo', 'DELETE', f"trunks/{made['id']}"), 409, 'TrunkDisabled')


def test_mtu_of_a_subport_fits_into_that_of_the_parent(world):
    world.network(1, mtu=1300)
    world.network(2, mtu=1400)
    refused(world.post(world.port(1), vlan(world.port(2), 5)), 409, 'SubPortMtuGreaterThanTrunkPortMtu')
    assert world.trunk(world.port(2), vlan(world.port(1), 5), vlan(world.port(2), 6))


def test_inherit_takes_the_vlan_of_the_network(world):
    world.face.conf.set_override('physical_networks', {'wire': 'br-wire'}, group='network')
    world.network(1, 'admin', shared=True, mtu=1500, **{
        'provider:network_type': 'vlan', 'provider:physical_network': 'wire', 'provider:segmentation_id': 77})
    parent, subport = world.port(1), world.port(1)
    made = world.trunk(parent, {'port_id': subport, 'segmentation_type': 'inherit'})
    assert made['sub_ports'] == [vlan(subport, 77)]


def test_foreign_ports_and_trunks_are_missing(world):
    made, free = world.trunk(world.port()), world.port()
    refused(world.post(free, user='other'), 404, 'PortNotFound')
    for method, path, body in (('GET', '', None), ('GET', '/get_subports', None), ('PUT', '', {'trunk': {'name': 'x'}}),
                               ('PUT', '/add_subports', {'sub_ports': []}), ('DELETE', '', None)):
        refused(world.face('other', method, f"trunks/{made['id']}{path}", body), 404, 'TrunkNotFound')
    assert ok(world.face('other', 'GET', 'trunks'), 200) == []


def test_parent_of_a_trunk_does_not_become_a_router_interface(world):
    parent = world.port(1)
    made = world.trunk(parent)
    router = ok(world.face('demo', 'POST', 'routers', {'router': {}}))['id']
    path = f'routers/{router}/add_router_interface'
    refused(world.face('demo', 'PUT', path, {'port_id': parent}), 409, 'PortInUseAsTrunkParent')
    assert world.show(parent)['device_owner'] == ''
    assert world.face('demo', 'DELETE', f"trunks/{made['id']}").status_code == 204
    assert world.face('demo', 'PUT', path, {'port_id': parent}).status_code == 200


def test_subports_follow_a_parent_that_is_bound_through_the_port_api(world):
    parent, subport = world.port(1), world.port(2)
    world.trunk(parent, vlan(subport, 5))
    for host in ('host7', ''):
        values = {'binding:host_id': host, 'device_id': 'd' if host else ''}
        ok(world.face('admin', 'PUT', f'ports/{parent}', {'port': values}), 200)
        assert [world.show(each)['binding:host_id'] for each in (parent, subport)] == [host, host]


@pytest.mark.parametrize('in_use', [False, True])
def test_end_of_a_share_removes_subports_of_unused_trunks(world, in_use):
    network = world.network(2, user='other')
    share = ok(world.face('other', 'POST', 'rbac-policies', {'rbac_policy': {
        'object_type': 'network', 'object_id': network, 'action': 'access_as_shared', 'target_tenant': 'p1'}}))['id']
    parent, subport = world.port(1), world.port(2)
    made = world.trunk(parent, vlan(subport, 5))
    if in_use:
        ok(world.face('admin', 'PUT', f'ports/{parent}', {'port': {'device_id': 'd'}}), 200)
    answer = world.face('other', 'DELETE', f'rbac-policies/{share}')
    assert answer.status_code == 204, answer.text
    left = ok(world.face('admin', 'GET', f'ports?network_id={network}&id={subport}'), 200)
    assert len(left) == in_use
    assert len(ok(world.face('demo', 'GET', f"trunks/{made['id']}"), 200)['sub_ports']) == in_use


def test_quota_limits_trunks(world):
    ok(world.face('admin', 'PUT', 'quotas/p1', {'quota': {'trunk': 1}}), 200)
    world.trunk(world.port())
    refused(world.post(world.port()), 409, 'OverQuota')


def test_openstackclient_and_sdk_manage_trunks(world):
    parent, first, second = world.port(1), world.port(2), world.port(3)
    made = world.face.cli('network', 'trunk', 'create', 't', '--parent-port', parent, '--subport',
                          f'port={first},segmentation-type=vlan,segmentation-id=100', user='demo')
    assert made['sub_ports'] == [vlan(first, 100)]
    world.face.cli('network', 'trunk', 'set', 't', '--subport',
                   f'port={second},segmentation-type=vlan,segmentation-id=200', user='demo')
    assert [row['Port'] for row in world.face.cli('network', 'subport', 'list', '--trunk', 't', user='demo')] == [
        first, second]
    world.face.cli('network', 'trunk', 'unset', 't', '--subport', first, user='demo')
    assert [row['Name'] for row in world.face.cli('network', 'trunk', 'list', user='demo')] == ['t']
    assert world.face.cli('port', 'show', parent, user='demo')['trunk_details']['sub_ports'][0]['port_id'] == second
    sdk = world.face.sdk('demo')
    found = sdk.network.find_trunk('t')
    sdk.network.add_trunk_subports(found, [vlan(first, 300)])
    assert [each['port_id'] for each in sdk.network.get_trunk_subports(found)['sub_ports']] == [second, first]
    sdk.network.delete_trunk_subports(found, [vlan(first, 300)])
    world.face.cli('network', 'trunk', 'delete', 't', user='demo')
    assert list(sdk.network.trunks()) == []


# ---- servers ---------------------------------------------------------------------

@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('trunks') / 'state') as made:
        made.user = made.client(version='2.95')
        made.image = made.admin('2.95').upload_image(visibility='public')
        made.networks = []
        for number in (8, 9):
            made.networks.append(make(made.user, 'networks', name=f'n{number}')['id'])
            make(made.user, 'subnets', network_id=made.networks[-1], cidr=f'10.{number}.0.0/24', ip_version=4,
                 allocation_pools=[{'start': f'10.{number}.0.2', 'end': f'10.{number}.0.99'}])
        yield made


def state_of(cloud):
    return next(part.manager for part in cloud.services if part.binary == 'nova-network').load()


def stored(cloud, ident):
    with cloud.cell_db.reader() as conn:
        return instances.get(conn, ident)['network_info']


def network_data(cloud, ident):
    return metadata.network_data(stored(cloud, ident))


def test_server_with_a_trunk_shows_its_subports(cloud):
    user, root = cloud.user, '/network/v2.0'
    parent, first, second = (make(user, 'ports', network_id=cloud.networks[place]) for place in (0, 1, 1))
    trunk = make(user, 'trunks', port_id=parent['id'], sub_ports=[vlan(first['id'], 100)])
    ident = user.boot(cloud.image, networks=[{'port': parent['id']}])['id']
    user.wait_for(ident)
    assert user.get(f"{root}/trunks/{trunk['id']}").json()['trunk']['status'] == 'ACTIVE'
    assert user.get(f"{root}/ports/{first['id']}").json()['port']['status'] == 'ACTIVE'
    assert [each['port_id'] for each in user.get(f'/servers/{ident}/os-interface').json()['interfaceAttachments']] == [
        parent['id']]

    def subports():
        state = state_of(cloud)
        placed, = state.trunks
        bridges = {each.id: each.bridge for each in state.overlays}
        assert (placed.port, placed.bridge) == (parent['id'], bridges[cloud.networks[0]])
        assert all(each.bridge == bridges[cloud.networks[1]] for each in placed.subports)
        devices = {port.id: port.device for port in state.ports}
        assert devices[parent['id']] == network_info.trunk_devname(parent['id'])
        assert all(devices[each.port] == network_info.devname(each.port) for each in placed.subports)
        assert host_state.from_json(json.loads(json.dumps(host_state.as_json(state)))).trunks == state.trunks
        return [(each.port, each.vlan) for each in placed.subports]
    assert subports() == [(first['id'], 100)]

    def links():
        return [(each['type'], each.get('vlan_id'), each.get('vlan_mac_address'))
                for each in network_data(cloud, ident)['links']]
    assert links() == [('bridge', None, None), ('vlan', 100, first['mac_address'])]
    answer = user.put(f"{root}/trunks/{trunk['id']}/add_subports", {'sub_ports': [vlan(second['id'], 200)]})
    assert answer.status_code == 200, answer.text
    assert subports() == [(first['id'], 100), (second['id'], 200)]
    waiting.wait_for(lambda: links()[2:] == [('vlan', 200, second['mac_address'])], 20, 'metadata of the new subport')
    with cloud.api_db.reader() as conn:                  # whose metadata a request from a subport's address gets
        address = second['fixed_ips'][0]['ip_address']
        assert db_ports.device_by_network(conn, cloud.networks[1], address, 'host1') == ident
    moved = user.put(f"{root}/ports/{second['id']}", {'port': {'fixed_ips': [{'ip_address': '10.9.0.177'}]}})
    assert moved.status_code == 200, moved.text
    waiting.wait_for(lambda: '10.9.0.177' in str(stored(cloud, ident)), 20, 'the new address of the subport')
    lowered = user.put(f'{root}/networks/{cloud.networks[0]}', {'network': {'mtu': 1300}})
    assert lowered.status_code == 200, lowered.text
    placed, = state_of(cloud).trunks
    assert placed.mtu == 1300 and {each.mtu for each in placed.subports} == {1300}
    answer = user.delete(f"{root}/trunks/{trunk['id']}")
    assert answer.status_code == 409 and answer.json()['NeutronError']['type'] == 'TrunkInUse'
    user.delete(f'/servers/{ident}')
    user.wait_for(ident, 'DELETED')
    assert state_of(cloud).trunks == []
    shown = user.get(f"{root}/ports/{first['id']}").json()['port']
    assert (shown['status'], shown['device_owner']) == ('DOWN', 'trunk:subport')
    assert user.get(f"{root}/trunks/{trunk['id']}").json()['trunk']['status'] == 'DOWN'
    assert user.delete(f"{root}/trunks/{trunk['id']}").status_code == 204


def test_parent_is_attached_to_a_running_server_and_detached(cloud):
    user, root = cloud.user, '/network/v2.0'
    parent, carried = (make(user, 'ports', network_id=cloud.networks[place]) for place in (1, 0))
    trunk = make(user, 'trunks', port_id=parent['id'], sub_ports=[vlan(carried['id'], 100)])
    ident = user.boot(cloud.image, networks='none')['id']
    user.wait_for(ident)
    assert state_of(cloud).trunks == []
    path = f'/servers/{ident}/os-interface'
    answer = user.post(path, {'interfaceAttachment': {'port_id': parent['id']}})
    assert answer.status_code == 200, answer.text

    def status():
        return user.get(f"{root}/trunks/{trunk['id']}").json()['trunk']['status']
    waiting.wait_for(lambda: status() == 'ACTIVE', 20, 'the trunk')
    placed, = state_of(cloud).trunks
    assert placed.port == parent['id'] and [(each.port, each.vlan) for each in placed.subports] == [
        (carried['id'], 100)]
    assert [(each['type'], each.get('vlan_id')) for each in network_data(cloud, ident)['links']] == [
        ('bridge', None), ('vlan', 100)]
    assert [each['port_id'] for each in user.get(path).json()['interfaceAttachments']] == [parent['id']]
    answer = user.post(path, {'interfaceAttachment': {'port_id': carried['id']}})
    assert answer.status_code == 409, answer.text            # it belongs to the trunk
    assert user.delete(f"{path}/{parent['id']}").status_code == 202
    waiting.wait_for(lambda: status() == 'DOWN' and state_of(cloud).trunks == [], 20, 'the end of the trunk')
    shown = user.get(f"{root}/ports/{carried['id']}").json()['port']
    assert (shown['status'], shown['device_owner']) == ('DOWN', 'trunk:subport')
    waiting.wait_for(lambda: network_data(cloud, ident)['links'] == [], 20, 'the metadata without the trunk')
    assert user.delete(f"{root}/trunks/{trunk['id']}").status_code == 204
