"""Images and their metadata through the compute API, as it was until 2.35 and 2.38."""
import pytest

from nova import context
from nova.image.embedded.images import EmbeddedImages
from nova.image.embedded import service as embedded
from nova.tests.functional import base

SERVER = '11111111-2222-3333-4444-555555555555'


@pytest.fixture
def images(api, tmp_path):
    """Three images of the caller, named a, b, c; b is a snapshot."""
    api.services.images = EmbeddedImages(embedded.Store(api.api_db, str(tmp_path / 'images')))
    api.context = context.RequestContext(user_id=base.USER, project_id=base.PROJECT, roles=['member'],
                                         overwrite=False)
    api.ids = {}
    for name in 'abc':
        values = {'name': name, 'disk_format': 'raw', 'container_format': 'bare', 'min_ram': 64, 'min_disk': 1,
                  'properties': {'os': 'linux', **({'instance_uuid': SERVER} if name == 'b' else {})}}
        api.ids[name] = api.services.images.create(api.context, values)['id']
    return api


def _names(client, query=''):
    return sorted(image['name'] for image in client.get('/images' + query).json['images'])


def test_image_proxy_shows_the_server_of_an_image(images):
    image = images.client().get(f'/images/{images.ids["b"]}').json['image']
    assert image['server'] == {'id': SERVER, 'links': [
        {'rel': 'self', 'href': f'http://cloud.test:8774/v2.1/servers/{SERVER}'},
        {'rel': 'bookmark', 'href': f'http://cloud.test:8774/servers/{SERVER}'}]}
    assert (image['status'], image['progress'], image['minRam'], image['minDisk']) == ('SAVING', 25, 64, 1)
    assert image['links'][2]['href'] == f'http://cloud.test:8774/image/v2/images/{images.ids["b"]}'
    assert image['metadata']['os'] == 'linux'
    assert 'server' not in images.client().get(f'/images/{images.ids["a"]}').json['image']


def test_image_proxy_lists_and_filters(images):
    client = images.client()
    assert _names(client) == ['a', 'b', 'c']
    assert _names(client, '?name=a') == ['a']
    assert _names(client, f'?server=http://cloud.test/servers/{SERVER}') == ['b']
    assert _names(client, '?type=snapshot') == ['b']
    assert _names(client, '?status=saving') == ['a', 'b', 'c']
    assert _names(client, '?minRam=65') == []
    assert _names(client, '?property-os=linux&minDisk=1') == ['a', 'b', 'c']
    assert _names(client, '?property-os=bsd') == []
    assert _names(client, '?changes-since=2020-01-01T00:00:00Z') == ['a', 'b', 'c']
    assert _names(client, '?changes-since=2999-01-01T00:00:00Z') == []
    assert _names(client, '?status=ACTIVE&name=a') == [] and _names(client, '?type=base') == ['a', 'c']
    assert _names(client, '?page_size=1') == ['a', 'b', 'c'] and len(_names(client, '?offset=2')) == 1
    assert client.get('/images?changes-since=soon').status == 400
    assert client.get('/images?marker=nothing').status == 400
    assert client.get('/images?minRam=x').status == 400
    assert client.get('/images?limit=0').status == 400


def test_image_proxy_pages_its_list(images):
    body = images.client().get('/images/detail?limit=2').json
    assert len(body['images']) == 2 and 'images_links' in body
    marker = body['images'][-1]['id']
    rest = images.client().get(f'/images/detail?limit=2&marker={marker}').json
    assert len(rest['images']) == 1 and 'images_links' not in rest


def test_image_proxy_hides_images_of_other_projects(images):
    other = images.client(project='b' * 32)
    assert _names(other) == []
    path = f'/images/{images.ids["a"]}'
    for answer in (other.get(path), other.delete(path), other.get(path + '/metadata'),
                   other.put(path + '/metadata', {'metadata': {'a': 'b'}})):
        assert answer.fault[:2] == ('itemNotFound', 404)


def test_image_proxy_deletes_an_image(images):
    path = f'/images/{images.ids["a"]}'
    assert images.client().delete(path).status == 204
    assert images.client().get(path).status == 404
    assert _names(images.client()) == ['b', 'c']


def test_image_proxy_ends_with_its_microversions(images):
    path = f'/images/{images.ids["a"]}'
    assert images.client().get(path, version='2.35').status == 200
    assert images.client().get(path, version='2.36').status == 404
    assert images.client().get(path + '/metadata', version='2.38').status == 200
    assert images.client().get(path + '/metadata', version='2.39').status == 404


def test_image_proxy_changes_metadata(images):
    client, path = images.client(), f'/images/{images.ids["a"]}/metadata'
    assert client.get(path).json['metadata']['os'] == 'linux'
    assert client.post(path, {'metadata': {'k': 'v'}}).json['metadata'] == {'os': 'linux', 'k': 'v'}
    assert client.get(path + '/k').json == {'meta': {'k': 'v'}}
    assert client.put(path + '/k', {'meta': {'k': 'w'}}).json == {'meta': {'k': 'w'}}
    assert client.put(path + '/k', {'meta': {'j': 'w'}}).status == 400
    assert client.delete(path + '/k').status == 204
    assert client.delete(path + '/k').status == 404
    assert client.get(path + '/k').status == 404
    assert client.put(path, {'metadata': {'n': '1'}}).json == {'metadata': {'n': '1'}}
    assert client.get(path).json == {'metadata': {'n': '1'}}


def test_image_proxy_respects_the_metadata_quota(images):
    images.conf.set_override('metadata_items', 2, group='quota')
    path = f'/images/{images.ids["a"]}/metadata'
    assert images.client().post(path, {'metadata': {'x': '1', 'y': '2'}}).fault[:2] == ('forbidden', 403)
    assert images.client().get(path).json == {'metadata': {'os': 'linux'}}
