"""Endpoint filters: endpoints and endpoint groups of projects, and the catalogs of their tokens."""
import pytest

from nova.tests import identity_fixture
from nova.tests.support.identity_grants import Admin

ROOT = '/v3/OS-EP-FILTER'


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path)


@pytest.fixture
def admin(cloud):
    return Admin(cloud)


@pytest.fixture
def project(cloud):
    return cloud.id_of('project', 'demo')


@pytest.fixture
def endpoint(admin):
    """The public endpoint of the image service."""
    service, = admin('GET', '/v3/services?type=image')['services']
    found, = admin('GET', f'/v3/endpoints?service_id={service["id"]}&interface=public')['endpoints']
    return found


def make(admin, **fields):
    return admin('POST', f'{ROOT}/endpoint_groups', {'endpoint_group': fields})['endpoint_group']


def catalog(cloud):
    reply = cloud.call('GET', '/v3/auth/catalog', token=cloud.token('demo'))
    return {(row['type'], each['interface']) for row in reply.json['catalog'] for each in row['endpoints']}


def test_endpoint_group_is_created_changed_and_deleted(admin, endpoint):
    made = make(admin, name='g', filters={'interface': 'internal'})
    path = f'{ROOT}/endpoint_groups/{made["id"]}'
    assert made == {'id': made['id'], 'name': 'g', 'description': None, 'filters': {'interface': 'internal'},
                    'links': {'self': f'http://cloud.example/identity{path}'}}
    assert admin('GET', path)['endpoint_group'] == made
    assert admin('GET', f'{ROOT}/endpoint_groups?name=g')['endpoint_groups'] == [made]
    assert {row['interface'] for row in admin('GET', f'{path}/endpoints')['endpoints']} == {'internal'}
    filters = {'interface': 'public', 'service_id': endpoint['service_id'], 'region_id': endpoint['region_id']}
    changed = admin('PATCH', path, {'endpoint_group': {'filters': filters, 'description': 'd'}})['endpoint_group']
    assert (changed['filters'], changed['description']) == (filters, 'd')
    assert admin('GET', f'{path}/endpoints')['endpoints'] == [endpoint]
    admin('DELETE', path)
    admin('GET', path, code=404)
    for body in ({'name': 'g'}, {'name': 'g', 'filters': {'url': 'x'}}, {'name': 'g', 'filters': {'interface': 5}}):
        admin('POST', f'{ROOT}/endpoint_groups', {'endpoint_group': body}, code=400)


def test_a_project_with_endpoints_has_no_others_in_its_catalog(cloud, admin, project, endpoint):
    before, path = catalog(cloud), f'{ROOT}/projects/{project}/endpoints'
    admin('GET', f'{path}/{endpoint["id"]}', code=404)
    for _repeated in range(2):
        admin('PUT', f'{path}/{endpoint["id"]}')
    admin('GET', f'{path}/{endpoint["id"]}', code=204)
    assert admin('GET', path)['endpoints'] == [endpoint]
    assert [row['id'] for row in admin('GET', f'{ROOT}/endpoints/{endpoint["id"]}/projects')['projects']] == [project]
    assert catalog(cloud) == {('image', 'public')}
    group = make(admin, name='g', filters={'interface': 'internal'})['id']
    admin('PUT', f'{ROOT}/endpoint_groups/{group}/projects/{project}')
    assert catalog(cloud) == {('image', 'public')} | {each for each in before if each[1] == 'internal'}
    admin('DELETE', f'{path}/{endpoint["id"]}')
    admin('DELETE', f'{path}/{endpoint["id"]}', code=404)
    assert catalog(cloud) == {each for each in before if each[1] == 'internal'}
    admin('DELETE', f'{ROOT}/endpoint_groups/{group}')                     # with its place in the project
    assert catalog(cloud) == before
    for each in (f'{path}/none', f'{ROOT}/projects/none/endpoints/{endpoint["id"]}'):
        admin('PUT', each, code=404)


def test_endpoint_groups_are_added_to_a_project(admin, project):
    group = make(admin, name='g', filters={'interface': 'admin'})
    path = f'{ROOT}/endpoint_groups/{group["id"]}/projects'
    admin('GET', f'{path}/{project}', code=404)
    admin('PUT', f'{path}/{project}')
    assert admin('GET', f'{path}/{project}')['endpoint_group'] == group
    assert [row['id'] for row in admin('GET', path)['projects']] == [project]
    assert admin('GET', f'{ROOT}/projects/{project}/endpoint_groups')['endpoint_groups'] == [group]
    assert {row['interface'] for row in admin('GET', f'{ROOT}/projects/{project}/endpoints')['endpoints']} == {'admin'}
    admin('DELETE', f'{path}/{project}')
    assert admin('GET', path)['projects'] == []
    admin('DELETE', f'{path}/{project}', code=404)


def test_deletions_leave_no_filter(cloud, admin, project):
    service = admin.make('service', type='dns', name='designate')['id']
    endpoint = admin.make('endpoint', service_id=service, interface='public', url='http://dns.example')['id']
    before = catalog(cloud)
    admin('PUT', f'{ROOT}/projects/{project}/endpoints/{endpoint}')
    assert catalog(cloud) == {('dns', 'public')}
    admin('DELETE', f'/v3/endpoints/{endpoint}')
    assert catalog(cloud) == before - {('dns', 'public')}
    endpoint = admin.make('endpoint', service_id=service, interface='public', url='http://dns.example')['id']
    admin('PUT', f'{ROOT}/projects/{project}/endpoints/{endpoint}')
    assert catalog(cloud) == {('dns', 'public')}
    admin('DELETE', f'/v3/services/{service}')                             # with its endpoints
    assert catalog(cloud) == before - {('dns', 'public')}


def test_filters_are_for_administrators(cloud, project, endpoint):
    token = cloud.token('demo')
    for method, path in (('GET', 'endpoint_groups'), ('POST', 'endpoint_groups'),
                         ('GET', f'projects/{project}/endpoints'),
                         ('PUT', f'projects/{project}/endpoints/{endpoint["id"]}')):
        reply = cloud.call(method, f'{ROOT}/{path}', {'endpoint_group': {'name': 'g', 'filters': {}}}
                           if method == 'POST' else None, token)
        assert reply.status_int == 403, (method, path)
