"""compute_driver = ironic with a real Ironic and its fake hardware: whole machines as servers."""
import time

import pytest

from nova.tests import long_runs
from nova.tests.support import waiting
from nova.tests.functional import cloud as whole
from nova.tests.integration import ironic

CLASS = 'bare.gold'
SPECS = {'resources:CUSTOM_BARE_GOLD': '1', 'resources:VCPU': '0', 'resources:MEMORY_MB': '0',
         'resources:DISK_GB': '0'}


@pytest.fixture(scope='module')
def service():
    with ironic.running() as found:
        yield found


class Metal:
    """A cloud on two nodes of a class, and one of another."""

    def __init__(self, service, cloud):
        self.service, self.cloud = service, cloud
        self.admin, self.user = cloud.admin('2.96'), cloud.client(version='2.96')
        self.image = self.user.upload_image()
        flavor = self.admin.post('/flavors', {'flavor': {'name': 'gold', 'vcpus': 2, 'ram': 4096, 'disk': 40}})
        self.flavor = flavor.json()['flavor']['id']
        done = self.admin.post(f'/flavors/{self.flavor}/os-extra_specs', {'extra_specs': SPECS})
        assert done.status_code == 200, done.text

    def boot(self, **fields):
        return self.user.boot(self.image, flavor=self.flavor, networks='none', **fields)['id']

    def act(self, server_id, body, code=202, client=None):
        answer = (client or self.user).post(f'/servers/{server_id}/action', body)
        assert answer.status_code == code, answer.text
        return answer

    def node_of(self, server_id):
        return self.admin.get(f'/servers/{server_id}').json()['server']['OS-EXT-SRV-ATTR:hypervisor_hostname']

    def failures(self, server_id, action):
        """The reasons, as the owner reads them, of the failed events of an action."""
        path = f'/servers/{server_id}/os-instance-actions'
        request_id, = (row['request_id'] for row in self.user.get(path).json()['instanceActions']
                       if row['action'] == action)
        shown = self.user.get(f'{path}/{request_id}').json()['instanceAction']
        return [event['details'] for event in shown['events'] if event['result'] == 'Error']

    def delete(self, server_id):
        assert self.user.delete(f'/servers/{server_id}').status_code == 204
        self.user.wait_for(server_id, 'DELETED')


@pytest.fixture
def nodes(service):
    """Uuids of the nodes: two of the class, one of another."""
    stamp = time.monotonic_ns()
    made = [service.enroll(f'{name}-{stamp}', resource_class=kind)
            for name, kind in (('one', CLASS), ('two', CLASS), ('other', 'tin'))]
    yield made
    for uuid in made:
        if service.node(uuid)['instance_uuid']:
            service.provision(uuid, 'deleted', 'available')
        service.ask('DELETE', f'/nodes/{uuid}')


@pytest.fixture
def metal(tmp_path, service, nodes):
    with whole.running(tmp_path, compute_driver='ironic', ironic__auth_type='none',
                       ironic__endpoint_override=service.url, ironic__deploy_timeout=60,
                       ironic__power_timeout=30) as cloud:
        yield Metal(service, cloud)


def test_bare_metal_server_is_built_and_deleted(metal, nodes):
    listed = metal.admin.get('/os-hypervisors/detail').json()['hypervisors']
    assert {row['hypervisor_hostname'] for row in listed} == set(nodes)
    assert {row['hypervisor_type'] for row in listed} == {'ironic'}
    server_id = metal.boot(config_drive=True, user_data='IyE=')
    metal.user.wait_for(server_id)
    uuid = metal.node_of(server_id)
    node = metal.service.node(uuid)
    assert uuid in nodes[:2]
    assert (node['provision_state'], node['power_state'], node['instance_uuid']) == ('active', 'power on', server_id)
    assert node['instance_info']['image_source'] == metal.image and node['instance_info']['configdrive']
    metal.act(server_id, {'os-stop': None})
    metal.user.wait_for(server_id, 'SHUTOFF')
    assert metal.service.node(uuid)['power_state'] == 'power off'
    metal.act(server_id, {'os-start': None})
    metal.user.wait_for(server_id)
    for kind in ('SOFT', 'HARD'):
        metal.act(server_id, {'reboot': {'type': kind}})
        metal.user.wait_for(server_id)
    assert metal.service.node(uuid)['power_state'] == 'power on'
    metal.act(server_id, {'rescue': {'adminPass': 'a secret'}}, 200)
    metal.user.wait_for(server_id, 'RESCUE')
    assert metal.service.node(uuid)['provision_state'] == 'rescue'
    metal.act(server_id, {'unrescue': None})
    metal.user.wait_for(server_id)
    assert metal.service.node(uuid)['provision_state'] == 'active'
    metal.act(server_id, {'rebuild': {'imageRef': metal.image}})
    metal.user.wait_for(server_id)
    assert metal.node_of(server_id) == uuid and metal.service.node(uuid)['instance_uuid'] == server_id
    metal.delete(server_id)
    waiting.wait_for(lambda: metal.service.node(uuid)['provision_state'] != 'cleaning', 60, 'the cleaning of Ironic')
    node = metal.service.node(uuid)
    assert (node['provision_state'], node['instance_uuid'], node['instance_info']) == ('available', None, {})


@long_runs.only
def test_a_machine_has_one_server_and_a_class_only_its_machines(metal, nodes):
    first, second = metal.boot(), metal.boot()
    for server_id in (first, second):
        metal.user.wait_for(server_id)
    assert {metal.node_of(first), metal.node_of(second)} == set(nodes[:2])
    third = metal.user.wait_for(metal.boot(), 'ERROR')
    assert 'No valid host' in third['fault']['message']
    metal.delete(first)
    metal.user.wait_for(metal.boot())
    # an ordinary server is on no machine
    ordinary = metal.user.boot(metal.image, networks='none')['id']
    assert 'No valid host' in metal.user.wait_for(ordinary, 'ERROR')['fault']['message']


def test_actions_that_bare_metal_does_not_support_are_refused(metal):
    server_id = metal.boot()
    metal.user.wait_for(server_id)
    for body in ({'pause': None}, {'suspend': None}, {'createImage': {'name': 'copy'}}, {'resize': {'flavorRef': '1'}}):
        assert metal.user.post(f'/servers/{server_id}/action', body).status_code in (400, 409, 501), body
    answer = metal.user.post(f'/servers/{server_id}/action', {'os-getConsoleOutput': {}})
    assert answer.status_code == 501 and 'does not store console output' in answer.text
    other = metal.user.upload_image('another')
    metal.act(server_id, {'rescue': {'rescue_image_ref': other}}, 200)
    reason, = waiting.wait_for(lambda: metal.failures(server_id, 'rescue'), 30, 'the reason')
    assert 'not an image' in reason
    assert metal.user.get(f'/servers/{server_id}').json()['server']['status'] == 'ACTIVE'


def test_administrators_read_the_nodes(metal, nodes):
    address = f'52:54:00:{nodes[0][:2]}:{nodes[0][2:4]}:{nodes[0][4:6]}'
    metal.service.ask('POST', '/ports', {'node_uuid': nodes[0], 'address': address})
    server_id = metal.boot()
    metal.user.wait_for(server_id)
    old = metal.cloud.admin('2.35')
    listed = {row['id']: row for row in old.get('/os-baremetal-nodes').json()['nodes']}
    assert set(listed) == set(nodes)
    assert listed[nodes[0]] == {'id': nodes[0], 'host': 'IRONIC MANAGED', 'cpus': '8', 'memory_mb': '16384',
                                'disk_gb': '100', 'interfaces': [{'address': address}],
                                'task_state': listed[nodes[0]]['task_state']}
    shown = old.get(f'/os-baremetal-nodes/{metal.node_of(server_id)}').json()['node']
    assert (shown['instance_uuid'], shown['task_state']) == (server_id, 'active')
    assert old.get(f'/os-baremetal-nodes/{server_id}').status_code == 404
    assert old.get('/os-baremetal-nodes/no-uuid').status_code == 404
    assert metal.admin.get('/os-baremetal-nodes').status_code == 404            # of later microversions
    assert metal.cloud.client(version='2.35').get('/os-baremetal-nodes').status_code == 403


@long_runs.only
def test_a_machine_in_maintenance_gets_no_server(metal, nodes):
    metal.service.maintenance(nodes[0], True)
    try:
        servers = [metal.boot(), metal.boot()]
        states = {metal.user.get(f'/servers/{server_id}').json()['server']['status'] for server_id in servers}
        deadline = time.monotonic() + 60
        while 'BUILD' in states and time.monotonic() < deadline:
            states = {metal.user.get(f'/servers/{server_id}').json()['server']['status'] for server_id in servers}
            time.sleep(0.2)
        assert states == {'ACTIVE', 'ERROR'}
        assert metal.service.node(nodes[0])['instance_uuid'] is None
    finally:
        metal.service.maintenance(nodes[0], False)


@long_runs.only
def test_a_node_of_others_is_left_alone(metal, nodes, tmp_path):
    stranger = '11111111-2222-4333-8444-555555555555'
    metal.service.ask('PATCH', f'/nodes/{nodes[0]}', [{'op': 'add', 'path': '/instance_uuid', 'value': stranger}])
    metal.service.provision(nodes[0], 'active', 'active')
    server_id = metal.boot()
    metal.user.wait_for(server_id)
    assert metal.node_of(server_id) == nodes[1]
    metal.delete(server_id)
    node = metal.service.node(nodes[0])
    assert (node['provision_state'], node['instance_uuid']) == ('active', stranger)


@long_runs.only
def test_a_restart_finds_the_machines(tmp_path, service, nodes):
    options = {'compute_driver': 'ironic', 'ironic__auth_type': 'none', 'ironic__endpoint_override': service.url}
    with whole.running(tmp_path, **options) as cloud:
        metal = Metal(service, cloud)
        server_id = metal.boot()
        metal.user.wait_for(server_id)
        uuid = metal.node_of(server_id)
    with whole.running(tmp_path, **options) as cloud:
        user = cloud.client(version='2.96')
        assert user.wait_for(server_id)['id'] == server_id
        assert service.node(uuid)['instance_uuid'] == server_id
        assert user.delete(f'/servers/{server_id}').status_code == 204
        user.wait_for(server_id, 'DELETED')
    assert service.node(uuid)['provision_state'] == 'available'
