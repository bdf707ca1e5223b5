"""Rescue, shelve, backup, soft delete, consoles and what is done inside of guests, over HTTP in a whole cloud; what is
refused, and how.
"""
import threading
import time
import uuid

import pytest
import sqlalchemy as sa

from nova.db.projects import quotas
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import cell as tables_cell
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import cloud
from nova.tests.functional import servers
from nova.tests.support.waiting import wait_for

HOSTS = ('left', 'right')


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    with cloud.running(tmp_path_factory.mktemp('cloud') / 'state', HOSTS, host='left', quota__instances=-1,
                       quota__cores=-1, quota__ram=-1) as made:
        yield made
        assert made.services[0].manager.claim_check.audit() == []


@pytest.fixture(scope='module')
def image_id(running):
    return running.admin().upload_image(visibility='public')


@pytest.fixture
def client(running):
    return running.client(version='2.96')


@pytest.fixture
def server_id(client, image_id):
    made = client.boot(image_id, version='2.1')['id']
    client.wait_for(made)
    yield made
    client.delete(f'/servers/{made}')
    client.wait_for(made, 'DELETED')


def act(client, server_id, name, body=None, **more):
    return client.post(f'/servers/{server_id}/action', {name: body}, **more)


def done(client, server_id, name, body=None, status='ACTIVE', **more):
    answer = act(client, server_id, name, body, **more)
    assert answer.status_code < 300, answer.text
    return client.wait_for(server_id, status)


def images(client, **filters):
    query = '&'.join(f'{name}={value}' for name, value in filters.items())
    return client.get(f'/image/v2/images?{query}').json()['images']


# ---- shelve ------------------------------------------------------------------

def test_server_is_shelved_and_unshelved(running, client, server_id):
    admin = running.admin('2.96')
    before = client.get(f'/servers/{server_id}').json()['server']
    shelved = done(client, server_id, 'shelve', status='SHELVED_OFFLOADED')
    assert shelved['addresses'] == before['addresses'] and shelved['hostId'] == ''
    image, = images(client, name='server-shelved')
    assert image['status'] == 'active' and image['instance_uuid'] == server_id
    assert admin.get(f'/servers/{server_id}').json()['server']['OS-EXT-SRV-ATTR:host'] is None
    for target in HOSTS:
        done(admin, server_id, 'unshelve', {'host': target})
        assert admin.get(f'/servers/{server_id}').json()['server']['OS-EXT-SRV-ATTR:host'] == target
        assert images(client, name='server-shelved') == []
        done(client, server_id, 'shelve', status='SHELVED_OFFLOADED')
    back = done(client, server_id, 'unshelve')
    assert back['addresses'] == before['addresses'] and back['image']['id'] == before['image']['id']


def test_unshelve_pins_and_unpins(running, client, server_id):
    done(client, server_id, 'shelve', status='SHELVED_OFFLOADED')
    pinned = done(client, server_id, 'unshelve', {'availability_zone': 'nova'})
    assert pinned['pinned_availability_zone'] == 'nova'
    done(client, server_id, 'shelve', status='SHELVED_OFFLOADED')
    assert done(client, server_id, 'unshelve', {'availability_zone': None})['pinned_availability_zone'] is None
    done(client, server_id, 'shelve', status='SHELVED_OFFLOADED')
    done(client, server_id, 'unshelve', {'availability_zone': 'nova'}, version='2.77')


def test_invalid_unshelve_is_refused(running, client, server_id):
    admin = running.admin('2.91')
    done(client, server_id, 'shelve', status='SHELVED_OFFLOADED')
    for body, code in (({'availability_zone': 'nowhere'}, 400), ({'availability_zone': 'nova', 'x': 1}, 400)):
        assert act(client, server_id, 'unshelve', body).status_code == code, body
    assert act(client, server_id, 'unshelve', {'host': 'left'}).status_code == 403
    for body in ({'host': 'nowhere'}, {'host': ''}, {'availability_zone': ''}):
        assert act(admin, server_id, 'unshelve', body).status_code == 400, body
    assert act(client, server_id, 'unshelve', {}, version='2.77').status_code == 400
    assert client.get(f'/servers/{server_id}').json()['server']['status'] == 'SHELVED_OFFLOADED'
    done(client, server_id, 'unshelve', {'availability_zone': 'ignored'}, version='2.76')
    assert act(client, server_id, 'unshelve').status_code == 409


def test_one_of_parallel_unshelves_wins(running, client, server_id):
    done(client, server_id, 'shelve', status='SHELVED_OFFLOADED')
    assert sorted(at_once(4, lambda: act(running.client(), server_id, 'unshelve').status_code)) == [202, 409, 409, 409]
    client.wait_for(server_id)


def at_once(count, function):
    start, found = threading.Barrier(count), []

    def run():
        start.wait()
        found.append(function())
    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_server_deleted_during_shelving_leaves_nothing(running, client, image_id):
    for pause in (0, 0.01, 0.05, 0.1):
        server_id = client.boot(image_id, name='doomed', version='2.1')['id']
        client.wait_for(server_id)
        assert act(client, server_id, 'shelve').status_code == 202
        time.sleep(pause)
        assert client.delete(f'/servers/{server_id}').status_code == 204
        client.wait_for(server_id, 'DELETED')
    wait_for(lambda: images(client, name='doomed-shelved') == [], seconds=20)


# ---- rescue ------------------------------------------------------------------

def test_server_is_rescued_and_unrescued(running, client, server_id, image_id):
    answer = act(client, server_id, 'rescue', {'rescue_image_ref': image_id, 'adminPass': 'secret'})
    assert answer.status_code == 200 and answer.json() == {'adminPass': 'secret'}
    client.wait_for(server_id, 'RESCUE')
    assert act(client, server_id, 'rescue').status_code == 409
    done(client, server_id, 'unrescue', status='ACTIVE')
    assert len(act(client, server_id, 'rescue').json()['adminPass']) >= 12
    client.wait_for(server_id, 'RESCUE')


def test_rescue_with_an_unusable_image_is_refused(running, client, server_id):
    nothing = str(uuid.uuid4())
    wrong = client.upload_image(name='wrong', hw_rescue_bus='warp')
    empty = client.post('/image/v2/images', {'name': 'empty', 'disk_format': 'raw',
                                             'container_format': 'bare'}).json()['id']
    others = running.admin().upload_image(name='private')
    for image in (nothing, wrong, empty, others):
        assert act(client, server_id, 'rescue', {'rescue_image_ref': image}).status_code == 400, image
    assert client.get(f'/servers/{server_id}').json()['server']['status'] == 'ACTIVE'


# ---- backup ------------------------------------------------------------------

def backup(client, server_id, kind, rotation, version='2.45'):
    answer = act(client, server_id, 'createBackup', {
        'name': f'{kind}-{rotation}', 'backup_type': kind, 'rotation': rotation}, version=version)
    assert answer.status_code == 202, answer.text
    client.wait_for(server_id)
    return answer


def test_backups_rotate(running, client, server_id):
    other = client.upload_image(name='mine', image_type='backup', backup_type='daily', instance_uuid=server_id)
    forged = running.admin().upload_image(name='forged', image_type='backup', backup_type='daily',
                                          instance_uuid=server_id)
    client.delete(f'/image/v2/images/{other}')
    made = [backup(client, server_id, 'daily', 2).json()['image_id'] for _ in range(3)]
    weekly = backup(client, server_id, 'weekly', '1').json()['image_id']
    kept = {image['id'] for image in images(client, instance_uuid=server_id)}
    assert kept == {*made[1:], weekly}
    image = client.get(f'/image/v2/images/{weekly}').json()
    assert (image['image_type'], image['backup_type'], image['status']) == ('backup', 'weekly', 'active')
    # another project's image with this server's id neither counts nor goes
    assert running.admin().get(f'/image/v2/images/{forged}').status_code == 200
    answer = backup(client, server_id, 'daily', 0, version='2.1')
    assert 'Location' not in answer.headers and answer.content == b''
    assert {image['id'] for image in images(client, instance_uuid=server_id)} == {weekly}
    location = backup(client, server_id, 'daily', 1, version='2.44').headers['Location']
    assert location.rpartition('/')[2] in {image['id'] for image in images(client, instance_uuid=server_id)}


@pytest.mark.parametrize('kind', ['', 'in:a,b', 'ä b&c=%', 'eq:'])
def test_backup_type_may_be_any_text(client, server_id, kind):
    made = [backup(client, server_id, kind, 1).json()['image_id'] for _ in range(2)]
    other = backup(client, server_id, kind + 'x', 1).json()['image_id']
    assert {image['id'] for image in images(client, instance_uuid=server_id)} == {made[-1], other}


def test_backups_that_an_administrator_makes_rotate(running, client, server_id):
    admin = running.admin()
    mine = backup(client, server_id, 'daily', 1).json()['image_id']
    theirs = [backup(admin, server_id, 'daily', 1).json()['image_id'] for _ in range(2)]
    assert {image['id'] for image in images(admin, instance_uuid=server_id)} == {mine, theirs[-1]}


def test_invalid_backup_is_refused(client, server_id):
    good = {'name': 'b', 'backup_type': 'daily', 'rotation': 1}
    for wrong in ({'rotation': -1}, {'rotation': 'x'}, {'rotation': None}, {'name': ''}, {'backup_type': 5},
                  {'backup_type': 'x' * 300}, {'rotation': 2 ** 40}, {'metadata': {'a': 1}}):
        assert act(client, server_id, 'createBackup', {**good, **wrong}).status_code == 400, wrong
    assert act(client, server_id, 'createBackup', {'name': 'b'}).status_code == 400


# ---- inside ------------------------------------------------------------------

def test_password_crash_dump_and_diagnostics_reach_the_guest(running, client, server_id):
    admin = running.admin('2.96')
    done(client, server_id, 'changePassword', {'adminPass': 'new'})
    assert act(client, server_id, 'trigger_crash_dump').status_code == 202
    assert act(client, server_id, 'trigger_crash_dump', version='2.16').status_code == 404
    assert act(admin, server_id, 'injectNetworkInfo').status_code == 202
    new = admin.get(f'/servers/{server_id}/diagnostics').json()
    assert new['state'] == 'running' and new['num_nics'] == 1 and new['driver'] == 'libvirt'
    old = admin.get(f'/servers/{server_id}/diagnostics', version='2.47').json()
    assert 0 < new['disk_details'][0]['read_bytes'] <= old['vda_read'] and old['memory'] == 128 * 1024   # it reads on
    assert client.get(f'/servers/{server_id}/diagnostics').status_code == 403
    assert client.get(f'/servers/{server_id}/topology').json() == {'nodes': [], 'pagesize_kb': None}
    done(client, server_id, 'os-stop', status='SHUTOFF')
    assert admin.get(f'/servers/{server_id}/diagnostics').status_code == 409


def test_password_posted_by_the_guest_is_shown_and_cleared(running, client, server_id):
    path = f'/servers/{server_id}/os-server-password'
    assert client.get(path).json() == {'password': ''}
    with running.cell_db.writer() as conn:
        instances.update(conn, server_id, {'system_metadata': {'password': 'encrypted', 'other': 1}})
    assert client.get(path).json() == {'password': 'encrypted'}
    assert client.delete(path).status_code == 204 and client.get(path).json() == {'password': ''}
    with running.cell_db.reader() as conn:
        assert instances.get(conn, server_id)['system_metadata'] == {'other': 1}


# ---- consoles ----------------------------------------------------------------

def console(client, server_id, **values):
    return client.post(f'/servers/{server_id}/remote-consoles', {'remote_console': {
        'protocol': 'vnc', 'type': 'novnc', **values}})


def test_console_token_is_shown_to_administrators(running, client, image_id):
    admin = running.admin('2.99')
    server_id = client.boot(image_id, version='2.1')['id']
    client.wait_for(server_id)
    url = console(client, server_id).json()['remote_console']['url']
    assert url.startswith(f'{running.url}/console/novnc/vnc_auto.html?path=%3Ftoken%3D')
    token = url.rpartition('%3D')[2]
    shown = admin.get(f'/os-console-auth-tokens/{token}').json()['console']
    assert shown['instance_uuid'] == server_id and shown['port'] >= 5900 and shown['tls_port'] is None
    with running.cell_db.reader() as conn:           # who reads the database opens no console
        assert token not in str(conn.execute(sa.select(tables_cell.console_auth_tokens)).all())
    assert client.get(f'/os-console-auth-tokens/{token}').status_code == 403
    assert admin.get(f'/os-console-auth-tokens/{token}', version='2.30').status_code == 401
    assert admin.get(f'/os-console-auth-tokens/{token}?x=1').status_code == 400
    assert admin.get(f'/os-console-auth-tokens/{token}?x=1', version='2.98').status_code == 200
    assert admin.get(f'/os-console-auth-tokens/{uuid.uuid4()}').status_code == 404
    client.delete(f'/servers/{server_id}')
    client.wait_for(server_id, 'DELETED')
    assert admin.get(f'/os-console-auth-tokens/{token}').status_code == 404


def test_a_token_does_not_outlive_the_host(running, client, server_id):
    token = console(client, server_id).json()['remote_console']['url'].rpartition('%3D')[2]
    done(client, server_id, 'shelve', status='SHELVED_OFFLOADED')
    done(client, server_id, 'unshelve')
    assert running.admin('2.99').get(f'/os-console-auth-tokens/{token}').status_code == 404


def test_unsupported_consoles_are_refused(client, server_id):
    for values, code in (({'type': 'xvpvnc'}, 400), ({'protocol': 'serial'}, 400), ({'type': 'x'}, 400),
                         ({'protocol': 'rdp', 'type': 'rdp-html5'}, 400),
                         ({'protocol': 'spice', 'type': 'spice-html5'}, 400),       # its proxy is not configured
                         ({'protocol': 'spice', 'type': 'spice-direct'}, 400)):
        assert console(client, server_id, **values).status_code == code, values
    for name, code in (('os-getVNCConsole', 200), ('os-getRDPConsole', 400), ('os-getSPICEConsole', 400)):
        kind = {'os-getVNCConsole': 'novnc', 'os-getRDPConsole': 'rdp-html5'}.get(name, 'spice-html5')
        assert act(client, server_id, name, {'type': kind}, version='2.5').status_code == code, name
        assert act(client, server_id, name, {'type': kind}, version='2.6').status_code == 404
    done(client, server_id, 'shelve', status='SHELVED_OFFLOADED')
    assert console(client, server_id).status_code == 409


# ---- soft delete -------------------------------------------------------------

@pytest.fixture(scope='module')
def keeping(tmp_path_factory):
    """A cloud that keeps deleted servers."""
    with cloud.running(tmp_path_factory.mktemp('cloud') / 'state', reclaim_instance_interval=1000) as made:
        made.image_id = made.admin().upload_image(visibility='public')
        yield made
        assert made.services[0].manager.claim_check.audit() == []


def quota(running, limit):
    project_id = running.client().project_id         # a login is a write, of its record in the audit log
    with running.api_db.writer() as conn:
        quotas.set_limits(conn, project_id, {'instances': limit})


def test_soft_delete_restore_and_the_quota(keeping):
    client, manager = keeping.client(), keeping.services[0].manager
    quota(keeping, 1)
    first = client.boot(keeping.image_id)['id']
    client.wait_for(first)
    assert client.delete(f'/servers/{first}').status_code == 204
    client.wait_for(first, 'SOFT_DELETED')
    assert client.delete(f'/servers/{first}').status_code == 204           # it is deleted as much as it can be
    second = client.boot(keeping.image_id)['id']                            # the quota has room again
    client.wait_for(second)
    refused = act(client, first, 'restore')
    assert refused.status_code == 403 and 'Quota exceeded' in refused.text
    client.wait_for(first, 'SOFT_DELETED')
    quota(keeping, 2)
    done(client, first, 'restore')
    assert client.post('/servers', {'server': {'name': 'x', 'imageRef': keeping.image_id,
                                               'flavorRef': '42'}}).status_code == 403
    assert act(client, first, 'restore').status_code == 409
    for server_id in (first, second):
        client.delete(f'/servers/{server_id}')
        client.wait_for(server_id, 'SOFT_DELETED')
        assert act(client, server_id, 'forceDelete').status_code == 202
        client.wait_for(server_id, 'DELETED')
    assert manager.quota_check.count_soft_deleted() == 0
    quota(keeping, -1)


def test_one_of_two_restores_comes_to_the_quota(keeping):
    client = keeping.client()
    made = [client.boot(keeping.image_id)['id'] for _ in range(2)]
    for server_id in made:
        client.wait_for(server_id)
        client.delete(f'/servers/{server_id}')
        client.wait_for(server_id, 'SOFT_DELETED')
    quota(keeping, 1)
    which = iter(made)
    codes = at_once(2, lambda: act(keeping.client(), next(which), 'restore').status_code)
    assert sorted(codes) == [202, 403]
    quota(keeping, -1)
    for server_id in made:
        assert act(client, server_id, 'forceDelete').status_code == 202
        client.wait_for(server_id, 'DELETED')


def test_soft_deleted_server_is_reclaimed_after_the_interval(keeping):
    client, manager = keeping.client(), keeping.services[0].manager
    server_id = client.boot(keeping.image_id)['id']
    client.wait_for(server_id)
    client.delete(f'/servers/{server_id}')
    client.wait_for(server_id, 'SOFT_DELETED')
    keeping.conf.set_override('reclaim_instance_interval', 1)
    try:
        # or the cloud's own conductor takes it first
        wait_for(
            lambda: manager.deferred.reclaim_deleted() or client.get(f'/servers/{server_id}').status_code == 404,
            seconds=20)
        client.wait_for(server_id, 'DELETED')
    finally:
        keeping.conf.set_override('reclaim_instance_interval', 1000)


# ---- with recorded messages --------------------------------------------------

@pytest.fixture
def api(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def volume_backed(api):
    server_id = api.add_server()
    with api.cell_db.writer() as conn:
        instances.update(conn, server_id, {'image_id': None})
    return server_id


def test_volume_backed_server_needs_a_stable_rescue_image(api):
    server_id, client = volume_backed(api), api.client()
    path = f'/servers/{server_id}/action'
    stable = api.add_image(properties={'hw_rescue_device': 'cdrom'})
    for body, version, code in (
            ({'rescue': None}, '2.86', 400), ({'rescue': {'rescue_image_ref': stable}}, '2.86', 400),
            ({'rescue': None}, '2.87', 400), ({'rescue': {'rescue_image_ref': api.image_id}}, '2.87', 400),
            ({'createBackup': {'name': 'b', 'backup_type': 'd', 'rotation': 1}}, '2.1', 400)):
        answer = client.post(path, body, version=version)
        assert answer.status == code, (body, answer.body)
    assert api.compute.sent == []
    assert client.post(path, {'rescue': {'rescue_image_ref': stable}}, version='2.87').status == 200
    assert api.compute.sent[0][2]['image_id'] == stable
    with api.cell_db.writer() as conn:
        instances.update(conn, server_id, {'task_state': None})
        conn.execute(sa.update(tables_cell.compute_nodes).values(capabilities={'rescue': True}))
    answer = client.post(path, {'rescue': {'rescue_image_ref': stable}}, version='2.87')
    assert answer.status == 400 and 'volume' in answer.fault[2]


def test_screenshot_access_is_recorded_in_the_audit_log(api):
    """Also for the project whose screen an administrator of another one looks at."""
    server_id, other = api.add_server(), 'e' * 32
    answer = api.admin(project=other).get(f'/servers/{server_id}/os-console-screenshot')
    assert answer.status == 200
    path = '/os-audit?request_id=' + answer.headers['x-openstack-request-id']
    for project, reason in ((base.PROJECT, 'ByOtherProject'), (other, None)):
        record, = api.client(project=project).get(path).json['audit_records']
        assert (record['method'], record['action'], record['target_id'], record['reason']) == (
            'GET', 'nova:os-console-screenshot', server_id, reason)
    refused = api.client(project=other).get(f'/servers/{server_id}/os-console-screenshot')
    record, = api.client(project=other).get(
        '/os-audit?request_id=' + refused.headers['x-openstack-request-id']).json['audit_records']
    assert (record['code'], record['outcome']) == (404, 'failed')


def test_a_host_that_makes_no_pictures_is_not_asked(api):
    """One of the release before has not the capability, and does not know the message either."""
    server_id, path = api.add_server(), '/servers/{}/os-console-screenshot'
    with api.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.compute_nodes).values(capabilities={'consoles': True}))
    answer = api.client().get(path.format(server_id))
    assert answer.status == 501 and 'does not support screenshots' in answer.fault[2]
    assert api.compute.sent == []


@pytest.mark.parametrize('path', ['remote-consoles', 'diagnostics'])
def test_silent_host_returns_an_error(api, path):
    server_id = api.add_server()

    def ask():
        if path == 'diagnostics':
            return api.admin(project=base.PROJECT).get(f'/servers/{server_id}/{path}').status
        return api.client().post(f'/servers/{server_id}/{path}', {
            'remote_console': {'protocol': 'vnc', 'type': 'novnc'}}, version='2.6').status
    api.compute.down = True
    assert ask() == 409
    api.compute.down = False
    with api.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(forced_down=True))
    assert ask() == 409 and api.compute.sent == []


def test_an_image_that_is_gone_rescues_nothing(api):
    server_id = api.add_server()
    api.services.images.delete(api.owner, api.image_id)
    answer = api.client().post(f'/servers/{server_id}/action', {'rescue': None})
    assert answer.status == 400 and api.row(server_id)['task_state'] is None and api.compute.sent == []


def test_a_volume_backed_server_is_shelved_without_an_image(api):
    server_id = volume_backed(api)
    assert api.client().post(f'/servers/{server_id}/action', {'shelve': None}).status == 202
    assert api.compute.sent[0][2]['image_id'] is None
    assert len(api.services.images.list(api.owner)) == 1


@pytest.mark.parametrize('name', ['shelve', 'createBackup'])
def test_an_image_that_cannot_be_made_leaves_the_server_alone(api, monkeypatch, name):
    server_id = api.add_server()
    monkeypatch.setattr(api.services.images.store, 'create', lambda *args: 1 / 0)
    body = {'shelve': None, 'createBackup': {'name': 'b', 'backup_type': 'd', 'rotation': 1}}[name]
    assert api.client().post(f'/servers/{server_id}/action', {name: body}).status == 500
    row = api.row(server_id)
    assert (row['vm_state'], row['task_state']) == ('active', None) and api.compute.sent == []
    with api.cell_db.reader() as conn:
        assert instance_actions.arguments_of_open(conn, [server_id]) == {}


@pytest.mark.parametrize(('values', 'soft'), [
    ({}, True), ({'vm_state': 'error'}, True), ({'vm_state': 'shelved'}, False), ({'vm_state': 'resized'}, False),
    ({'vm_state': 'shelved_offloaded', 'host': None, 'node': None}, False), ({'launched_at': None}, False)])
def test_servers_on_a_host_are_soft_deleted_if_reclaiming_is_enabled(tmp_path, values, soft):
    api = servers.Servers(tmp_path, reclaim_instance_interval=60)
    server_id = api.add_server(**values)
    assert api.client().delete(f'/servers/{server_id}').status == 204
    assert api.row(server_id)['task_state'] == ('soft-deleting' if soft else 'deleting')
    assert [name for name, *_ in api.compute.sent] == (
        ['soft_delete_instance'] if soft else ['terminate_instance'] if values.get('host', 1) else [])
    api.close()


def test_secrets_stay_out_of_answers_and_logs(api, caplog):
    caplog.set_level('DEBUG')
    server_id, client = api.add_server(), api.client()
    for body in ({'changePassword': {'adminPass': 'canary-1'}}, {'changePassword': {'adminPass': ['canary-2']}},
                 {'rescue': {'adminPass': 'canary-3', 'rescue_image_ref': 'x'}}):
        answer = client.post(f'/servers/{server_id}/action', body)
        assert b'canary' not in answer.body
    assert 'canary' not in caplog.text


@pytest.mark.parametrize('path', ['os-server-password', 'diagnostics', 'topology'])
def test_another_projects_server_is_not_there(api, path):
    server_id = api.add_servers(server_rows.row(1, project_id='c' * 32))[0]
    client = api.client()
    assert client.get(f'/servers/{server_id}/{path}', version='2.78').status == (403 if path == 'diagnostics' else 404)
    if path == 'os-server-password':
        assert client.delete(f'/servers/{server_id}/{path}').status == 404
    answer = client.post(f'/servers/{server_id}/remote-consoles', {
        'remote_console': {'protocol': 'vnc', 'type': 'novnc'}}, version='2.6')
    assert answer.status == 404 and api.compute.sent == []
    assert client.project == base.PROJECT


def test_image_tasks_of_a_backup_are_listed(client, server_id):
    """Newer ones do before they use an image."""
    image_id = backup(client, server_id, 'daily', 1).json()['image_id']
    assert client.get(f'/image/v2/images/{image_id}/tasks').json() == {'tasks': []}
    assert client.get(f'/image/v2/images/{uuid.uuid4()}/tasks').status_code == 404
