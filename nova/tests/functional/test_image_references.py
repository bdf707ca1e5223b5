"""Images that bodies and properties name, by who may not see them: what is another project's does not exist.

Each refusal is that of an id which nothing has.
"""
import json

import pytest

from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.isolation import MISSING
from nova.tests.support.isolation import PATCH
from nova.tests.support.isolation import VERSION
from nova.tests.support.isolation import add_user
from nova.tests.support.isolation import one

NAMES = ('kernel_id', 'ramdisk_id')


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('references'), quota__instances=-1, quota__cores=-1,
                               quota__ram=-1) as made:
        yield made


@pytest.fixture(scope='module')
def users(cloud):
    """(the victim, the thief), members of two projects."""
    admin = cloud.admin(VERSION)
    return add_user(admin, 'victim', 'member'), add_user(admin, 'thief', 'member')


@pytest.fixture(scope='module')
def secret(users):
    """A private image of the victim."""
    return users[0].upload_image(name='secret', visibility='private')


class Thief:
    """What the tests ask for, with an id that the caller may not see and with one that nothing has."""

    def __init__(self, client, secret):
        self.client, self.secret = client, secret

    def refused(self, method, path, body, code=400, **more):
        """Both ids are refused with the same words."""
        answers = []
        for ident in (self.secret, MISSING):
            given = json.loads(json.dumps(body).replace('<image>', ident))
            answer = self.client.request(method, path, given, **more)
            answers.append((answer.status_code, answer.text.replace(ident, '<image>')))
        assert answers[0] == answers[1] and answers[0][0] == code, answers
        assert '<image>' in answers[0][1], answers


@pytest.fixture(scope='module')
def thief(users, secret):
    return Thief(users[1], secret)


def shared_then_taken_back(users, **properties):
    """An image of the thief whose properties name one that the victim shared with him, and does not share any more."""
    victim, client = users
    image = victim.upload_image(name='lent', visibility='shared')
    members = f'/image/v2/images/{image}/members'
    assert victim.post(members, {'member': client.project_id}).status_code == 200
    named = {name: image for name in properties['names']}
    mine = client.upload_image(name='mine', disk_format='ami', container_format='ami', **named)
    assert victim.delete(f'{members}/{client.project_id}').status_code == 204
    return image, mine


def server(image, **more):
    return {'server': {'name': 'thief', 'imageRef': image, 'flavorRef': '42', 'networks': 'none', **more}}


# ---- properties of images ------------------------------------------------------

@pytest.mark.parametrize('name', NAMES)
def test_new_image_cannot_refer_to_a_foreign_image(thief, name):
    thief.refused('POST', '/image/v2/images', {'name': 'x', 'disk_format': 'ami', 'container_format': 'ami',
                                               name: '<image>'})


@pytest.mark.parametrize('name', NAMES)
def test_changed_image_cannot_refer_to_a_foreign_image(thief, name):
    mine = thief.client.upload_image(name='mine', disk_format='ami', container_format='ami')
    thief.refused('PATCH', f'/image/v2/images/{mine}', [{'op': 'add', 'path': '/' + name, 'value': '<image>'}],
                  headers=PATCH)
    for method in ('PUT', 'POST'):
        thief.refused(method, f'/compute/v2.1/images/{mine}/metadata', {'metadata': {name: '<image>'}}, version='2.1')
    assert name not in thief.client.get(f'/image/v2/images/{mine}').json()


def test_own_and_public_images_may_be_named(cloud, users):
    _victim, client = users
    public = cloud.admin().upload_image(name='kernel', visibility='public', disk_format='aki', container_format='aki')
    own = client.upload_image(name='ramdisk', disk_format='ari', container_format='ari')
    root = client.upload_image(name='root', disk_format='ami', container_format='ami', kernel_id=public,
                               ramdisk_id=own)
    made = client.post('/servers', server(root)).json()['server']['id']
    client.wait_for(made)
    shown = cloud.admin('2.96').get(f'/servers/{made}').json()['server']
    assert [shown[f'OS-EXT-SRV-ATTR:{name}'] for name in NAMES] == [public, own]
    answer = client.post(f'/servers/{made}/action', {'createImage': {'name': 'copy'}})
    assert answer.status_code == 202, answer.text
    client.wait_for(made)
    copy = client.get(f'/image/v2/images/{answer.json()["image_id"]}').json()
    assert (copy['kernel_id'], copy['ramdisk_id']) == (public, own)
    assert client.post(f'/servers/{made}/action', {'rebuild': {'imageRef': root}}).status_code == 202
    client.wait_for(made)


def test_a_copy_does_not_name_what_is_gone(users):
    """A server whose kernel is deleted can still be copied, backed up and shelved."""
    _victim, client = users
    kernel = client.upload_image(name='kernel', disk_format='aki', container_format='aki')
    root = client.upload_image(name='root', disk_format='ami', container_format='ami', kernel_id=kernel)
    made = client.post('/servers', server(root)).json()['server']['id']
    client.wait_for(made)
    assert client.delete(f'/image/v2/images/{kernel}').status_code == 204
    for body in ({'createImage': {'name': 'copy'}},
                 {'createBackup': {'name': 'backup', 'backup_type': 'daily', 'rotation': 1}}):
        answer = client.post(f'/servers/{made}/action', body)
        assert answer.status_code == 202, answer.text
        client.wait_for(made)
        copy = client.get(f'/image/v2/images/{answer.json()["image_id"]}').json()
        assert copy['status'] == 'active' and 'kernel_id' not in copy
    assert client.post(f'/servers/{made}/action', {'shelve': None}).status_code == 202
    client.wait_for(made, 'SHELVED_OFFLOADED')


# ---- servers -------------------------------------------------------------------

@pytest.mark.parametrize('name', NAMES)
def test_a_server_of_an_image_that_names_it(users, name):
    """Also where it could be seen when it was written there."""
    image, mine = shared_then_taken_back(users, names=[name])
    answer = users[1].post('/servers', server(mine))
    assert answer.status_code == 400 and image in answer.text, answer.text


def test_a_rebuild_with_an_image_that_names_it(users):
    client = users[1]
    image, mine = shared_then_taken_back(users, names=['ramdisk_id'])
    made = client.post('/servers', server(client.upload_image(name='plain'))).json()['server']['id']
    client.wait_for(made)
    before = client.get(f'/servers/{made}').json()
    answer = client.post(f'/servers/{made}/action', {'rebuild': {'imageRef': mine}})
    assert answer.status_code == 400 and image in answer.text, answer.text
    assert client.get(f'/servers/{made}').json() == before


def test_a_rescue_with_an_image_that_names_it(users, thief):
    client = users[1]
    image, mine = shared_then_taken_back(users, names=['kernel_id'])
    made = client.post('/servers', server(client.upload_image(name='plain'))).json()['server']['id']
    client.wait_for(made)
    answer = client.post(f'/servers/{made}/action', {'rescue': {'rescue_image_ref': mine}})
    assert answer.status_code == 400 and image in answer.text, answer.text
    thief.refused('POST', f'/servers/{made}/action', {'rescue': {'rescue_image_ref': '<image>'}})
    assert client.wait_for(made)


@pytest.mark.parametrize('action', [
    {'createImage': {'name': 'x', 'metadata': {'kernel_id': '<image>'}}},
    {'createBackup': {'name': 'x', 'backup_type': 'daily', 'rotation': 1, 'metadata': {'ramdisk_id': '<image>'}}}])
def test_metadata_of_a_copy_cannot_refer_to_a_foreign_image(thief, action):
    client = thief.client
    made = client.post('/servers', server(client.upload_image(name='plain'))).json()['server']['id']
    client.wait_for(made)
    thief.refused('POST', f'/servers/{made}/action', action)
    assert client.wait_for(made)


def test_a_volume_of_an_image_that_names_it(users):
    """The volume keeps what the image said when the volume was made."""
    client = users[1]
    image, mine = shared_then_taken_back(users, names=['kernel_id', 'ramdisk_id'])
    volume = one(client, '/volume/v3/volumes', 'volume', size=1, imageRef=mine)['id']
    snapshot = one(client, '/volume/v3/snapshots', 'snapshot', volume_id=volume, name='x')['id']
    for source, ident in (('volume', volume), ('snapshot', snapshot), ('image', mine)):
        device = {'boot_index': 0, 'source_type': source, 'destination_type': 'volume', 'uuid': ident,
                  'volume_size': 1}
        answer = client.post('/servers', {'server': {
            'name': 'thief', 'flavorRef': '42', 'networks': 'none', 'block_device_mapping_v2': [device]}})
        assert answer.status_code == 400 and image in answer.text, (source, answer.text)


# ---- block devices ---------------------------------------------------------------

def test_source_images_of_block_devices(thief):
    mine = thief.client.upload_image(name='mine')
    for device in ({'boot_index': -1, 'source_type': 'image', 'destination_type': 'volume', 'uuid': '<image>',
                    'volume_size': 1},
                   {'boot_index': 0, 'source_type': 'image', 'destination_type': 'volume', 'uuid': '<image>',
                    'volume_size': 1}):
        body = server(mine, block_device_mapping_v2=[device])
        thief.refused('POST', '/servers', body)


@pytest.mark.parametrize('source', ['snapshot', 'volume'])
def test_mapping_of_an_image_cannot_use_foreign_volumes(users, source):
    """The property block_device_mapping, which any user can write."""
    victim, client = users
    theirs = one(victim, '/volume/v3/volumes', 'volume', size=1, name='secret')['id']
    if source == 'snapshot':
        theirs = one(victim, '/volume/v3/snapshots', 'snapshot', volume_id=theirs, name='secret')['id']
    for ident in (theirs, MISSING):
        mapping = json.dumps([{'source_type': source, 'destination_type': 'volume', f'{source}_id': ident,
                               'boot_index': 0, 'volume_size': 1}])
        image = client.upload_image(name='mine', block_device_mapping=mapping, bdm_v2='True')
        answer = client.post('/servers', server(image))
        assert answer.status_code == 400, answer.text


# ---- what is stored ----------------------------------------------------------------

def test_an_image_that_is_changed_while_its_server_is_shelved(cloud, users):
    """What the server is made of again is what its row says, not what its image says by then."""
    victim, client = users
    made = client.post('/servers', server(client.upload_image(name='plain'))).json()['server']['id']
    client.wait_for(made)
    assert client.post(f'/servers/{made}/action', {'shelve': None}).status_code == 202
    client.wait_for(made, 'SHELVED_OFFLOADED')
    lent = victim.upload_image(name='lent', visibility='shared')
    members = f'/image/v2/images/{lent}/members'
    assert victim.post(members, {'member': client.project_id}).status_code == 200
    found = client.get('/image/v2/images?visibility=private').json()['images']
    shelved = next(image['id'] for image in found if image.get('instance_uuid') == made)
    answer = client.request('PATCH', f'/image/v2/images/{shelved}', [
        {'op': 'add', 'path': '/ramdisk_id', 'value': lent}], headers=PATCH)
    assert answer.status_code == 200, answer.text
    assert victim.delete(f'{members}/{client.project_id}').status_code == 204
    assert client.post(f'/servers/{made}/action', {'unshelve': None}).status_code == 202
    client.wait_for(made)
    shown = cloud.admin('2.96').get(f'/servers/{made}').json()['server']
    assert shown['OS-EXT-SRV-ATTR:ramdisk_id'] == ''
