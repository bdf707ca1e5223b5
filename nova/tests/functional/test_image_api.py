"""The HTTP face of the embedded image service."""
import gzip
import hashlib
import io
import os
import stat
import uuid

import pytest

from nova import exception
from nova.tests import image_corpus as corpus
from nova.tests import image_service as service

OCTETS = 'application/octet-stream'
NOBODY = '6f0d3c1e-2b7a-4c55-9a0e-8d1f4e6b7c90'


@pytest.fixture
def app(tmp_path):
    return service.application(tmp_path)


@pytest.fixture
def alice(app):
    return service.Client(app)


@pytest.fixture
def bob(app):
    return service.Client(app, service.BOB)


@pytest.fixture
def admin(app):
    return service.Client(app, service.ADMIN)


def files(app):
    return sorted(os.listdir(app.api.store.files.directory))


def url(image, more=''):
    return f'/v2/images/{image["id"]}{more}'


def names(answer):
    assert answer.status == 200, answer.body
    return [image['name'] for image in answer.json['images']]


def test_properties_is_a_name_of_a_property_as_others(alice):
    image = alice.create(name='one', properties='{"a": "b"}')
    assert image['properties'] == '{"a": "b"}'
    changed = alice('PATCH', url(image), [{'op': 'remove', 'path': '/properties'}],
                    kind='application/openstack-images-v2.1-json-patch')
    assert 'properties' not in changed.json


# ---- the main path -----------------------------------------------------------

def test_create_upload_download_delete(app, alice):
    data = os.urandom(700000)
    image = alice.create(name='one', min_ram=64, min_disk=1, tags=['a', 'b'], os_distro='debian')
    assert (image['status'], image['size'], image['checksum'], image['owner']) == ('queued', None, None, service.ALICE)
    assert alice('GET', url(image, '/file')).status == 204
    assert alice('PUT', url(image, '/file'), data, kind=OCTETS).status == 204
    image = alice('GET', url(image)).json
    assert image['status'] == 'active' and image['size'] == image['virtual_size'] == len(data)
    assert image['checksum'] == hashlib.md5(data).hexdigest()
    assert (image['os_hash_algo'], image['os_hash_value']) == ('sha512', hashlib.sha512(data).hexdigest())
    assert (image['os_distro'], image['tags'], image['visibility']) == ('debian', ['a', 'b'], 'shared')
    answer = alice('GET', url(image, '/file'))
    assert answer.body == data and answer.headers['content-md5'] == image['checksum']
    assert alice('PUT', url(image, '/file'), data, kind=OCTETS).status == 409
    assert alice('DELETE', url(image)).status == 204
    assert alice('GET', url(image)).status == 404 and files(app) == []


def test_files_are_private_and_named_by_the_store(app, alice):
    alice.create(b'x' * 1000, name='../../etc/passwd')
    name, = files(app)
    path = os.path.join(app.api.store.files.directory, name)
    assert str(uuid.UUID(name)) == name
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(app.api.store.files.directory).st_mode) == 0o700


def test_zeros_take_no_room(app, alice):
    image = alice.create(b'\1' + bytes(8 * 2 ** 20))
    name, = files(app)
    assert os.stat(os.path.join(app.api.store.files.directory, name)).st_blocks * 512 < 2 ** 20
    assert alice('GET', url(image, '/file')).body == b'\1' + bytes(8 * 2 ** 20)


@pytest.mark.parametrize('wanted, status, expected', [
    ('bytes=0-3', 206, b'0123'), ('bytes=4-', 206, b'456789'), ('bytes=-2', 206, b'89'), ('bytes=5-99', 206, b'56789'),
    ('bytes=10-', 416, None), ('bytes=5-4', 416, None), ('bytes=-0', 416, None), ('bytes=-', 416, None),
    ('Bytes=0-3', 206, b'0123'), ('lines=1-2', 200, b'0123456789'), ('bytes=0-1,3-4', 200, b'0123456789')])
def test_range_requests_return_the_requested_bytes(alice, wanted, status, expected):
    answer = alice('GET', url(alice.create(b'0123456789'), '/file'), headers={'Range': wanted})
    assert answer.status == status
    assert expected is None or answer.body == expected


# ---- uploads that fail -------------------------------------------------------

@pytest.mark.parametrize('name, data, declared, reason', corpus.DANGEROUS, ids=[row[0] for row in corpus.DANGEROUS])
def test_dangerous_uploads_leave_nothing(app, alice, name, data, declared, reason):
    container = declared if declared in ('aki', 'ari', 'ami') else 'bare'
    image = alice.create(disk_format=declared, container_format=container)
    answer = alice('PUT', url(image, '/file'), data, kind=OCTETS)
    assert answer.status == 400 and reason in answer.json['message']
    assert alice('GET', url(image)).json['status'] == 'queued' and files(app) == []


def test_the_archive_of_a_container_may_be_compressed(alice):
    packed = gzip.compress(bytes(4096))
    machine, container = alice.create(), alice.create(hypervisor_type='lxc')
    answer = alice('PUT', url(machine, '/file'), packed, kind=OCTETS)
    assert answer.status == 400 and 'its data is compressed with gzip' in answer.json['message']
    assert alice('PUT', url(container, '/file'), packed, kind=OCTETS).status == 204


@pytest.mark.parametrize('how', [{}, {'CONTENT_LENGTH': '', 'HTTP_TRANSFER_ENCODING': 'chunked'}],
                         ids=['length', 'chunks'])
def test_an_upload_without_data_makes_an_active_image(alice, how):
    """``openstack image create`` without a terminal uploads its empty standard input."""
    image = alice.create()
    assert alice('PUT', url(image, '/file'), b'', kind=OCTETS, environ=how).status == 204
    image = alice('GET', url(image)).json
    assert (image['status'], image['size'], image['virtual_size']) == ('active', 0, 0)
    assert image['checksum'] == hashlib.md5().hexdigest()
    answer = alice('GET', url(image, '/file'))
    assert (answer.status, answer.body) == (200, b'')
    disk = alice.create(disk_format='qcow2')
    assert alice('PUT', url(disk, '/file'), b'', kind=OCTETS).status == 400
    assert alice('GET', url(disk)).json['status'] == 'queued'


class Broken(io.BytesIO):
    def read(self, size=-1):
        if self.tell() > 500000:
            raise ConnectionResetError('peer')
        return super().read(size)


@pytest.mark.parametrize('source', [io.BytesIO(b'x' * 600000), Broken(b'x' * 2000000)], ids=['short', 'reset'])
def test_upload_that_breaks_off_can_be_done_again(app, alice, source):
    image = alice.create()
    answer = alice('PUT', url(image, '/file'), b'', kind=OCTETS,
                   environ={'wsgi.input': source, 'CONTENT_LENGTH': '2000000'})
    assert answer.status == 400
    assert alice('GET', url(image)).json['status'] == 'queued' and files(app) == []
    assert alice('PUT', url(image, '/file'), b'whole', kind=OCTETS).status == 204


def test_data_that_is_known_to_be_too_large_is_not_read(tmp_path):
    """A service read a volume up to the limit, and refused it then."""
    app = service.application(tmp_path, max_size=1000)
    image, data = service.Client(app).create(), iter([b'x' * 1000, b'x'])
    with pytest.raises(exception.TooLarge):
        app.api.store.upload(service.caller(service.ALICE), image['id'], data, 1001)
    assert len(list(data)) == 2 and service.Client(app)('GET', url(image)).json['status'] == 'queued'


def test_upload_bounds_and_types(tmp_path):
    client = service.Client(service.application(tmp_path, max_size=1000))
    image = client.create()
    assert client('PUT', url(image, '/file'), b'x' * 1001, kind=OCTETS).status == 413
    answer = client('PUT', url(image, '/file'), b'', kind=OCTETS, environ={
        'wsgi.input': io.BytesIO(b'x' * 1001), 'CONTENT_LENGTH': '', 'HTTP_TRANSFER_ENCODING': 'chunked'})
    assert answer.status == 413
    assert client('PUT', url(image, '/file'), b'x').status == 415
    for size in ('5', '-1', 'x', '9' * 5000):
        answer = client('PUT', url(image, '/file'), b'x' * 10, kind=OCTETS, headers={'X-OpenStack-Image-Size': size})
        assert answer.status == 400
    assert client('GET', url(image)).json['status'] == 'queued'
    assert client('PUT', url(image, '/file'), b'x' * 1000, kind=OCTETS).status == 204


def test_upload_needs_formats(alice):
    image = alice('POST', '/v2/images', {'name': 'n'}).json
    assert alice('PUT', url(image, '/file'), b'x', kind=OCTETS).status == 400


class DeletesMeanwhile(io.BytesIO):
    def __init__(self, data, action):
        super().__init__(data)
        self.action = action

    def read(self, size=-1):
        action, self.action = self.action, None
        if action:
            action()
        return super().read(min(size, 1000))


def test_image_deleted_while_it_is_uploaded(app, alice):
    image = alice.create()
    source = DeletesMeanwhile(b'x' * 5000, lambda: alice('DELETE', url(image)))
    answer = alice('PUT', url(image, '/file'), b'', kind=OCTETS,
                   environ={'wsgi.input': source, 'CONTENT_LENGTH': '5000'})
    assert answer.status == 410 and files(app) == []


def test_second_upload_meanwhile_is_refused(alice):
    image = alice.create()
    seen = []
    source = DeletesMeanwhile(b'x' * 5000, lambda: seen.append(
        (alice('PUT', url(image, '/file'), b'y', kind=OCTETS).status, alice('GET', url(image)).json['status'])))
    answer = alice('PUT', url(image, '/file'), b'', kind=OCTETS,
                   environ={'wsgi.input': source, 'CONTENT_LENGTH': '5000'})
    assert answer.status == 204 and seen == [(409, 'saving')]


# ---- who sees what -----------------------------------------------------------

def test_private_images_do_not_exist_for_others(app, alice, bob, admin):
    image = alice.create(b'secret', name='mine', visibility='private')
    for method, more, body in (('GET', '', None), ('DELETE', '', None), ('GET', '/file', None),
                               ('GET', '/members', None), ('PUT', '/tags/x', None), ('GET', '/members/x', None),
                               ('POST', '/members', {'member': 'x'}), ('POST', '/actions/deactivate', None)):
        assert bob(method, url(image, more), body).status == 404, (method, more)
    assert bob('PUT', url(image, '/file'), b'x', kind=OCTETS).status == 404
    assert bob.patch(url(image), ('replace', '/name', 'x')).status == 404
    assert names(bob('GET', '/v2/images')) == names(bob('GET', f'/v2/images?owner={service.ALICE}')) == []
    assert bob('GET', f'/v2/images?marker={image["id"]}').status == 400
    assert admin('GET', url(image)).status == 200
    assert alice('GET', url(image, '/file')).body == b'secret'


def test_public_images_are_readable_and_not_writable(alice, bob, admin):
    image = admin.create(b'data', name='pub', visibility='public')
    assert alice('GET', url(image, '/file')).body == b'data' and names(bob('GET', '/v2/images')) == ['pub']
    assert alice('DELETE', url(image)).status == 403
    assert alice.patch(url(image), ('replace', '/name', 'x')).status == 403
    assert alice('POST', '/v2/images', {'visibility': 'public'}).status == 403
    mine = alice.create(b'1')
    assert alice.patch(url(mine), ('replace', '/visibility', 'public')).status == 403
    assert alice.patch(url(mine), ('replace', '/owner', service.BOB)).status == 403
    assert alice('POST', '/v2/images', {'owner': service.BOB}).status == 403


def test_community_images_are_listed_only_on_request(alice, bob):
    image = alice.create(b'1', name='ours', visibility='community')
    assert bob('GET', url(image)).status == 200
    assert names(bob('GET', '/v2/images')) == []
    assert names(bob('GET', '/v2/images?visibility=community')) == ['ours']


def test_image_members_accept_a_shared_image(alice, bob, app):
    image = alice.create(b'1', name='shared')
    carol = service.Client(app, 'carol-project')
    member = alice('POST', url(image, '/members'), {'member': service.BOB})
    assert member.status == 200 and member.json['status'] == 'pending'
    assert alice('POST', url(image, '/members'), {'member': service.BOB}).status == 409
    assert alice('POST', url(image, '/members'), {'member': 'a/b'}).status == 400
    assert bob('GET', url(image)).status == 200 and names(bob('GET', '/v2/images')) == []
    assert names(bob('GET', '/v2/images?member_status=all&visibility=shared')) == ['shared']
    assert alice('PUT', url(image, f'/members/{service.BOB}'), {'status': 'accepted'}).status == 403
    assert bob('PUT', url(image, f'/members/{service.BOB}'), {'status': 'maybe'}).status == 400
    assert bob('PUT', url(image, f'/members/{service.BOB}'), {'status': 'accepted'}).json['status'] == 'accepted'
    assert names(bob('GET', '/v2/images')) == ['shared']
    assert bob('POST', url(image, '/members'), {'member': 'carol-project'}).status == 403
    assert bob('DELETE', url(image, f'/members/{service.BOB}')).status == 403
    assert bob('DELETE', url(image)).status == 403
    alice('POST', url(image, '/members'), {'member': 'carol-project'})
    assert [row['member_id'] for row in bob('GET', url(image, '/members')).json['members']] == [service.BOB]
    assert len(alice('GET', url(image, '/members')).json['members']) == 2
    assert bob('GET', url(image, '/members/carol-project')).status == 404
    assert carol('GET', url(image, '/members/carol-project')).status == 200
    assert alice('DELETE', url(image, f'/members/{service.BOB}')).status == 204
    assert bob('GET', url(image)).status == 404
    alice.patch(url(image), ('replace', '/visibility', 'private'))
    assert carol('GET', url(image)).status == 404
    assert alice('POST', url(image, '/members'), {'member': 'x'}).status == 403


def test_readers_change_nothing(app, alice):
    image = alice.create(b'1', protected=False)
    reader = service.Client(app, service.ALICE, roles=('reader',))
    assert reader('GET', url(image)).status == 200
    for answer in (reader('GET', url(image, '/file')), reader('POST', url(image, '/actions/deactivate')),
                   reader('POST', '/v2/images', {}), reader('DELETE', url(image)), reader('PUT', url(image, '/tags/t')),
                   reader.patch(url(image), ('replace', '/name', 'x'))):
        assert answer.status == 403


def test_image_requests_without_a_token_return_401(app, alice):
    nobody = service.Client(app, None)
    assert nobody('GET', '/v2/images').status == nobody('POST', '/v2/images', {}).status == 401
    assert nobody('GET', '/').status == 300 and nobody('GET', '/versions').status == 200


def test_protected_image_cannot_be_deleted_and_deactivated_not_read(alice, admin):
    image = alice.create(b'1', protected=True)
    assert alice('DELETE', url(image)).status == 403
    assert alice('POST', url(image, '/actions/deactivate')).status == 204
    assert alice('GET', url(image)).json['status'] == 'deactivated'
    assert alice('GET', url(image, '/file')).status == 403 and admin('GET', url(image, '/file')).status == 200
    assert admin('POST', url(image, '/actions/reactivate')).status == 204
    assert alice('GET', url(image, '/file')).body == b'1'
    assert alice('POST', url(alice.create(), '/actions/deactivate')).status == 403
    alice.patch(url(image), ('replace', '/protected', False))
    assert alice('DELETE', url(image)).status == 204


def test_an_id_never_gets_a_second_meaning(alice, bob):
    image = alice.create(id=NOBODY)
    assert image['id'] == NOBODY
    assert bob('POST', '/v2/images', {'id': NOBODY}).status == 409
    alice('DELETE', url(image))
    assert bob('POST', '/v2/images', {'id': NOBODY.upper()}).status == 409


# ---- changes -----------------------------------------------------------------

def test_json_patch_changes_image_properties(alice):
    image = alice.create(b'1', name='a', color='red', tags=['x'])
    answer = alice.patch(url(image), ('replace', '/name', 'b'), ('add', '/size_of~1it~0', 'big'),
                         ('replace', '/tags', ['y', 'y', 'z']), ('remove', '/color'), ('add', '/min_ram', 5))
    assert answer.status == 200, answer.body
    changed = answer.json
    assert (changed['name'], changed['size_of/it~'], changed['tags'], changed['min_ram']) == ('b', 'big', ['y', 'z'], 5)
    assert 'color' not in changed and changed == alice('GET', url(image)).json
    old = alice('PATCH', url(image), [{'replace': '/name', 'value': 'c'}],
                kind='application/openstack-images-v2.0-json-patch')
    assert old.json['name'] == 'c'


@pytest.mark.parametrize('operation, status', [
    (('replace', '/status', 'active'), 403), (('replace', '/size', 1), 403), (('remove', '/name'), 403),
    (('replace', '/id', NOBODY), 403), (('add', '/locations', []), 403), (('add', '/data_id', 'x'), 403),
    (('replace', '/missing', 'x'), 409), (('remove', '/missing'), 409), (('replace', '/disk_format', 'iso'), 403),
    (('add', '/p', 1), 400), (('add', '/p', None), 400), (('add', '/p', 'a\0b'), 400),
    (('add', '/p', 'x' * 65536), 400), (('add', '/' + 'k' * 256, 'x'), 400), (('add', '/a/b', 'x'), 400),
    (('add', 'a', 'x'), 400), (('add', '/', 'x'), 400),
    (('add', '/a~2', 'x'), 400), (('move', '/a', 'x'), 400), (('add', '/a'), 400), (('replace', '/min_ram', -1), 400),
    (('replace', '/min_ram', 2 ** 31), 400), (('replace', '/min_ram', 2 ** 70), 400), (('replace', '/name', 5), 400),
    (('replace', '/name', 'n' * 256), 400), (('replace', '/tags', ['t' * 256]), 400), (('replace', '/tags', 'x'), 400),
    (('replace', '/protected', 'yes'), 400), (('replace', '/visibility', 'secret'), 400),
    (('add', '/kernel_id', '../etc/passwd'), 400)])
def test_patches_that_are_refused_change_nothing(alice, operation, status):
    image = alice.create(b'1', name='a')
    assert alice.patch(url(image), ('replace', '/os_hidden', True), operation).status == status
    assert alice('GET', url(image)).json == image


def test_patch_needs_the_json_patch_media_type(alice):
    image = alice.create()
    assert alice('PATCH', url(image), []).status == 415
    kind = 'application/openstack-images-v2.1-json-patch'
    for body in (b'{', b'{}', b'[1]', b'[{"op":"add"}]', b'\xff'):
        assert alice('PATCH', url(image), body, kind=kind).status == 400, body
    for body in (b'[]', b'"x"', b'{"name":"\\ud800"}', b'', b'{"min_disk":1e999}'):
        assert alice('POST', '/v2/images', body).status == 400, body
    assert alice('POST', '/v2/images', b'x' * (1024 * 1024 + 1)).status == 413
    assert alice('POST', '/v2/images', b'{}', kind='text/xml').status == 415
    assert alice('PUT', '/v2/images').status == 405
    assert alice('GET', '/v2/nothing').status == 404


@pytest.mark.parametrize('body, status', [
    ({'disk_format': 'qed'}, 400), ({'container_format': 'docker'}, 400), ({'id': '../x'}, 400), ({'id': 5}, 400),
    ({'status': 'active'}, 403), ({'size': 5}, 403), ({'locations': []}, 403), ({'checksum': 'x'}, 403),
    ({'disk_format': 'aki', 'container_format': 'bare'}, 400), ({'p%d' % n: 'x' for n in range(129)}, 413),
    ({'tags': ['t%d' % n for n in range(129)]}, 400), ({'': 'x'}, 400), ({'name': '\0'}, 400)])
def test_creates_that_are_refused(alice, body, status):
    assert alice('POST', '/v2/images', body).status == status
    assert names(alice('GET', '/v2/images')) == []


@pytest.mark.parametrize('bad', ['..', '%2e%2e%2f%2e%2e%2fetc%2fpasswd', 'x', '%00', '%ff', '../../api.sqlite',
                                 '{%s}' % NOBODY, NOBODY.replace('-', ''), 'urn:uuid:' + NOBODY, 'x' * 5000])
def test_invalid_image_ids_return_404(alice, bad):
    for more in ('', '/file', '/members'):
        assert alice('GET', f'/v2/images/{bad}{more}').status == 404
    assert alice('DELETE', f'/v2/images/{bad}').status == 404


def test_image_tags_are_added_and_removed(alice):
    image = alice.create()
    assert alice('PUT', url(image, '/tags/blue')).status == 204
    assert alice('PUT', url(image, '/tags/blue')).status == 204
    assert alice('GET', url(image)).json['tags'] == ['blue']
    assert alice('PUT', url(image, '/tags/' + 't' * 256)).status == 400
    assert alice('DELETE', url(image, '/tags/blue')).status == 204
    assert alice('DELETE', url(image, '/tags/blue')).status == 404


# ---- listings ----------------------------------------------------------------

@pytest.fixture
def several(alice):
    return [alice.create(b'x' * (10 * n) if n else None, name=f'n{n % 3}', tags=[f't{n % 2}', 'all'], group=str(n % 2))
            for n in range(6)]


@pytest.mark.parametrize('query, expected', [
    ('', [5, 4, 3, 2, 1, 0]), ('name=n1', [4, 1]), ('name=in:n0,n2', [5, 3, 2, 0]), ('name=in:"n0","n,9"', [3, 0]),
    ('status=queued', [0]), ('tag=t1', [5, 3, 1]), ('tag=t1&tag=all', [5, 3, 1]), ('tag=t1&tag=t0', []),
    ('group=1', [5, 3, 1]), ('group=7', []), ('nothing=1', []), ('size_min=30', [5, 4, 3]), ('size_max=20', [2, 1]),
    ('visibility=private', []), ('visibility=shared', [5, 4, 3, 2, 1, 0]), ('disk_format=in:iso,vdi', []),
    ('container_format=bare&limit=2', [5, 4]), ('sort=size:asc', [0, 1, 2, 3, 4, 5]), ('os_hidden=true', []),
    ('sort_key=name&sort_key=size&sort_dir=asc&sort_dir=desc', [3, 0, 4, 1, 5, 2]), ('protected=False&limit=1', [5]),
    ('created_at=gt:2020-01-01T00:00:00Z&size=10', [1]), ('created_at=lt:2020-01-01T00:00:00', []), ('limit=0', []),
    ('sort=name:asc,size:asc&limit=3', [0, 3, 1])])
def test_images_are_filtered_and_sorted(alice, several, query, expected):
    ids = [image['id'] for image in several]
    assert [ids.index(image['id']) for image in alice('GET', f'/v2/images?{query}').json['images']] == expected


@pytest.mark.parametrize('query', [
    'limit=-1', 'limit=x', 'size_min=' + '9' * 30, 'visibility=x', 'sort=secret:asc', 'sort=name:up', 'sort_key=x',
    'marker=' + NOBODY, 'marker=x', 'os_hidden=maybe', 'created_at=yesterday', 'name=in:"a', 'member_status=x',
    'name=%00', 'name=%ff', '&'.join(f'p{n}=1' for n in range(100)), 'sort_dir=asc&sort_dir=asc', 'size=%C2%B2'])
def test_invalid_image_queries_return_400(alice, query):
    assert alice('GET', f'/v2/images?{query}').status == 400


@pytest.mark.parametrize('query', ['limit=2', 'limit=2&sort=name:asc', 'limit=2&sort=size:desc', 'limit=4&sort=status'])
def test_images_are_paged(alice, several, query):
    whole = [image['id'] for image in alice('GET', '/v2/images?' + query.replace('limit=', 'limit=9')).json['images']]
    found, link = [], f'/v2/images?{query}'
    while link:
        page = alice('GET', link).json
        assert page['first'].startswith('/v2/images?limit=') and page['schema'] == '/v2/schemas/images'
        found += [image['id'] for image in page['images']]
        link = page.get('next')
    assert found == whole and len(set(found)) == 6


def test_hidden_images_are_listed_on_request_only(alice):
    image = alice.create(name='old', os_hidden=True)
    assert names(alice('GET', '/v2/images')) == [] and names(alice('GET', '/v2/images?os_hidden=True')) == ['old']
    assert alice('GET', url(image)).status == 200


def test_image_api_serves_versions_and_schemas(alice):
    assert alice('GET', '/').json['versions'][0]['links'][0]['href'] == 'http://cloud.test/image/v2/'
    for name in ('image', 'images', 'member', 'members'):
        assert alice('GET', f'/v2/schemas/{name}').json['name'] == name
    assert alice('GET', '/v2/schemas/x').status == 404
    assert alice('GET', '/v2/info/import').json['import-methods']['value'] == ['glance-direct', 'web-download']
    assert len(alice('GET', '/v2/info/stores').json['stores']) == 1
