"""Servers that move between the hosts of a whole cloud, over HTTP; a cloud that is stopped in the middle."""

import pytest
import sqlalchemy as sa

from nova import exception
from nova.db.tables import network as tables_network
from nova.tests.functional import cloud
from nova.tests.support import moves_cloud
from nova.tests.support.moves_cloud import HOSTS
from nova.tests.support.moves_cloud import act
from nova.tests.support.moves_cloud import check
from nova.tests.support.waiting import wait_for

running = moves_cloud.running


def host_of(admin, server_id):
    return admin.get(f'/servers/{server_id}').json()['server']['OS-EXT-SRV-ATTR:host']


def port_hosts(running, server_id):
    ports = tables_network.ports
    with running.api_db.reader() as conn:
        return list(conn.execute(sa.select(ports.c.host).where(ports.c.device_id == server_id)).scalars())


def test_a_life_of_moves(running):
    user, admin = running.client(), running.admin()
    flavors = [flavor['id'] for flavor in admin.get('/flavors/detail?sort_key=memory_mb').json()['flavors']
               if flavor['disk'] and flavor['vcpus'] <= 4]
    server_id = user.boot(user.upload_image(), flavor=flavors[0])['id']
    first = user.wait_for(server_id)
    address = first['addresses']
    act(user, server_id, {'resize': {'flavorRef': flavors[1]}})
    user.wait_for(server_id, 'VERIFY_RESIZE')
    assert port_hosts(running, server_id) == [host_of(admin, server_id)]
    act(user, server_id, {'revertResize': None})
    server = user.wait_for(server_id)
    assert server['hostId'] == first['hostId'] and server['flavor']['id'] == flavors[0]
    assert server['addresses'] == address and port_hosts(running, server_id) == [host_of(admin, server_id)]
    check(running)

    target = next(host for host in HOSTS if host != host_of(admin, server_id))
    act(admin, server_id, {'migrate': {'host': target}}, version='2.56')
    user.wait_for(server_id, 'VERIFY_RESIZE')
    assert host_of(admin, server_id) == target
    act(user, server_id, {'confirmResize': None}, 204)
    server = user.wait_for(server_id)
    assert server['addresses'] == address and port_hosts(running, server_id) == [target]
    check(running)

    act(user, server_id, {'os-stop': None})
    user.wait_for(server_id, 'SHUTOFF')
    act(user, server_id, {'resize': {'flavorRef': flavors[1]}})
    user.wait_for(server_id, 'VERIFY_RESIZE')
    act(user, server_id, {'confirmResize': None}, 204)
    assert user.wait_for(server_id, 'SHUTOFF')['flavor']['id'] == flavors[1]
    act(user, server_id, {'os-start': None})
    user.wait_for(server_id)
    check(running)

    moves = admin.get('/os-migrations', version='2.80').json()['migrations']
    assert [(move['migration_type'], move['status']) for move in moves] == [
        ('resize', 'confirmed'), ('migration', 'confirmed'), ('resize', 'reverted')]
    act(admin, server_id, {'migrate': None})
    user.wait_for(server_id, 'VERIFY_RESIZE')
    assert user.delete(f'/servers/{server_id}').status_code == 204
    user.wait_for(server_id, 'DELETED')
    check(running)


@pytest.mark.parametrize('operation', ['send_guest', 'finish_migration', 'confirm_migration', 'drop_migrated'])
def test_move_continues_after_a_restart_of_the_cloud(tmp_path, operation):
    """Stopped with a step under way, or about to begin: it goes on after the next start."""
    with cloud.running(tmp_path, HOSTS, fake__delays={operation: '0.3'}) as found:
        user = found.client()
        flavor = user.get('/flavors').json()['flavors'][0]['id']
        server_id = user.boot(user.upload_image(), flavor=flavor)['id']
        user.wait_for(server_id)
        act(found.admin(), server_id, {'migrate': None})
        if operation in ('confirm_migration', 'drop_migrated'):
            user.wait_for(server_id, 'VERIFY_RESIZE')
            if operation == 'confirm_migration':
                act(user, server_id, {'confirmResize': None}, 204)
            else:
                act(user, server_id, {'revertResize': None})
    with cloud.running(tmp_path, HOSTS) as found:
        user = found.client()
        if operation in ('send_guest', 'finish_migration'):
            user.wait_for(server_id, 'VERIFY_RESIZE')
            act(user, server_id, {'confirmResize': None}, 204)
        user.wait_for(server_id)
        check(found)


def test_volumes_move_with_their_server(running):
    """Connected to the host where the server is, at every moment of its moves; also when the destination fails."""
    user, admin = running.client(version='2.60'), running.admin()
    drivers = {service.host: service.manager.driver for service in running.services
               if service.binary == 'nova-compute'}

    def volume(**values):
        made = user.post('/volume/v3/volumes', {'volume': {'size': 1, **values}}).json()['volume']['id']
        wait_for(lambda: shown(made)['status'] == 'available', seconds=20)
        return made

    def shown(volume_id):
        return user.get(f'/volume/v3/volumes/{volume_id}').json()['volume']

    def agree(*volumes):
        host = host_of(admin, server_id)
        assert sorted(drivers[host].machine.guests[server_id].get('volumes', {})) == sorted(volumes)
        for volume_id in volumes:
            found = shown(volume_id)
            assert (found['status'], [each['host_name'] for each in found['attachments']]) == ('in-use', [host])
        return host
    image_id = user.upload_image()
    boots, data = volume(imageRef=image_id), volume()
    answer = user.post('/servers', {'server': {
        'name': 'vm', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [
            {'source_type': 'volume', 'destination_type': 'volume', 'uuid': boots, 'boot_index': 0}]}})
    assert answer.status_code == 202, answer.text
    server_id = answer.json()['server']['id']
    user.wait_for(server_id)
    first = agree(boots)
    act(admin, server_id, {'migrate': None})
    user.wait_for(server_id, 'VERIFY_RESIZE')
    assert agree(boots) != first
    user.post(f'/servers/{server_id}/os-volume_attachments', {'volumeAttachment': {'volumeId': data}})
    wait_for(lambda: shown(data)['status'] == 'in-use', seconds=20)
    agree(boots, data)
    act(user, server_id, {'revertResize': None})
    user.wait_for(server_id)
    assert agree(boots, data) == first
    for driver in drivers.values():
        driver.failures['finish_migration'] = exception.VirtError(operation='move', reason='test')
    act(admin, server_id, {'migrate': None})
    user.wait_for(server_id)
    wait_for(lambda: 'fault' in user.get(f'/servers/{server_id}').json()['server'] or moved(admin, 'error'), seconds=20)
    assert agree(boots, data) == first
    for driver in drivers.values():
        driver.failures.clear()
    act(admin, server_id, {'migrate': None})
    user.wait_for(server_id, 'VERIFY_RESIZE')
    act(user, server_id, {'confirmResize': None}, 204)
    user.wait_for(server_id)
    assert agree(boots, data) != first
    check(running)


def moved(admin, status):
    return any(move['status'] == status for move in admin.get('/os-migrations').json()['migrations'])
