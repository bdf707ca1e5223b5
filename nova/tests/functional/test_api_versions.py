"""Version documents, multiple choices, redirects, suffixes, and versions named by a media type."""
import pytest

from nova import version as product
from nova.api import app
from nova.api import versions
from nova.tests.functional import base

ROOT = 'http://cloud.test:8774'


def _environ(path, script=''):
    return {'PATH_INFO': path, 'SCRIPT_NAME': script}


def _at_root(api, path, **more):
    return api.client(prefix='').get(path, **more)


@pytest.mark.parametrize('path', ['/servers', f'/{base.PROJECT}/servers/1', '/v3/servers', '/servers.json',
                                  '/a%2Fb%20c'])
def test_a_path_without_a_version_has_several(api, path):
    answer = api.client(prefix='', project=None).get(path)
    assert answer.status == 300
    old, new = answer.json['choices']
    assert (old['id'], old['status'], new['id'], new['status']) == ('v2.0', 'SUPPORTED', 'v2.1', 'CURRENT')
    shown = path.replace('%2F', '/')
    assert old['links'] == [{'rel': 'self', 'href': f'{ROOT}/v2{shown}'}]
    assert new['links'] == [{'rel': 'self', 'href': f'{ROOT}/v2.1{shown}'}]
    assert new['media-types'] == [{'base': 'application/json',
                                   'type': 'application/vnd.openstack.compute+json;version=2.1'}]
    assert api.client(prefix='').post(path, {}).status == 300


@pytest.mark.parametrize('media_type, base_path', [
    ('application/vnd.openstack.compute.v2+json', 'v2'), ('application/vnd.openstack.compute.v2.1+json', 'v2.1'),
    ('text/html, application/vnd.openstack.compute+json;version=2.1;q=0.5', 'v2.1')])
def test_a_media_type_names_the_version(api, media_type, base_path):
    api.admin().post('/flavors', {'flavor': {'id': 'f', 'name': 'f', 'ram': 1, 'vcpus': 1, 'disk': 1}})
    answer = _at_root(api, f'/{base.PROJECT}/flavors/f', headers={'Accept': media_type})
    assert answer.status == 200
    assert answer.json['flavor']['links'][0]['href'] == f'{ROOT}/{base_path}/{base.PROJECT}/flavors/f'
    bookmark = answer.json['flavor']['links'][1]['href']
    assert _at_root(api, bookmark.removeprefix(ROOT), headers={'Accept': media_type}).status == 200
    # what the path says counts
    answer = api.client().get('/flavors/f', headers={'Accept': media_type})
    assert answer.json['flavor']['links'][0]['href'].startswith(f'{ROOT}/v2.1/')


@pytest.mark.parametrize('media_type', ['application/vnd.openstack.compute.v9+json', 'application/json', '*/*',
                                        'application/vnd.openstack.compute.v2.1+jsonx', 'x' * 5000])
def test_other_media_types_name_none(api, media_type):
    assert _at_root(api, '/flavors', headers={'Accept': media_type}).status == 300


def test_a_media_type_needs_a_token_all_the_same(api):
    accept = {'Accept': 'application/vnd.openstack.compute.v2.1+json'}
    for path in ('/flavors', f'/{base.PROJECT}/flavors'):
        assert api.client(prefix='', project=None).get(path, headers=accept).status == 401


@pytest.mark.parametrize('path, version', [
    ('/v2.1/', 'v2.1'), ('/v2/', 'v2.0'), ('/v2.1/.json', 'v2.1'), ('/v2/.json', 'v2.0'),
    ('/versions/v2.1', 'v2.1'), ('/versions/v2.1.json', 'v2.1')])
def test_version_documents_have_their_version(api, path, version):
    answer = api.client(prefix='', project=None).get(path)
    assert answer.status == 200 and answer.json['version']['id'] == version


@pytest.mark.parametrize('path, version', [('/v2.1/versions/v2.0', 'v2.0'), ('/v2.1/versions/v2.1.json', 'v2.1')])
def test_documents_below_a_version_need_a_token(api, path, version):
    assert api.client(prefix='', project=None).get(path).status == 401
    answer = api.client(prefix='').get(path)
    assert answer.status == 200 and answer.json['version']['id'] == version


@pytest.mark.parametrize('path', ['/v2/', '/v2.1/'])
def test_programs_find_the_description(api, path):
    client = api.client(prefix='', project=None)
    links = client.get(path).json['version']['links']
    described = [link for link in links if link['rel'] == 'describedby']
    assert [link['type'] for link in described] == ['text/html', 'application/json']
    answer = client.get(described[1]['href'].removeprefix(ROOT))
    assert answer.status == 200 and answer.json['openapi'] == '3.1.0'
    assert answer.json['info']['version'] == '2.1'


@pytest.mark.parametrize('version', ['2.1', '2.60', versions.text(versions.MAX_VERSION)])
def test_openapi_document_is_served_at_each_microversion(api, version):
    """It asked for a token, or was not there, below a version."""
    answer = api.client(prefix='', project=None).get('/v2.1/openapi.json', version=version)
    assert answer.status == 200 and answer.json['info']['version'] == version


@pytest.mark.parametrize('path', ['/', '', '/versions', '/.json', '/versions.json'])
def test_versions_are_listed_at_the_root(api, path):
    answer = api.client(prefix='', project=None).get(path)
    assert answer.status == 200 and [row['id'] for row in answer.json['versions']] == ['v2.0', 'v2.1']
    assert answer.json['release'] == product.VERSION


@pytest.mark.parametrize('path', ['/v2', '/v2.1'])
def test_missing_slash_redirects(api, path):
    answer = api.client(prefix='', project=None).get(path)
    assert (answer.status, answer.headers['location']) == (302, f'{ROOT}{path}/')


@pytest.mark.parametrize('path', ['/servers.json', '/servers/.json', '/servers', f'/{base.PROJECT}/servers/.json',
                                  f'/{base.PROJECT}/servers.json', '/servers/detail.json'])
def test_path_suffix_is_accepted(api, path):
    assert api.client().get(path).json == {'servers': []}


@pytest.mark.parametrize('script, path, public', [
    ('', '/', True), ('', '/v2.1', True), ('', '/v2.1/', True), ('', '/v2.1/servers', False),
    ('/compute', '/v2/x', False),
    ('/compute/v2.1', '/servers', False), ('/compute/v2.1', '', True), ('/compute', '/servers', True),
    ('', '/v2.1/versions/v2.1', False), ('', '/versions/v2.1', True), ('', '/v2.1/versions/a/b', False),
    ('', '/v2.1/servers/versions', False),
    ('', '/v2.1/servers/versions/x', False), ('', '/v2.1/servers/v2', False)])
def test_version_documents_need_no_token(script, path, public):
    assert app.public(_environ(path, script)) is public


def test_extensions_are_those_that_2_1_began_with(api):
    client = api.client()
    listed = client.get('/extensions').json['extensions']
    assert len(listed) == 100
    assert {row['alias'] for row in listed} >= {'NMN', 'OS-DCF', 'os-cells', 'os-user-quotas', 'os-volumes'}
    assert all(row['updated'] == '2014-12-03T00:00:00Z' and row['links'] == [] for row in listed)
    assert client.get('/extensions/os-consoles').json['extension'] in listed
    for alias in ('os-consoles2', 'servers', 'OS-CONSOLES', 'x' * 3000):
        assert client.get(f'/extensions/{alias}').fault[:2] == ('itemNotFound', 404)
