"""No server gets another one's disk, and none keeps a way to a volume that it has given up (class H of the advisories).

CVE-2020-17376 and CVE-2023-2088 gave a guest the blocks of another one: a definition that was stale after a migration,
and a connection that outlived its detachment. What the hypervisor has is compared in integration (moving_cloud.py,
``settled_at``) and in unit/test_device_mixups.py.
"""
import concurrent.futures

import pytest

from nova.db.servers import block_devices
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.support import live_cloud as live
from nova.tests.support.waiting import wait_for

ROUNDS = 6


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with clouds.running(tmp_path_factory.mktemp('mixups') / 'state', hosts=live.HOSTS) as made:
        made.demo, made.boss = made.client(version='2.104'), made.admin('2.104')
        made.image = made.demo.upload_image()
        yield made


def attach(cloud, server_id, volume_id):
    return cloud.boss.post(f'/servers/{server_id}/os-volume_attachments', {'volumeAttachment': {
        'volumeId': volume_id}})


def detach(cloud, server_id, volume_id):
    return cloud.boss.request('DELETE', f'/servers/{server_id}/os-volume_attachments/{volume_id}')


def device(cloud, server_id):
    """Its row of the one volume; None: it has none."""
    with cloud.cell_db.reader() as conn:
        return next((row for row in block_devices.by_instance(conn, server_id) if row['volume_id']), None)


def with_volume(cloud):
    server_id, volume_id = live.boot(cloud), live.volume(cloud)
    assert attach(cloud, server_id, volume_id).status_code in (200, 202)
    wait_for(lambda: live.look(cloud, volume_id)['status'] == 'in-use', what='not attached')
    return server_id, volume_id


def down(cloud, host, value):
    service = next(row['id'] for row in cloud.boss.get('/os-services?binary=nova-compute').json()['services']
                   if row['host'] == host)
    cloud.boss.put(f'/os-services/{service}', {'forced_down': value})


def evacuate(cloud, server_id):
    down(cloud, 'host1', True)
    try:
        assert live.act(cloud, server_id, 'evacuate', host='host2').status_code == 200
        wait_for(lambda: live.home(cloud, server_id) == 'host2', what='it stays')
        cloud.boss.wait_for(server_id, 'SHUTOFF')
    finally:
        down(cloud, 'host1', False)


def migrate(cloud, server_id):
    assert live.act(cloud, server_id, 'os-migrateLive', host='host2', block_migration='auto').status_code == 202
    cloud.boss.wait_for(server_id)


def resize(cloud, server_id, end):
    assert live.act(cloud, server_id, 'migrate', host='host2').status_code == 202
    cloud.boss.wait_for(server_id, 'VERIFY_RESIZE')
    assert cloud.boss.post(f'/servers/{server_id}/action', {end: None}).status_code in (202, 204)
    cloud.boss.wait_for(server_id)


@pytest.mark.parametrize(('move', 'home'), [
    (migrate, 'host2'), (evacuate, 'host2'), (lambda *given: resize(*given, 'confirmResize'), 'host2'),
    (lambda *given: resize(*given, 'revertResize'), 'host1')], ids=['live', 'evacuation', 'confirmed', 'reverted'])
def test_a_connection_of_the_source_is_never_used_again_after_a_move(cloud, move, home):
    server_id, volume_id = with_volume(cloud)
    before = device(cloud, server_id)
    move(cloud, server_id)
    waiting.settled(lambda: live.check_now(cloud, server_id))
    after = device(cloud, server_id)
    assert live.home(cloud, server_id) == home and after['connection_info']['host'] == home
    assert after['attachment_id'] != before['attachment_id']
    held, = live.look(cloud, volume_id)['attachments']
    assert held['attachment_id'] == after['attachment_id'] and held['host_name'] == home
    assert cloud.boss.get(f'/volume/v3/attachments/{before["attachment_id"]}').status_code == 404
    assert list(live.driver(cloud, home).machine.guests[server_id].get('volumes', {})) == [volume_id]


def test_a_volume_that_is_attached_and_detached_at_once_is_with_one_server_or_with_none(cloud):
    """Two servers want it while each gives it up."""
    servers, volume_id = [live.boot(cloud, host) for host in live.HOSTS[:2]], live.volume(cloud)

    def at_rest():
        return live.look(cloud, volume_id)['status'] in ('available', 'in-use')

    def fight(server_id):
        for _ in range(ROUNDS):
            codes = attach(cloud, server_id, volume_id).status_code, detach(cloud, server_id, volume_id).status_code
            assert max(codes) < 500, codes
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(fight, servers))
    wait_for(at_rest, what='it is neither attached nor free')

    def agree():
        held = {each['server_id'] for each in live.look(cloud, volume_id)['attachments']}
        rows = {server_id for server_id in servers if device(cloud, server_id)}
        there = {server_id for server_id in servers
                 if volume_id in live.driver(cloud, live.home(cloud, server_id)).machine.guests[server_id]['volumes']}
        assert len(held) <= 1 and held == rows == there
    waiting.settled(agree)


def test_only_services_take_a_volume_away_from_a_server(cloud):
    """CVE-2023-2088: a user who deletes the attachment at the block storage keeps the path on the host."""
    server_id, volume_id = with_volume(cloud)
    attachment = device(cloud, server_id)['attachment_id']
    owner = cloud.demo
    for answer in (owner.request('DELETE', f'/volume/v3/attachments/{attachment}'),
                   owner.request('PUT', f'/volume/v3/attachments/{attachment}', {'attachment': {
                       'connector': {'host': 'evil', 'ip': '192.0.2.66'}}}),
                   owner.post(f'/volume/v3/volumes/{volume_id}/action', {'os-detach': {}}),
                   owner.post(f'/volume/v3/volumes/{volume_id}/action', {'os-force_detach': {}}),
                   owner.request('DELETE', f'/volume/v3/volumes/{volume_id}')):
        assert 400 <= answer.status_code < 500, answer.text
    assert live.look(cloud, volume_id)['status'] == 'in-use'
    assert device(cloud, server_id)['attachment_id'] == attachment
    assert volume_id in live.driver(cloud, live.home(cloud, server_id)).machine.guests[server_id].get('volumes', {})
