"""Live migration and evacuation in a whole cloud with three hosts, over HTTP, with networks and volumes."""


from nova import exception
from nova.db.networks import ports
from nova.tests.support import live_cloud
from nova.tests.support.live_cloud import HOSTS
from nova.tests.support.live_cloud import _settled
from nova.tests.support.live_cloud import act
from nova.tests.support.live_cloud import boot
from nova.tests.support.live_cloud import check
from nova.tests.support.live_cloud import driver
from nova.tests.support.live_cloud import home
from nova.tests.support.live_cloud import look
from nova.tests.support.live_cloud import shown
from nova.tests.support.live_cloud import volume
from nova.tests.support.waiting import wait_for
from nova.virt import driver as virt

cloud = live_cloud.cloud


def test_a_server_moves_and_keeps_its_addresses(cloud):
    server_id = boot(cloud)
    before = shown(cloud, server_id)['addresses']
    assert act(cloud, server_id, 'os-migrateLive', host='host2', block_migration='auto').status_code == 202
    cloud.boss.wait_for(server_id)
    after = shown(cloud, server_id)
    assert after['OS-EXT-SRV-ATTR:host'] == 'host2' and after['addresses'] == before
    migration, = cloud.boss.get(f'/os-migrations?instance_uuid={server_id}').json()['migrations']
    assert migration['status'] == 'completed' and migration['migration_type'] == 'live-migration'
    actions = cloud.boss.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions']
    assert actions[0]['action'] == 'live-migration' and actions[0]['message'] is None
    check(cloud, server_id)


def test_live_migration_is_aborted_and_forced_over_http(cloud):
    server_id = boot(cloud)
    path = f'/servers/{server_id}/migrations'
    driver(cloud, 'host1').delays['live_migrate'] = 60
    try:
        for method, ending, url, body in (('DELETE', 'cancelled', '{}', None),
                                          ('POST', 'completed', '{}/action', {'force_complete': None})):
            assert act(cloud, server_id, 'os-migrateLive', host='host3', block_migration=True).status_code == 202
            wait_for(
                lambda: [row['status'] for row in cloud.boss.get(path).json()['migrations']] == ['running'],
                what='not yet')
            wait_for(lambda: server_id in driver(cloud, 'host1').features[virt.LiveMigration].jobs, what='not yet')
            number = cloud.boss.get(path).json()['migrations'][0]['id']
            wait_for(
                lambda: cloud.boss.get(f'{path}/{number}').json()['migration']['memory_total_bytes'],
                what='nothing copied')
            one = cloud.boss.get(f'{path}/{number}').json()['migration']
            assert one['memory_total_bytes'] == one['memory_processed_bytes'] + one['memory_remaining_bytes'] > 0
            with cloud.api_db.reader() as conn:
                assert {row['migrating_to'] for row in ports.of_device(conn, server_id)} == {'host3'}
            answer = cloud.boss.request(method, path + '/' + url.format(number), body)
            assert answer.status_code == 202, answer.text
            cloud.boss.wait_for(server_id)
            rows = cloud.boss.get(f'/os-migrations?instance_uuid={server_id}').json()['migrations']
            wait_for(lambda: not driver(cloud, 'host3').machine.expected, what='the destination still expects it')
            assert rows[0]['status'] == ending
            assert home(cloud, server_id) == ('host1' if ending == 'cancelled' else 'host3')
            wait_for(lambda: _settled(cloud, server_id), what='ports')
            check(cloud, server_id)
    finally:
        driver(cloud, 'host1').delays.clear()


def test_volumes_go_along(cloud):
    """The destination reaches them through attachments of its own, and the source's are given up."""
    server_id, volume_id = boot(cloud), volume(cloud)
    answer = cloud.boss.post(f'/servers/{server_id}/os-volume_attachments',
                             {'volumeAttachment': {'volumeId': volume_id}})
    assert answer.status_code == 202, answer.text
    wait_for(lambda: look(cloud, volume_id)['status'] == 'in-use', what='not attached')
    first = look(cloud, volume_id)['attachments']
    assert act(cloud, server_id, 'os-migrateLive', host='host2', block_migration='auto').status_code == 202
    cloud.boss.wait_for(server_id)
    second = look(cloud, volume_id)['attachments']
    assert len(first) == len(second) == 1 and first[0]['host_name'] == 'host1' and second[0]['host_name'] == 'host2'
    driver(cloud, 'host2').failures['live_migrate'] = RuntimeError('canary')
    try:
        assert act(cloud, server_id, 'os-migrateLive', host='host3', block_migration='auto').status_code == 202
        cloud.boss.wait_for(server_id)
    finally:
        driver(cloud, 'host2').failures.clear()
    assert home(cloud, server_id) == 'host2' and look(cloud, volume_id)['attachments'] == second
    check(cloud, server_id)


def test_evacuation_moves_the_server_with_its_volume(cloud):
    """With its volume; its host comes back and has no guest of it."""
    server_id, volume_id = boot(cloud, 'host3'), volume(cloud)
    answer = cloud.boss.post(f'/servers/{server_id}/os-volume_attachments',
                             {'volumeAttachment': {'volumeId': volume_id}})
    assert answer.status_code == 202, answer.text
    wait_for(lambda: look(cloud, volume_id)['status'] == 'in-use', what='not attached')
    before = shown(cloud, server_id)['addresses']
    refused = act(cloud, server_id, 'evacuate')
    assert refused.status_code == 400 and 'still in use' in refused.text
    service = next(row['id'] for row in cloud.boss.get('/os-services?binary=nova-compute').json()['services']
                   if row['host'] == 'host3')
    cloud.boss.put(f'/os-services/{service}', {'forced_down': True})
    try:
        assert act(cloud, server_id, 'evacuate').status_code == 200
        wait_for(lambda: home(cloud, server_id) != 'host3', what='it stays')
        server = cloud.boss.wait_for(server_id, 'SHUTOFF')
        assert server['addresses'] == before
        wait_for(lambda: server_id not in driver(cloud, 'host3').guests(), what='two guests')
    finally:
        cloud.boss.put(f'/os-services/{service}', {'forced_down': False})
    attached, = look(cloud, volume_id)['attachments']
    assert attached['host_name'] == home(cloud, server_id) and look(cloud, volume_id)['status'] == 'in-use'
    assert list(driver(cloud, home(cloud, server_id)).machine.guests[server_id].get('volumes', {})) == [volume_id]
    check(cloud, server_id)

    def newest():
        row = cloud.boss.get(f'/os-migrations?instance_uuid={server_id}').json()['migrations'][0]
        return row['migration_type'], row['status']
    # 'done' until its host has said that the guest is gone there
    wait_for(lambda: newest() == ('evacuation', 'completed'), what='the move is not over')


def test_an_evacuation_stops_with_a_sentence_in_its_event_until_an_operator_names_the_risk(cloud):
    server_id = boot(cloud, 'host3')
    service = next(row['id'] for row in cloud.boss.get('/os-services?binary=nova-compute').json()['services']
                   if row['host'] == 'host3')
    for host in HOSTS:
        driver(cloud, host).failures['fence'] = exception.NotFenced(
            part='volume 1', more='', reason='Operation not permitted', details='')
    cloud.boss.put(f'/os-services/{service}', {'forced_down': True})

    def last():
        path = f'/servers/{server_id}/os-instance-actions'
        request = cloud.boss.get(path).json()['instanceActions'][0]['request_id']
        action = cloud.boss.get(f'{path}/{request}').json()['instanceAction']
        return action['message'], [each.get('details') for each in action['events'] if each['result'] == 'Error']
    try:
        assert act(cloud, server_id, 'evacuate').status_code == 200
        server = cloud.boss.wait_for(server_id)
        assert server['OS-EXT-SRV-ATTR:host'] == 'host3' and server_id in driver(cloud, 'host3').guests()
        message, (details,) = last()
        assert message == 'Error' and details == (
            'Not evacuated: the former host may still write to volume 1: Operation not permitted. Switch that host '
            'off, then evacuate with accepted_risk two-writers.')
        assert act(cloud, server_id, 'evacuate', accepted_risk='two-writers').status_code == 200
        cloud.boss.wait_for(server_id, 'SHUTOFF')
        assert home(cloud, server_id) != 'host3'
    finally:
        for host in HOSTS:
            driver(cloud, host).failures.clear()
        cloud.boss.put(f'/os-services/{service}', {'forced_down': False})


def test_until_2_33_a_refusal_is_told_at_once(cloud):
    server_id = boot(cloud)
    for host in HOSTS:
        driver(cloud, host).failures['check_source'] = RuntimeError('canary')
    try:
        answer = cloud.boss.post(f'/servers/{server_id}/action', {'os-migrateLive': {
            'host': None, 'block_migration': False, 'disk_over_commit': False}}, version='2.1')
        assert answer.status_code == 400 and 'pre-check' in answer.text and 'canary' not in answer.text
        assert shown(cloud, server_id)['status'] == 'ACTIVE'
        assert act(cloud, server_id, 'os-migrateLive', host=None, block_migration=False).status_code == 202
        cloud.boss.wait_for(server_id)
    finally:
        for host in HOSTS:
            driver(cloud, host).failures.clear()
    rows = cloud.boss.get(f'/os-migrations?instance_uuid={server_id}').json()['migrations']
    assert [row['status'] for row in rows] == ['error', 'error']
    check(cloud, server_id)


def test_a_power_update_moves_the_server(cloud):
    server_id = boot(cloud)
    for tag, status in (('POWER_OFF', 'SHUTOFF'), ('POWER_ON', 'ACTIVE')):
        answer = cloud.boss.post('/os-server-external-events', {'events': [
            {'name': 'power-update', 'server_uuid': server_id, 'tag': tag}]})
        assert answer.status_code == 200, answer.text
        cloud.boss.wait_for(server_id, status)
    actions = cloud.boss.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions']
    assert [row['action'] for row in actions] == ['start', 'stop', 'create']
