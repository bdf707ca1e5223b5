"""Chains of files of volumes (os-assisted-volume-snapshots), which the Block Storage service requests."""
import json
import urllib.parse

import pytest

from nova.db.servers import block_devices
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import volumes
from nova.tests.support.waiting import wait_for
from nova.volume import embedded

SNAPSHOTS = '/os-assisted-volume-snapshots'
SNAPSHOT = '11111111-2222-3333-4444-555555555555'
NFS = {'driver_volume_type': 'nfs', 'data': {'export': '192.0.2.1:/e', 'name': 'volume-1', 'format': 'raw'}}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud'), ['h1']) as made:
        yield made


@pytest.fixture(scope='module')
def user(cloud):
    return cloud.client(version='2.60')


@pytest.fixture
def said(cloud, monkeypatch):
    """What the block storage hears of snapshots."""
    found = []
    monkeypatch.setattr(embedded.EmbeddedVolumes, 'update_snapshot_status',
                        lambda self, ctx, snapshot_id, status, progress: found.append((snapshot_id, status, progress)))
    monkeypatch.setattr(embedded.EmbeddedVolumes, 'keeps_chains', True)
    return found


@pytest.fixture
def attached(cloud, user, monkeypatch):
    """(server, volume) with a volume that is a file of an NFS server."""
    server_id, volume_id = volumes.boot(user, user.upload_image()), volumes.volume(user)
    assert volumes.attach(user, server_id, volume_id).status_code == 200
    volumes.status(user, volume_id, 'in-use')
    monkeypatch.setattr(embedded.EmbeddedVolumes, 'get_snapshot', lambda self, ctx, ident: {
        'id': ident, 'volume_id': volume_id})
    yield server_id, volume_id
    volumes.gone(user, server_id)


def row(cloud, volume_id):
    with cloud.cell_db.reader() as conn:
        found, = block_devices.by_volume(conn, volume_id)
    return found


def over_nfs(cloud, volume_id):
    with cloud.cell_db.writer() as conn:
        held = row(cloud, volume_id)
        block_devices.update(conn, held['uuid'], {'connection_info': {**NFS, 'host': 'h1'}})


def create(client, volume_id, new_file, **more):
    return client.post(SNAPSHOTS, {'snapshot': {'volume_id': volume_id, 'create_info': {
        'snapshot_id': SNAPSHOT, 'type': 'qcow2', 'new_file': new_file, **more}}})


def delete(client, volume_id, merged=None, target=None, **more):
    info = {'volume_id': volume_id, 'file_to_merge': merged, 'merge_target_file': target, 'type': 'qcow2', **more}
    return client.delete(f'{SNAPSHOTS}/{SNAPSHOT}?' + urllib.parse.urlencode({'delete_info': json.dumps(info)}))


def test_files_come_and_go_and_the_connection_follows(cloud, user, attached, said):
    (server_id, volume_id), admin = attached, cloud.admin()
    over_nfs(cloud, volume_id)
    for name in ('volume-1.a', 'volume-1.b'):
        assert create(admin, volume_id, name).status_code == 200
        wait_for(lambda name=name: row(cloud, volume_id)['connection_info']['data']['name'] == name)
    assert row(cloud, volume_id)['connection_info']['data'] == {**NFS['data'], 'name': 'volume-1.b', 'format': 'qcow2'}
    wait_for(lambda: said == [(SNAPSHOT, 'creating', '90%')] * 2)
    del said[:]
    assert delete(admin, volume_id, 'volume-1.b', 'volume-1.a').status_code == 204
    wait_for(lambda: said == [(SNAPSHOT, 'deleting', '90%')])
    assert row(cloud, volume_id)['connection_info']['data']['name'] == 'volume-1.a'
    assert delete(admin, volume_id, 'not-there', 'volume-1.a').status_code == 204
    wait_for(lambda: said[1:] == [(SNAPSHOT, 'error_deleting', '0%')])
    # where it moves, the block storage tells of its file anew; here the row does
    assert user.get(f'/servers/{server_id}').json()['server']['status'] == 'ACTIVE'


NAMES = ('../x', '/etc/passwd', 'a/b', '.', '..', '', 'json:{}', 'nbd:unix', '-o', 'a b', 'x' * 256, 'a\n', '\u00e4',
         '.hidden')


def test_no_name_leads_elsewhere(cloud, attached, said):
    _server_id, volume_id = attached
    over_nfs(cloud, volume_id)
    admin = cloud.admin()
    for name in NAMES:
        answers = [create(admin, volume_id, name), delete(admin, volume_id, name), delete(admin, volume_id, 'f', name)]
        assert [answer.status_code for answer in answers] == [400] * 3, name
    assert said == [] and row(cloud, volume_id)['connection_info']['data'] == NFS['data']


def test_invalid_assisted_snapshots_are_refused_by_the_api(cloud, user, attached, said, monkeypatch):
    _server_id, volume_id = attached
    admin = cloud.admin()
    with cloud.cell_db.writer() as conn:
        block_devices.update(conn, row(cloud, volume_id)['uuid'], {'connection_info': {
            'driver_volume_type': 'rbd', 'data': {'name': 'a/b'}, 'host': 'h1'}})
    assert create(admin, volume_id, 'f').status_code == delete(admin, volume_id).status_code == 400
    over_nfs(cloud, volume_id)
    monkeypatch.setattr(embedded.EmbeddedVolumes, 'keeps_chains', False)
    # the embedded block storage copies volumes whole, and would go on with the file below
    answer = create(admin, volume_id, 'f')
    assert answer.status_code == 400 and 'does not support snapshot chains' in answer.text
    monkeypatch.setattr(embedded.EmbeddedVolumes, 'keeps_chains', True)
    assert create(user, volume_id, 'f').status_code == delete(user, volume_id).status_code == 403
    assert create(admin, volume_id, 'f', type='raw').status_code == 400
    for more in ({'type': 'raw'}, {'file_to_merge': 7}, {'file_to_merge': {}}, {'file_to_merge': None,
                                                                               'merge_target_file': 'f'}):
        assert delete(admin, volume_id, **more).status_code == 400
    assert said == []
