"""Images that are made of volumes, and the summary of volumes, over HTTP."""
import os

import pytest

from nova import context as nova_context
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.tests.support import waiting
from nova.tests.functional import cloud as cloud_fixture

GIB = 2 ** 30
UPLOAD = 'os-volume_upload_image'
READ_S = 300                 # for a whole volume to be read and hashed, on a busy machine


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud')) as made:
        yield made


@pytest.fixture
def user(cloud):
    found = cloud.client()
    yield found
    for row in ask(cloud.admin(), 'GET', '/volumes?all_tenants=1')['volumes']:
        ask(cloud.admin(), 'DELETE', f'/volumes/{row["id"]}?force=true', code=202)


def ask(client, method, path, body=None, code=200, minor=None):
    headers = {'OpenStack-API-Version': f'volume 3.{minor}'} if minor is not None else {}
    answer = client.request(method, '/volume/v3' + path, body, headers=headers)
    assert answer.status_code == code, answer.text
    return answer.json() if answer.content else None


def show(client, volume_id):
    return ask(client, 'GET', f'/volumes/{volume_id}')['volume']


def until(client, volume_id, status='available'):
    waiting.wait_for(lambda: show(client, volume_id)['status'] == status, READ_S, f'{status} volume')


def volume(client, **values):
    made = ask(client, 'POST', '/volumes', {'volume': {'size': 1, **values}}, 202)['volume']['id']
    until(client, made)
    return made


def upload(client, volume_id, code=202, minor=44, **values):
    return ask(client, 'POST', f'/volumes/{volume_id}/action', {UPLOAD: {'image_name': 'made', **values}}, code, minor)


def image_of(client, image_id):
    found = client.get('/image/v2/images/' + image_id)
    return found.json() if found.status_code == 200 else None


def active(client, image_id):
    waiting.wait_for(lambda: (found := image_of(client, image_id)) and found['status'] == 'active', READ_S,
                     'the image')
    return image_of(client, image_id)


def write(cloud, volume_id, text, at=0):
    with open(cloud.state_path / 'volumes' / volume_id, 'r+b') as file:
        file.seek(at)
        file.write(text)


def test_an_image_is_made_of_a_volume(cloud, user):
    """It has the volume's blocks, and what the volume's own image said of guests, but not what identified that."""
    own = {'image_type': 'backup', 'backup_type': 'daily', 'instance_uuid': 'x', 'user_id': 'x',
           'base_image_ref': 'x', 'img_signature': 'x', 'os_hash_value': 'x'}
    made = volume(user, description='d')
    ask(user, 'POST', f'/volumes/{made}/action', {'os-set_image_metadata': {'metadata': {
        'hw_disk_bus': 'scsi', 'image_id': 'x', 'min_ram': '7', **own}}})
    write(cloud, made, b'data', at=4096)
    shown = upload(user, made)[UPLOAD]
    image_id = shown.pop('image_id')
    assert shown.pop('updated_at') and shown.pop('volume_type')['name'] == '__DEFAULT__'
    assert shown == {'id': made, 'status': 'uploading', 'display_description': 'd', 'size': 1, 'protected': False,
                     'container_format': 'bare', 'disk_format': 'raw', 'image_name': 'made', 'visibility': 'private'}
    image = active(user, image_id)
    assert (image['disk_format'], image['size'], image['min_disk']) == ('raw', GIB, 1)
    assert image['hw_disk_bus'] == 'scsi' and image['min_ram'] == 0 and 'image_id' not in image
    assert not {name: image[name] for name in own if image.get(name) == own[name]}
    until(user, made)
    again = volume(user, imageRef=image_id)
    with open(cloud.state_path / 'volumes' / again, 'rb') as file:
        assert file.read(4100)[4096:] == b'data'


def test_small_volumes_are_uploaded_at_all_versions(cloud, user):
    made = volume(user)
    write(cloud, made, b'data')
    image_id = upload(user, made, disk_format='qcow2', visibility='shared', protected='false')[UPLOAD]['image_id']
    image = active(user, image_id)
    assert image['disk_format'] == 'qcow2' and image['visibility'] == 'shared' and image['size'] < 2 ** 22
    until(user, made)
    assert [name for name in os.listdir(cloud.state_path / 'volumes') if 'upload' in name] == []
    shown = upload(user, made, minor=0)[UPLOAD]
    assert 'visibility' not in shown and 'protected' not in shown
    upload(user, made, 400, minor=0, visibility='private')


def test_refused_upload_leaves_the_volume_available_and_no_image(cloud, user):
    """Nothing is left of it: the volume is available, and there is no image."""
    made = volume(user)

    def images():
        return {row['id'] for row in user.get('/image/v2/images').json()['images']}
    before = images()
    for values in ({'disk_format': 'vmdk'}, {'container_format': 'ova'}, {'visibility': 'odd'}, {'protected': 'odd'},
                   {'force': 'odd'}, {'image_name': ''}, {'image_name': 'x' * 256}, {'more': 1}):
        upload(user, made, 400, **values)
    upload(user, made, 403, visibility='public')
    theirs = ask(cloud.admin(), 'POST', '/volumes', {'volume': {'size': 1}}, 202)['volume']['id']
    upload(user, theirs, 404)
    with cloud.api_db.writer() as conn:
        db.update(conn, volumes, made, {'status': 'in-use'})
    for force in (True, False):
        ask(user, 'POST', f'/volumes/{made}/action', {UPLOAD: {'image_name': 'x', 'force': force}}, 400)
    with cloud.api_db.writer() as conn:
        db.update(conn, volumes, made, {'status': 'available'})
    assert images() == before and show(user, made)['status'] == 'available'


def test_an_image_that_cannot_be_made_leaves_the_volume_as_it_was(cloud, user):
    """What a guest has written looks like a disk with another one below it: the store does not take it as raw."""
    made = volume(user)
    write(cloud, made, b'QFI\xfb\0\0\0\3' + b'\0' * 7 + b'\1' + b'\0\0\0\4' + b'\0' * 65536)
    for protected in (False, True):
        image_id = upload(user, made, protected=protected)[UPLOAD]['image_id']
        waiting.wait_for(lambda ident=image_id: image_of(user, ident) is None, 60, 'the end of the image')
        until(user, made)
    ask(user, 'DELETE', f'/volumes/{made}', code=202)


def test_nothing_else_happens_to_a_volume_meanwhile_and_a_crash_lets_it_go(cloud, user):
    made = volume(user)
    with cloud.api_db.writer() as conn:
        db.update(conn, volumes, made, {'status': 'uploading'})
    upload(user, made, 400)
    ask(user, 'DELETE', f'/volumes/{made}', code=400)
    ask(user, 'POST', f'/volumes/{made}/action', {'os-extend': {'new_size': 2}}, 400)
    ask(user, 'POST', '/snapshots', {'snapshot': {'volume_id': made, 'force': True}}, 400)
    cloud.volumes.uploads.recover()
    assert show(user, made)['status'] == 'available'
    with cloud.api_db.reader() as conn:
        assert db.get(conn, volumes, made, nova_context.ALL_PROJECTS)['status'] == 'available'


def test_volume_summary_counts_the_project_or_all_projects(cloud, user):
    """Of the caller's project; an administrator may ask for all."""
    for metadata in ({'a': '1'}, {'a': '2', 'b': '1'}, {'a': '1'}):
        ask(user, 'POST', '/volumes', {'volume': {'size': 1, 'metadata': metadata}}, 202)
    ask(cloud.admin(), 'POST', '/volumes', {'volume': {'size': 2}}, 202)
    found = ask(user, 'GET', '/volumes/summary', minor=36)['volume-summary']
    assert found == {'total_count': 3, 'total_size': 3, 'metadata': {'a': ['1', '2'], 'b': ['1']}}
    assert ask(user, 'GET', '/volumes/summary', minor=12)['volume-summary'] == {'total_count': 3, 'total_size': 3}
    assert ask(user, 'GET', '/volumes/summary?all_tenants=1', minor=12)['volume-summary']['total_count'] == 3
    every = ask(cloud.admin(), 'GET', '/volumes/summary?all_tenants=1', minor=12)['volume-summary']
    assert every == {'total_count': 4, 'total_size': 5}
    ask(user, 'GET', '/volumes/summary', code=404, minor=11)
    ask(user, 'GET', '/volumes/summary?name=x', code=400, minor=12)
