"""Servers with exported volumes move in a whole cloud: guests of the fake driver, and exports that are real."""
import contextlib

import pytest

from nova import exception
from nova.tests import ports
from nova.tests.functional import cloud as clouds
from nova.tests.support import live_cloud as live
from nova.tests.support import volume_exports as exports
from nova.tests.support.waiting import wait_for
from nova.virt import driver as contract
from nova.virt.fake import volumes
from nova.volume.exports import daemon

pytestmark = exports.pytestmark
ONE, TWO, THREE = live.HOSTS
ELSEWHERE = '127.0.0.2'      # address of the computes; the volumes are at another one


class Cloud(clouds.Cloud):
    """Its hosts do not reach the files of the volumes."""

    def _compose(self):
        super()._compose()
        for name in live.HOSTS:
            driver = live.driver(self, name)
            driver.features[contract.Volumes] = volumes.Volumes(driver.machine, name, ELSEWHERE)


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    directory = tmp_path_factory.mktemp('exported') / 'state'
    with clouds.running(directory, hosts=live.HOSTS, kind=Cloud, my_ip='127.0.0.1', host='storage',
                        volume__export_port=ports.free(ports.EXPORTS, needed=3)) as made:
        made.boss, made.directory = made.admin('2.95'), directory
        made.image = made.boss.upload_image()
        yield made


def exporters(cloud):
    found = [daemon.Daemon(str(path.parent))
             for path in (cloud.directory / 'volumes' / 'exports').glob(f'*/{daemon.RECORD}')]
    return {each.record()['host']: each for each in found if each.is_alive()}


def exported(cloud):
    """{host: number of volumes that it is let reach}"""
    found = {}
    for host, each in exporters(cloud).items():
        with contextlib.suppress(exception.InvalidVolume):       # it has just ended
            found[host] = len(each.names())
    return {host: number for host, number in found.items() if number}


def way(cloud, volume_id):
    """(host, what its guest was told) of the volume's one attachment."""
    held, = live.look(cloud, volume_id)['attachments']
    host = held['host_name']
    record = exporters(cloud)[host].record()
    return host, {'host': '127.0.0.1', 'port': record['port'], 'export': held['attachment_id']}


@pytest.fixture
def server(cloud):
    """(its id, a volume that it boots from, one more)"""
    made = cloud.boss.post('/volume/v3/volumes', {'volume': {'size': 1, 'imageRef': cloud.image}}).json()['volume']
    wait_for(lambda: live.look(cloud, made['id'])['status'] == 'available', what='no volume')
    server_id = cloud.boss.boot('', networks='auto', host=ONE, block_device_mapping_v2=[
        {'uuid': made['id'], 'source_type': 'volume', 'destination_type': 'volume', 'boot_index': 0}])['id']
    cloud.boss.wait_for(server_id)
    data = live.volume(cloud)
    answer = cloud.boss.post(f'/servers/{server_id}/os-volume_attachments', {'volumeAttachment': {'volumeId': data}})
    assert answer.status_code == 200, answer.text
    wait_for(lambda: live.look(cloud, data)['status'] == 'in-use', what='not attached')
    yield server_id, made['id'], data
    cloud.boss.delete(f'/servers/{server_id}')
    cloud.boss.wait_for(server_id, 'DELETED')
    wait_for(lambda: exported(cloud) == {}, what='an export is left')


@pytest.fixture
def client(cloud):
    made = exports.Home.__new__(exports.Home)
    made.directory = cloud.directory
    return made.client


def moved(cloud, server_id):
    """What became of its newest move, once that is over."""
    def status():
        return cloud.boss.get(f'/os-migrations?instance_uuid={server_id}').json()['migrations'][0]['status']
    wait_for(lambda: status() in ('completed', 'error', 'failed'), what='the move goes on')
    return status()


def test_exported_volumes_follow_live_cold_and_failed_moves(cloud, server, client):
    server_id, root, data = server
    assert exported(cloud) == {ONE: 2}
    _host, first = way(cloud, data)
    assert client(ONE, first, 'write -P 5 0 4096', 'flush')[0] == 0
    live.driver(cloud, ONE).failures['live_migrate'] = RuntimeError('cut')
    live.act(cloud, server_id, 'os-migrateLive', host=TWO, block_migration='auto')
    assert moved(cloud, server_id) in ('error', 'failed')
    live.driver(cloud, ONE).failures.clear()
    cloud.boss.wait_for(server_id)
    wait_for(lambda: exported(cloud) == {ONE: 2}, what='the destination is still let in')
    assert client(ONE, first, 'read -P 5 0 4096', 'write -P 6 0 4096')[0] == 0
    live.act(cloud, server_id, 'os-migrateLive', host=TWO, block_migration='auto')
    assert moved(cloud, server_id) == 'completed'
    assert exported(cloud) == {TWO: 2}
    host, second = way(cloud, data)
    assert host == TWO == way(cloud, root)[0]
    assert client(ONE, first, 'read 0 512')[0] == client(ONE, second, 'read 0 512')[0] == exports.CLOSED
    assert 'verification failed' not in client(TWO, second, 'read -P 6 0 4096', 'write -P 7 0 4096')[1]
    for action, home in (('revertResize', TWO), ('confirmResize', THREE)):
        live.act(cloud, server_id, 'migrate', host=THREE)
        cloud.boss.wait_for(server_id, 'VERIFY_RESIZE')
        assert exported(cloud) == {THREE: 2}
        answer = cloud.boss.post(f'/servers/{server_id}/action', {action: None})
        assert answer.status_code in (202, 204), answer.text
        cloud.boss.wait_for(server_id)
        assert exported(cloud) == {home: 2}
        host, third = way(cloud, data)
        code, said = client(home, third, 'read -P 7 0 4096')
        assert host == home and code == 0 and 'verification failed' not in said


def test_an_evacuated_server_has_its_volumes_and_its_old_host_has_not(cloud, server, client):
    server_id, _root, data = server
    _host, first = way(cloud, data)
    assert client(ONE, first, 'write -P 5 0 4096', 'flush')[0] == 0
    service = next(row['id'] for row in cloud.boss.get('/os-services?binary=nova-compute').json()['services']
                   if row['host'] == ONE)
    cloud.boss.put(f'/os-services/{service}', {'forced_down': True})
    try:
        assert live.act(cloud, server_id, 'evacuate', host=TWO).status_code == 200
        cloud.boss.wait_for(server_id, 'SHUTOFF')
        assert exported(cloud) == {TWO: 2}
        assert client(ONE, first, 'write -P 9 0 512')[0] == exports.CLOSED
        host, second = way(cloud, data)
        code, said = client(TWO, second, 'read -P 5 0 4096')
        assert host == TWO and code == 0 and 'verification failed' not in said
    finally:
        cloud.boss.put(f'/os-services/{service}', {'forced_down': False})
    assert moved(cloud, server_id) == 'completed'
    assert exported(cloud) == {TWO: 2}
