"""Bytes of images: what a project may have, and what the disk keeps back for everybody else."""
import http.client
import os
import threading
import time
import urllib.parse

import pytest

from nova import exception
from nova.tests import image_service as service
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.waiting import wait_for

MIB = 2 ** 20
OCTETS = {'Content-Type': 'application/octet-stream'}
RAW = {'name': 'test', 'disk_format': 'raw', 'container_format': 'bare'}
MORE_THAN_ANY_DISK = 16777216          # MiB


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud'), quota__image_size_total=3,
                               quota__image_count_total=5, quota__image_count_uploading=2) as made:
        yield made


@pytest.fixture
def user(cloud):
    """A member of a project whose images are gone afterwards."""
    found = cloud.client()
    yield found
    for image in found.get('/image/v2/images?visibility=private').json()['images'] + found.get(
            f'/image/v2/images?owner={found.project_id}').json()['images']:
        found.delete(f'/image/v2/images/{image["id"]}')
    wait_for(lambda: usage(found)['image_size_total']['usage'] == 0)


def usage(user):
    answer = user.get('/image/v2/info/usage')
    assert answer.status_code == 200, answer.text
    return answer.json()['usage']


def queued(user):
    answer = user.post('/image/v2/images', RAW)
    assert answer.status_code == 201, answer.text
    return answer.json()['id']


def send(user, image_id, data):
    return user.request('PUT', f'/image/v2/images/{image_id}/file', data=data, headers=OCTETS)


def status(user, image_id):
    return user.get(f'/image/v2/images/{image_id}').json()['status']


class Upload:
    """An upload that stands still after its first bytes, of which there are more than the server gathers.

    :param length: that it declares; None: it comes in chunks
    """

    def __init__(self, user, image_id, length, first=b'x' * (MIB + 1)):
        self.length = length
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(user.url).netloc, timeout=20)
        self.connection.putrequest('PUT', f'/image/v2/images/{image_id}/file')
        how = ('Transfer-Encoding', 'chunked') if length is None else ('Content-Length', str(length))
        for name, value in (('X-Auth-Token', user.token), *OCTETS.items(), how):
            self.connection.putheader(name, value)
        self.connection.endheaders()
        self.send(first)
        wait_for(lambda: status(user, image_id) == 'saving')

    def send(self, data):
        self.connection.send(data if self.length is not None else b'%x\r\n%s\r\n' % (len(data), data))

    def answer(self):
        if self.length is None:
            self.connection.send(b'0\r\n\r\n')
        return self.connection.getresponse().status


def test_usage_is_that_of_the_image_api(user):
    assert usage(user) == {
        'image_size_total': {'limit': 3, 'usage': 0}, 'image_count_total': {'limit': 5, 'usage': 0},
        'image_count_uploading': {'limit': 2, 'usage': 0}, 'image_stage_total': {'limit': 3, 'usage': 0}}
    user.upload_image(b'x' * (MIB + 1))
    assert usage(user)['image_size_total'] == {'limit': 3, 'usage': 2}
    assert usage(user)['image_count_total'] == {'limit': 5, 'usage': 1}


@pytest.mark.parametrize('form', [lambda data: data, lambda data: iter([data[:MIB], data[MIB:]])],
                         ids=['declared', 'chunked'])
def test_more_bytes_than_a_project_may_have(user, form):
    image_id = queued(user)
    answer = send(user, image_id, form(os.urandom(3 * MIB + 1)))
    assert answer.status_code == 413, answer.text
    assert 'image_size_total' in answer.json()['message']
    assert status(user, image_id) == 'queued' and usage(user)['image_size_total']['usage'] == 0
    assert send(user, image_id, form(os.urandom(3 * MIB))).status_code == 204
    assert send(user, queued(user), b'x').status_code == 413
    user.delete(f'/image/v2/images/{image_id}')
    assert usage(user)['image_size_total']['usage'] == 0


@pytest.mark.parametrize('length', [2 * MIB, None], ids=['declared', 'chunked'])
def test_two_uploads_at_once_do_not_both_pass(user, length):
    first, second = queued(user), queued(user)
    going = Upload(user, first, length)
    wait_for(lambda: usage(user)['image_size_total']['usage'] >= 2)
    assert usage(user)['image_count_uploading']['usage'] == 1
    assert send(user, second, b'x' * (2 * MIB)).status_code == 413
    going.send(b'x' * (MIB - 1))
    assert going.answer() == 204
    assert usage(user)['image_size_total']['usage'] == 2 and status(user, second) == 'queued'
    assert send(user, second, b'x' * MIB).status_code == 204


def test_many_uploads_at_once_get_what_there_is(user):
    images, codes = [queued(user) for _ in range(5)], []

    def upload(image_id):
        while (code := send(user, image_id, os.urandom(MIB - 1000)).status_code) == 413 and 204 not in codes:
            time.sleep(0.01)                 # two at a time: the others try again
        codes.append(code)
    threads = [threading.Thread(target=upload, args=(image_id,)) for image_id in images]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for image_id in images:
        if status(user, image_id) == 'queued':
            send(user, image_id, os.urandom(MIB - 1000))
    assert sorted(status(user, image_id) for image_id in images) == ['active'] * 3 + ['queued'] * 2
    assert usage(user)['image_size_total']['usage'] == 3


@pytest.mark.parametrize('length', [2 * MIB, None], ids=['declared', 'chunked'])
def test_an_interrupted_upload_gives_its_bytes_back(user, length):
    image_id = queued(user)
    going = Upload(user, image_id, length)
    wait_for(lambda: usage(user)['image_size_total']['usage'] >= 1)
    going.connection.close()
    wait_for(lambda: status(user, image_id) == 'queued')
    assert usage(user)['image_size_total']['usage'] == 0
    assert send(user, image_id, b'x' * (3 * MIB)).status_code == 204


def test_an_image_that_is_deleted_while_it_comes_stops_its_upload(user):
    image_id = queued(user)
    going = Upload(user, image_id, 3 * MIB)
    assert user.delete(f'/image/v2/images/{image_id}').status_code == 204
    assert usage(user)['image_size_total']['usage'] == 0
    going.send(b'x' * (2 * MIB - 1))
    assert going.answer() == 410


def test_images_and_uploads_are_counted(user):
    images = [queued(user) for _ in range(5)]
    assert user.post('/image/v2/images', RAW).status_code == 413
    going = [Upload(user, image_id, MIB + 11) for image_id in images[:2]]
    answer = send(user, images[2], b'x')
    assert answer.status_code == 413 and 'image_count_uploading' in answer.json()['message']
    for each in going:
        each.send(b'x' * 10)
        assert each.answer() == 204
    assert send(user, images[2], b'x').status_code == 204


def test_a_snapshot_counts_for_its_project(user):
    server = user.boot(user.upload_image(b'x' * 1024))
    user.wait_for(server['id'])
    before = user.upload_image(b'x' * (3 * MIB - 1024))
    answer = user.post(f'/servers/{server["id"]}/action', {'createImage': {'name': 'copy'}})
    assert answer.status_code == 202
    user.wait_for(server['id'])
    assert not [each for each in user.get('/image/v2/images').json()['images'] if each['name'] == 'copy']
    action = user.get(f'/servers/{server["id"]}/os-instance-actions').json()['instanceActions'][0]
    assert (action['action'], action['message']) == ('createImage', 'Error')
    user.delete(f'/image/v2/images/{before}')
    assert user.post(f'/servers/{server["id"]}/action', {'createImage': {'name': 'copy'}}).status_code == 202
    user.wait_for(server['id'])
    copy, = [each for each in user.get('/image/v2/images').json()['images'] if each['name'] == 'copy']
    assert copy['status'] == 'active'
    user.delete(f'/servers/{server["id"]}')


def test_a_restart_counts_no_upload_that_it_cut_off(tmp_path):
    store, ctx = service.store(tmp_path), service.caller(service.ALICE)
    image_id = store.create(ctx, {'disk_format': 'raw', 'container_format': 'bare'})['id']

    def chunks():
        yield b'x' * 1000
        assert store.usage(ctx)['image_size_total'][1] == 5000
        again = service.store(tmp_path)          # another process has taken over
        assert again.usage(ctx)['image_size_total'][1] == 0
        yield b'x' * 5000
    with pytest.raises(exception.Gone):
        store.upload(ctx, image_id, chunks(), 5000)
    assert store.usage(ctx)['image_size_total'][1] == 0 and store.show(ctx, image_id)['status'] == 'queued'


# ---- the disk's reserve ------------------------------------------------------

def test_a_full_disk_stops_uploads_and_snapshots_and_nothing_else(tmp_path):
    with cloud_fixture.running(tmp_path, image__free_disk_reserve=0) as made:
        image_id = made.client().upload_image()
    with cloud_fixture.running(tmp_path, image__free_disk_reserve=MORE_THAN_ANY_DISK) as made:
        user = made.client()
        server = user.boot(image_id)
        user.wait_for(server['id'])
        answer = send(user, queued(user), b'x')
        assert answer.status_code == 507
        assert answer.json()['message'] == exception.InsufficientStorage.template
        for body in ({'createImage': {'name': 'copy'}},
                     {'createBackup': {'name': 'copy', 'backup_type': 'daily', 'rotation': 1}}):
            assert user.post(f'/servers/{server["id"]}/action', body).status_code == 202
            user.wait_for(server['id'])
            assert not [each for each in user.get('/image/v2/images').json()['images'] if each['name'] == 'copy']
        assert user.post('/os-keypairs', {'keypair': {'name': 'mine'}}).status_code == 200
        assert user.post('/volume/v3/volumes', {'volume': {'size': 1}}).status_code == 202
        assert user.post(f'/servers/{server["id"]}/action', {'reboot': {'type': 'HARD'}}).status_code == 202
        user.wait_for(server['id'])
        assert user.get(f'/image/v2/images/{image_id}/file').status_code == 200
        assert user.delete(f'/servers/{server["id"]}').status_code == 204
        user.wait_for(server['id'], 'DELETED')


def test_limits_of_keystone_apply_to_images(cloud, user):
    admin = cloud.admin()
    service = admin.get('/identity/v3/services?type=image').json()['services'][0]['id']
    registered = admin.get(f'/identity/v3/registered_limits?service_id={service}').json()['registered_limits']
    assert {row['resource_name']: row['default_limit'] for row in registered} == {
        'image_size_total': 3, 'image_count_total': 5, 'image_count_uploading': 2}
    limit = {'service_id': service, 'resource_name': 'image_size_total', 'resource_limit': 1}

    def create(**more):
        return admin.post('/identity/v3/limits', {'limits': [{**limit, **more}]})
    made = create(project_id=user.project_id)
    assert made.status_code == 201, made.text
    path = f'/identity/v3/limits/{made.json()["limits"][0]["id"]}'
    try:
        assert usage(user)['image_size_total']['limit'] == usage(user)['image_stage_total']['limit'] == 1
        refused = send(user, queued(user), b'x' * (MIB + 1))
        assert refused.status_code == 413 and 'image_size_total' in refused.json()['message']
        assert create(project_id=user.project_id).status_code == 409
        for wrong in ({'domain_id': 'default'}, {'project_id': user.project_id, 'resource_name': 'image_stage_total'},
                      {'project_id': user.project_id, 'region_id': 'RegionOne'}):
            assert create(**wrong).status_code == 400
        assert admin.request('PATCH', path, {'limit': {'resource_limit': 2}}).status_code == 200
        assert send(user, queued(user), b'x' * (MIB + 1)).status_code == 204
        assert user.get('/identity/v3/limits').json()['limits'][0]['resource_limit'] == 2
    finally:
        assert admin.delete(path).status_code == 204
    assert usage(user)['image_size_total']['limit'] == 3
    given = {'service_id': service, 'region_id': 'RegionOne', 'resource_name': 'image_size_total', 'default_limit': 1}
    assert admin.post('/identity/v3/registered_limits', {'registered_limits': [given]}).status_code == 403
    one = '/identity/v3/registered_limits/image_size_total'
    assert admin.request('PATCH', one, {'registered_limit': {'default_limit': 1}}).status_code == 403
    assert admin.delete(one).status_code == 403 and admin.get(one).json()['registered_limit'] == registered[0]
