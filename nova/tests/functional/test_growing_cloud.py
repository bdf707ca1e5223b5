"""Servers that get more CPUs and memory while they run, in a whole cloud over HTTP (ADR 0023)."""
import time

import pytest
import sqlalchemy as sa

from nova import exception
from nova.db.placement import compute_nodes
from nova.db.projects import quotas
from nova.db.servers import request_specs
from nova.db.tables import cell as tables_cell
from nova.tests.functional import cloud
from nova.tests.support import moves_cloud as test_moves_cloud

act = test_moves_cloud.act
MOST = {'hw:max_vcpus': '4', 'hw:max_mem_mb': '1024'}
# of 4 CPUs of the host: old and new together have no room
SMALL, LARGE = {'vcpus': 1, 'ram': 256}, {'vcpus': 4, 'ram': 512}


@pytest.fixture(scope='module')
def module_cloud(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('cloud'), ['host1'], fake__vcpus=4, fake__memory_mb=2048,
                       reserved_host_memory_mb=0, cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0) as found:
        yield found


@pytest.fixture
def running(module_cloud):
    """The cloud, without servers and flavors of ours before and after."""
    yield module_cloud
    driver(module_cloud).failures.clear()
    driver(module_cloud).delays.clear()
    user, admin = module_cloud.client(), module_cloud.admin()
    for server in user.get('/servers').json()['servers']:
        user.delete(f'/servers/{server["id"]}')
        user.wait_for(server['id'], 'DELETED')
    for name in ('small', 'large'):
        admin.delete(f'/flavors/{name}')


def flavor(admin, name, specs=MOST, **sizes):
    """A flavor of 1 GiB of disk; its id."""
    made = admin.post('/flavors', {'flavor': {'name': name, 'id': name, 'disk': 1, **sizes}}, version='2.1')
    assert made.status_code == 200, made.text
    answer = admin.post(f'/flavors/{name}/os-extra_specs', {'extra_specs': specs}, version='2.86')
    assert answer.status_code == 200, answer.text
    return name


def begin(running):
    """(user, admin, id of an ACTIVE server of the flavor small)."""
    user, admin = running.client(version='2.95'), running.admin(version='2.95')
    flavor(admin, 'small', **SMALL)
    server_id = user.boot(user.upload_image(), flavor='small', networks='none')['id']
    user.wait_for(server_id)
    return user, admin, server_id


def driver(running):
    return next(service.manager.driver for service in running.services if service.binary == 'nova-compute')


def guest(running, server_id):
    found = driver(running).machine.guests[server_id]
    return {'vcpus': found['vcpus'], 'ram': found['memory_mb']}


def counted(running, server_id):
    """(used of the node, of the project's quota, in the request spec): {'vcpus', 'ram'} each."""
    with running.cell_db.reader() as conn:
        node = compute_nodes.by_host(conn, 'host1')[0]
    with running.api_db.reader() as conn:
        spec = request_specs.get(conn, server_id).flavor
        used = quotas.usage(conn, spec_project(conn, server_id))
    return ({'vcpus': node['vcpus_used'], 'ram': node['memory_mb_used']},
            {'vcpus': used['cores'], 'ram': used['ram']}, {'vcpus': spec['vcpus'], 'ram': spec['memory_mb']})


def spec_project(conn, server_id):
    return request_specs.get(conn, server_id).project_id


def check(running, server_id, sizes):
    """All that counts a server agrees on its sizes, and no move holds anything."""
    assert counted(running, server_id) == (sizes, sizes, sizes)
    assert guest(running, server_id) == sizes
    test_moves_cloud.check(running)
    with running.cell_db.reader() as conn:
        node = compute_nodes.by_host(conn, 'host1')[0]
    assert node['running_vms'] == 1


def last_move(running):
    table = tables_cell.migrations
    with running.cell_db.reader() as conn:
        return conn.execute(sa.select(table.c.status, table.c.migration_type).order_by(table.c.id.desc())).first()


def last_action(user, server_id):
    return user.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions'][0]


def test_a_running_server_grows(running):
    """Room is needed for the difference alone."""
    user, admin, server_id = begin(running)
    boots = user.get(f'/servers/{server_id}').json()['server']['OS-SRV-USG:launched_at']
    console = driver(running).machine.guests[server_id]['console'][:]
    flavor(admin, 'large', **LARGE)
    act(user, server_id, {'resize': {'flavorRef': 'large'}})
    server = user.wait_for(server_id)
    assert (server['flavor']['vcpus'], server['flavor']['ram']) == (4, 512)
    assert server['OS-SRV-USG:launched_at'] == boots
    assert driver(running).machine.guests[server_id]['console'] == console        # it has not been started again
    check(running, server_id, LARGE)
    assert last_move(running) == ('confirmed', 'resize')
    action = last_action(user, server_id)
    assert (action['action'], action['message']) == ('resize', None)
    # a rebuild, and a cold start, are of the new flavor
    act(user, server_id, {'reboot': {'type': 'HARD'}})
    user.wait_for(server_id)
    check(running, server_id, LARGE)


def test_limits_for_new_servers_do_not_keep_a_running_one_from_growing(tmp_path):
    """It adds no server to its host, which is disabled and has as many as allowed."""
    with cloud.running(tmp_path, ['host1'], fake__vcpus=4, fake__memory_mb=2048, reserved_host_memory_mb=0,
                       cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0,
                       filter_scheduler__max_instances_per_host=1) as running:
        user, admin, server_id = begin(running)
        service, = admin.get('/os-services?binary=nova-compute').json()['services']
        assert admin.put(f'/os-services/{service["id"]}', {'status': 'disabled'}).status_code == 200
        flavor(admin, 'large', **LARGE)
        act(user, server_id, {'resize': {'flavorRef': 'large'}})
        user.wait_for(server_id)
        check(running, server_id, LARGE)


@pytest.mark.parametrize('sizes,specs', [({'vcpus': 2, 'ram': 4096}, {**MOST, 'hw:max_mem_mb': '8192'}),
                                         ({'vcpus': 4, 'ram': 256}, MOST)], ids=['memory', 'CPUs'])
def test_a_host_without_room_refuses(running, sizes, specs):
    user, admin = running.client(version='2.95'), running.admin(version='2.95')
    flavor(admin, 'small', specs, **SMALL)
    image = user.upload_image()
    server_id = user.boot(image, flavor='small', networks='none')['id']
    user.wait_for(server_id)
    other = user.boot(image, flavor='small', networks='none')['id']
    user.wait_for(other)
    flavor(admin, 'large', specs, **sizes)
    act(user, server_id, {'resize': {'flavorRef': 'large'}})
    server = user.wait_for(server_id)
    assert server['flavor']['original_name'] == 'small' and last_move(running) == ('error', 'resize')
    assert last_action(user, server_id)['message'] == 'Error'
    fault = running.admin(version='2.95').get(f'/servers/{server_id}/os-instance-actions/'
                                              f'{last_action(user, server_id)["request_id"]}').json()
    assert 'No valid host' in str(fault)
    assert guest(running, server_id) == SMALL
    user.delete(f'/servers/{other}')
    user.wait_for(other, 'DELETED')
    check(running, server_id, SMALL)


def test_a_guest_that_does_not_get_it_gives_the_difference_back(running):
    user, admin, server_id = begin(running)
    flavor(admin, 'large', **LARGE)
    driver(running).failures['grow'] = exception.VirtError(operation='grow', reason='no room for more')
    act(user, server_id, {'resize': {'flavorRef': 'large'}})
    server = user.wait_for(server_id)
    assert server['flavor']['original_name'] == 'small'
    check(running, server_id, SMALL)
    assert last_move(running) == ('error', 'resize')
    del driver(running).failures['grow']
    act(user, server_id, {'resize': {'flavorRef': 'large'}})
    user.wait_for(server_id)
    check(running, server_id, LARGE)


def test_a_stopped_server_is_resized_as_before(tmp_path):
    with cloud.running(tmp_path, ['host1', 'host2']) as running:
        user, admin, server_id = begin(running)
        flavor(admin, 'large', **LARGE)
        act(user, server_id, {'os-stop': None})
        user.wait_for(server_id, 'SHUTOFF')
        act(user, server_id, {'resize': {'flavorRef': 'large'}})
        user.wait_for(server_id, 'VERIFY_RESIZE', 20)


def test_a_cloud_that_stops_while_a_guest_grows(tmp_path):
    """The step is done again, and counted once."""
    options = {'fake__vcpus': 4, 'cpu_allocation_ratio': 1.0, 'fake__state_dir': str(tmp_path / 'guests')}
    with cloud.running(tmp_path, ['host1'], fake__delays={'grow': '2'}, graceful_shutdown_timeout=0,
                       **options) as running:
        user, admin, server_id = begin(running)
        flavor(admin, 'large', **LARGE)
        act(user, server_id, {'resize': {'flavorRef': 'large'}})
        deadline = time.monotonic() + 120
        while user.get(f'/servers/{server_id}').json()['server']['OS-EXT-STS:task_state'] != 'resize_finish':
            assert time.monotonic() < deadline
            time.sleep(0.02)
    with cloud.running(tmp_path, ['host1'], **options) as running:
        user = running.client(version='2.95')
        assert user.wait_for(server_id)['flavor']['original_name'] == 'large'
        check(running, server_id, LARGE)


def test_a_server_that_is_deleted_while_it_grows_leaves_nothing(running):
    user, admin, server_id = begin(running)
    flavor(admin, 'large', **LARGE)
    driver(running).delays['grow'] = 1
    act(user, server_id, {'resize': {'flavorRef': 'large'}})
    assert user.delete(f'/servers/{server_id}').status_code == 204
    user.wait_for(server_id, 'DELETED')
    test_moves_cloud.check(running)
    with running.cell_db.reader() as conn:
        node = compute_nodes.by_host(conn, 'host1')[0]
    assert (node['vcpus_used'], node['memory_mb_used'], node['running_vms']) == (0, 0, 0)
