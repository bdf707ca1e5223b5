"""Servers with NUMA topologies in a whole cloud, from the request over HTTP to the domain that libvirt would get."""
import itertools
import json
from xml.etree import ElementTree as etree

import pytest

from nova import objects
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.servers import instances
from nova.hardware import fit
from nova.objects import numa
from nova.tests import numa_seed
from nova.tests.functional import cloud
from nova.tests.support import libvirt_xml as test_libvirt_xml
from nova.tests.support import numa_walks as walks
from nova.virt import driver
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import cells
from nova.virt.libvirt.domain import processors

NUMBERS = itertools.count()
CELLS = [f'{len(cpus)}:{memory}' for _, cpus, memory, _ in numa_seed.PAGES]


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('numa'), fake__numa_cells=CELLS, fake__local_gb=100,
                       cpu_allocation_ratio=16.0) as made:
        yield made


@pytest.fixture
def image(running):
    return running.client().upload_image()


def make_flavor(running, name, vcpus=4, ram=1024, **specs):
    admin = running.admin()
    made = admin.post('/flavors', {'flavor': {'id': name, 'name': name, 'vcpus': vcpus, 'ram': ram, 'disk': 1}})
    assert made.status_code == 200, made.text
    if specs:
        answer = admin.post(f'/flavors/{name}/os-extra_specs', {'extra_specs': {
            'hw:' + key.replace('__', '.'): value for key, value in specs.items()}})
        assert answer.status_code == 200, answer.text
    return name


def row(running, server_id):
    with running.cell_db.reader() as conn:
        return instances.get(conn, server_id)


def node(running):
    with running.cell_db.reader() as conn:
        return compute_nodes.by_host(conn, 'host1')[0]


def guest_of(running, server_id, others=()):
    """The xml.Guest that the libvirt driver would make on such a host, and the elements of its domain."""
    host = numa_seed.host()
    instance = objects.Instance.from_row(row(running, server_id))
    request = driver.SpawnRequest(image={'id': instance.image_id, 'properties': {}}, network_info=[])
    guest = spec.guest(instance, request, 'kvm', test_libvirt_xml.FakeStorage(),
                       [xml.Disk(file='/d', format='raw', target='vda')], {})
    if guest.resources.numa is None:
        guest.resources.cell, shared = cells.floating(host, guest.resources, others, fit.Overcommit(16.0, 1.0))
        guest.resources.cpuset = ','.join(map(str, sorted(shared)))
    root = etree.fromstring(xml.domain(guest, host, processors.Processor('none')))
    return guest, {tag: walks.text(root.find(tag)).strip() for tag in ('vcpu', 'cputune', 'cpu', 'numatune')
                   if root.find(tag) is not None}


def test_numa_servers_are_placed_as_recorded(running, image):
    """One server after the other, all of them there in the end."""
    client = running.client()
    stored = json.loads(node(running)['numa_topology'])
    assert [cell['nova_object.data']['cpuset'] for cell in stored['nova_object.data']['cells']] == [
        cpus for _, cpus, _, _ in numa_seed.PAGES]
    tiny = make_flavor(running, 'walk-tiny', 1, 512)
    first = client.wait_for(client.boot(image, flavor=tiny)['id'])
    assert row(running, first['id'])['numa_topology'] is None
    floating, found = guest_of(running, first['id'])
    assert found == {'vcpu': '<vcpu placement="static" cpuset="6-7">1</vcpu>',
                     'cpu': '<cpu>\n  <topology sockets="1" cores="1" threads="1" />\n</cpu>'}
    for nodes, expected, form in (('1', walks.ONE_CELL, walks.STORED_ONE), ('2', walks.TWO_CELLS, walks.STORED_TWO)):
        flavor = make_flavor(running, 'walk-numa' + nodes, numa_nodes=nodes)
        server_id = client.wait_for(client.boot(image, flavor=flavor)['id'])['id']
        assert json.loads(row(running, server_id)['numa_topology']) == {
            'nova_object.name': 'InstanceNUMATopology',
            'nova_object.data': {'instance_uuid': server_id, 'cells': form}}
        assert guest_of(running, server_id, [floating])[1] == expected
    usage = numa.load_host(node(running)['numa_topology'])
    assert [(cell.cpu_usage, cell.memory_usage) for cell in usage.cells] == [(6, 1536), (2, 512), (0, 0)]
    assert running.cell_db.run(claims.audit) == []


def test_host_fields_of_a_topology_are_shown_to_administrators_only(running, image):
    client, admin = running.client(version='2.78'), running.admin(version='2.78')
    flavor = make_flavor(running, 'shown', 2, 512, cpu_policy='dedicated', numa_nodes='1')
    server_id = client.boot(image, flavor=flavor, networks='auto')['id']
    client.wait_for(server_id)
    path = f'/servers/{server_id}/topology'
    cell, = numa.load_guest(row(running, server_id)['numa_topology']).cells
    node = {'vcpu_set': [0, 1], 'siblings': [], 'memory_mb': 512}
    assert client.get(path).json() == {'nodes': [node], 'pagesize_kb': None}
    assert admin.get(path).json() == {'pagesize_kb': None, 'nodes': [{
        **node, 'host_node': cell.id, 'cpu_pinning': {str(vcpu): cpu for vcpu, cpu in cell.cpu_pinning.items()}}]}
    assert client.delete(f'/servers/{server_id}').status_code == 204
    client.wait_for(server_id, 'DELETED')
    assert client.get(path).status_code == 404 and running.cell_db.run(claims.audit) == []


def test_a_server_without_a_host_shows_what_it_asks_for(running, image):
    """No cell has so many CPUs."""
    client, admin = running.client(version='2.78'), running.admin(version='2.78')
    flavor = make_flavor(running, 'huge', 6, 512, cpu_policy='dedicated', mem_page_size='large')
    server_id = client.boot(image, flavor=flavor, networks='auto')['id']
    client.wait_for(server_id, 'ERROR')
    assert admin.get(f'/servers/{server_id}/topology').json() == {
        'nodes': [{'vcpu_set': [0, 1, 2, 3, 4, 5], 'siblings': [], 'memory_mb': 512}], 'pagesize_kb': None}
    assert 'no NUMA node with enough free memory pages' in client.get(f'/servers/{server_id}').json()[
        'server']['fault']['message']


@pytest.mark.parametrize('specs, properties, words', [
    ({'cpu_policy': 'shared'}, {'hw_cpu_policy': 'dedicated'}, 'of the flavor is'),
    ({'cpu_policy': 'mixed', 'cpu_dedicated_mask': '0'}, {'hw_cpu_policy': 'shared'}, 'of the flavor is'),
    ({'cpu_policy': 'dedicated', 'cpu_thread_policy': 'isolate'}, {'hw_cpu_thread_policy': 'require'},
     'of the flavor is'),
    ({'numa_nodes': '1'}, {'hw_numa_nodes': '2'}, 'must not override'),
    ({'numa_nodes': '3'}, {}, 'evenly'),
    ({}, {'hw_mem_page_size': 'large'}, 'only if the flavor has large or any'),
    ({'cpu_policy': 'dedicated', 'cpu_realtime': 'yes'}, {}, 'cpu_realtime_mask'),
    ({'cpu_max_sockets': '2'}, {'hw_cpu_max_sockets': '4'}, 'more than the maximum of the flavor'),
    ({'cpu_max_sockets': '1', 'cpu_max_cores': '1', 'cpu_max_threads': '1'}, {}, 'cannot be divided into')])
def test_conflicting_numa_settings_of_flavor_and_image_return_400(running, specs, properties, words):
    client = running.client(version='2.79')
    flavor = make_flavor(running, f'refused-{next(NUMBERS)}', **specs)
    image = client.upload_image(**properties)
    answer = client.post('/servers', {'server': {
        'name': 'x', 'imageRef': image, 'flavorRef': flavor, 'networks': 'auto'}})
    assert answer.status_code == 400 and words in answer.json()['badRequest']['message'], answer.text


def test_a_resize_is_refused_for_the_same_reasons(running, image):
    client = running.client()
    plain = client.upload_image(hw_cpu_policy='shared')
    server_id = client.wait_for(client.boot(plain, flavor=make_flavor(running, 'small', 1, 256))['id'])['id']
    flavor = make_flavor(running, 'small-mixed', 2, 256, cpu_policy='mixed', cpu_dedicated_mask='0')
    answer = client.post(f'/servers/{server_id}/action', {'resize': {'flavorRef': flavor}})
    assert answer.status_code == 400 and 'of the flavor is' in answer.json()['badRequest']['message'], answer.text
    client.delete(f'/servers/{server_id}')


def test_a_rebuild_may_not_change_the_topology(running, image):
    client = running.client()
    flavor = make_flavor(running, 'rebuilt', 2, 256, cpu_policy='dedicated')
    server_id = client.wait_for(client.boot(image, flavor=flavor)['id'])['id']
    before = row(running, server_id)['numa_topology']

    def rebuild(**properties):
        return client.post(f'/servers/{server_id}/action', {'rebuild': {
            'imageRef': client.upload_image(**properties)}})
    for properties, words in (({'hw_numa_nodes': '2'}, 'a rebuild cannot change'),
                              ({'hw_cpu_thread_policy': 'isolate'}, 'a rebuild cannot change')):
        answer = rebuild(**properties)
        assert answer.status_code == 400 and words in answer.json()['badRequest']['message'], answer.text
    for policy in ('dedicated', 'shared'):               # the policy dedicated of the flavor takes precedence
        assert rebuild(hw_cpu_policy=policy, os_type='linux').status_code == 202
        client.wait_for(server_id)
    assert row(running, server_id)['numa_topology'] == before
    client.delete(f'/servers/{server_id}')
    client.wait_for(server_id, 'DELETED')
    assert running.cell_db.run(claims.audit) == []
