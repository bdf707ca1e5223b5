"""Regions, services, endpoints, limits, tags and trees of projects, over HTTP."""
import pytest

from nova.identity.embedded import directory
from nova.identity.embedded import resources
from nova.tests import identity_fixture
from nova.tests.support.identity_grants import Admin


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path)


@pytest.fixture
def admin(cloud):
    return Admin(cloud)


def catalog(cloud, token):
    rows = cloud.call('GET', '/v3/auth/catalog', token=token).json['catalog']
    return {(row['type'], endpoint['interface'], endpoint['url']) for row in rows for endpoint in row['endpoints']}


# ---- the catalog

def test_region_is_created_changed_and_deleted(cloud, admin):
    made = admin.make('region', id='west', description='the west', parent_region_id='RegionOne', email='a@b')
    assert made == {'id': 'west', 'description': 'the west', 'parent_region_id': 'RegionOne', 'email': 'a@b',
                    'links': {'self': 'http://cloud.example/identity/v3/regions/west'}}
    assert {row['id'] for row in admin('GET', '/v3/regions')['regions']} == {'RegionOne', 'west'}
    assert admin('GET', '/v3/regions?parent_region_id=RegionOne')['regions'] == [made]
    admin('POST', '/v3/regions', {'region': {'id': 'west'}}, code=409)
    admin('POST', '/v3/regions', {'region': {'id': 'RegionOne'}}, code=409)
    admin('POST', '/v3/regions', {'region': {'id': 'x', 'parent_region_id': 'none'}}, code=400)
    assert admin('PUT', '/v3/regions/north', {'region': {}}, code=201)['region']['id'] == 'north'
    assert len(admin.make('region')['id']) == 32
    assert admin('PATCH', '/v3/regions/west', {'region': {'description': ''}})['region']['description'] == ''
    admin('PATCH', '/v3/regions/west', {'region': {'parent_region_id': 'west'}}, code=400)
    admin('PATCH', '/v3/regions/north', {'region': {'parent_region_id': 'west'}})
    admin('PATCH', '/v3/regions/west', {'region': {'parent_region_id': 'north'}}, code=400)       # a circle
    admin('DELETE', '/v3/regions/west', code=403)
    admin('DELETE', '/v3/regions/north')
    admin('DELETE', '/v3/regions/west')
    admin('GET', '/v3/regions/west', code=404)


def test_services_and_endpoints_appear_in_the_catalog(cloud, admin):
    demo, project = cloud.token('demo'), cloud.id_of('project', 'demo')
    before = catalog(cloud, demo)
    service = admin.make('service', type='dns', name='designate', description='names')
    assert service == {'id': service['id'], 'type': 'dns', 'name': 'designate', 'description': 'names',
                       'enabled': True, 'links': {
                           'self': f'http://cloud.example/identity/v3/services/{service["id"]}'}}
    assert admin('GET', '/v3/services?type=dns')['services'] == [service]
    assert catalog(cloud, demo) == before                                  # it has no endpoint
    rows = cloud.call('GET', '/v3/auth/catalog', token=demo).json['catalog']
    assert [row['endpoints'] for row in rows if row['id'] == service['id']] == [[]]
    endpoint = admin.make('endpoint', service_id=service['id'], interface='public', region='RegionOne',
                          url='http://dns.example/v2/$(project_id)s', name='dns')
    assert endpoint['region_id'] == endpoint['region'] == 'RegionOne' and endpoint['name'] == 'dns'
    assert admin('GET', f'/v3/endpoints?service_id={service["id"]}')['endpoints'] == [endpoint]
    assert catalog(cloud, demo) - before == {('dns', 'public', f'http://dns.example/v2/{project}')}
    compute = admin('GET', '/v3/services?type=compute')['services'][0]['id']
    other = admin.make('endpoint', service_id=compute, interface='public', region_id=None, url='http://edge.example')
    assert ('compute', 'public', 'http://edge.example') in catalog(cloud, demo)
    admin('PATCH', f'/v3/endpoints/{other["id"]}', {'endpoint': {'enabled': False}})
    admin('PATCH', f'/v3/services/{service["id"]}', {'service': {'enabled': False}})
    assert catalog(cloud, demo) == before
    admin('DELETE', f'/v3/services/{service["id"]}')
    admin('GET', f'/v3/endpoints/{endpoint["id"]}', code=404)
    admin('DELETE', f'/v3/endpoints/{other["id"]}')


def test_an_endpoint_for_projects_is_not_in_the_catalog_of_other_tokens(cloud, admin):
    service = admin.make('service', type='dns')['id']
    admin.make('endpoint', service_id=service, interface='public', url='http://dns.example/%(tenant_id)s')
    body = identity_fixture.password_auth('admin', cloud.passwords['admin'])
    body['auth']['scope'] = {'system': {'all': True}}
    system = cloud.call('POST', '/v3/auth/tokens', body).headers['X-Subject-Token']
    assert not any(kind == 'dns' for kind, _interface, _url in catalog(cloud, system))
    assert any(kind == 'dns' for kind, _interface, _url in catalog(cloud, cloud.token('demo')))


def test_regions_services_and_endpoints_of_the_configuration_are_read_only(admin):
    for noun in ('region', 'service', 'endpoint'):
        row = admin('GET', f'/v3/{noun}s')[noun + 's'][0]
        path = f'/v3/{noun}s/{row["id"]}'
        admin('PATCH', path, {noun: {'description': 'x'}}, code=403)
        admin('DELETE', path, code=403)
        assert admin('GET', path)[noun] == row


def test_invalid_endpoints_are_refused(cloud, admin):
    service = admin.make('service', type='dns')['id']
    good = {'service_id': service, 'interface': 'public', 'url': 'http://x'}
    for wrong in ({'service_id': 'none'}, {'interface': 'x'}, {'url': ''}, {'url': 'http://a b'}, {'region_id': 'none'},
                  {'url': 'http://x/$(admin_token)s'}, {'url': 'http://x/%(password)s'}, {'enabled': 'yes'},
                  {'url': 'x' * 5000}, {'extra': 'x' * directory.MAX_EXTRA}):
        admin('POST', '/v3/endpoints', {'endpoint': {**good, **wrong}}, code=400)
    assert admin('GET', f'/v3/endpoints?service_id={service}')['endpoints'] == []


def test_malformed_regions_are_refused(cloud, admin):
    service = admin('GET', '/v3/services')['services'][0]['id']
    for region in ([], {'id': 'x'}, 5, 'x' * 256):
        admin('POST', '/v3/endpoints', {'endpoint': {
            'service_id': service, 'interface': 'public', 'url': 'http://x', 'region': region}}, code=400)
    admin('PUT', '/v3/regions/' + 'x' * 256, {'region': {}}, code=400)
    for wrong in ('x' * 256, 'a/b'):
        admin('POST', '/v3/regions', {'region': {'id': wrong}}, code=400)
    admin('PUT', '/v3/regions/' + 'x' * 255, {'region': {}}, code=201)


@pytest.mark.parametrize('noun, body', [
    ('region', {}), ('service', {'type': 'x'}), ('group', {'name': 'x'})])
def test_resources_are_bounded(admin, monkeypatch, noun, body):
    monkeypatch.setattr(resources.Resources, 'most', 0)
    admin('POST', f'/v3/{noun}s', {noun: body}, code=403)


def test_the_id_of_a_resource_cannot_be_changed(cloud, admin):
    admin.make('region', id='west')
    domain = admin.make('domain', name='east')['id']
    user = cloud.id_of('user', 'demo')
    credential = admin.make('credential', user_id=user, type='totp', blob='GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ')['id']
    for noun, plural, row_id in (
            ('region', 'regions', 'west'), ('user', 'users', user), ('credential', 'credentials', credential),
            ('project', 'projects', cloud.id_of('project', 'demo')), ('project', 'projects', domain)):
        path = f'/v3/{plural}/{row_id}'
        refused = admin('PATCH', path, {noun: {'id': 'east', 'description': 'd'}}, code=400)
        assert 'id of a resource cannot be changed' in refused['error']['message']
        assert admin('PATCH', path, {noun: {'id': row_id}})[noun]['id'] == row_id


# ---- limits

def test_limit_is_created_changed_and_deleted(cloud, admin):
    compute = admin('GET', '/v3/services?type=compute')['services'][0]['id']
    project = cloud.id_of('project', 'demo')
    given = {'service_id': compute, 'region_id': 'RegionOne', 'resource_name': 'cores', 'default_limit': 10}
    made, other = admin('POST', '/v3/registered_limits', {'registered_limits': [
        given, {**given, 'region_id': None, 'default_limit': 0, 'description': 'd'}]})['registered_limits']
    assert made == {**given, 'id': made['id'], 'description': None, 'links': {
        'self': f'http://cloud.example/identity/v3/registered_limits/{made["id"]}'}}
    assert other['region_id'] is None and other['default_limit'] == 0
    admin('POST', '/v3/registered_limits', {'registered_limits': [given]}, code=409)
    assert admin('GET', '/v3/registered_limits?region_id=RegionOne')['registered_limits'] == [made]
    wanted = {'service_id': compute, 'region_id': 'RegionOne', 'resource_name': 'cores', 'resource_limit': 5}
    (limit,) = admin('POST', '/v3/limits', {'limits': [{**wanted, 'project_id': project}]})['limits']
    assert limit == {**wanted, 'id': limit['id'], 'project_id': project, 'domain_id': None, 'description': None,
                     'links': {'self': f'http://cloud.example/identity/v3/limits/{limit["id"]}'}}
    admin('POST', '/v3/limits', {'limits': [{**wanted, 'project_id': project}]}, code=409)
    admin('POST', '/v3/limits', {'limits': [{**wanted, 'domain_id': 'default'}]})
    for wrong in ({}, {'project_id': project, 'domain_id': 'default'}, {'project_id': 'none'}, {'domain_id': 'none'},
                  {'project_id': project, 'resource_name': 'x'}, {'project_id': project, 'resource_limit': -2},
                  {'project_id': project, 'resource_limit': 5.0},
                  {'project_id': project, 'resource_limit': 2 ** 31}):
        admin('POST', '/v3/limits', {'limits': [{**wanted, **wrong}]}, code=400)
    path, registered = f'/v3/limits/{limit["id"]}', f'/v3/registered_limits/{made["id"]}'
    assert admin('PATCH', path, {'limit': {'resource_limit': 7}})['limit']['resource_limit'] == 7
    admin('PATCH', path, {'limit': {'project_id': 'other'}}, code=403)
    admin('PATCH', registered, {'registered_limit': {'resource_name': 'ram'}}, code=403)
    admin('DELETE', registered, code=403)
    assert admin('PATCH', registered, {'registered_limit': {'default_limit': 20}})['registered_limit'][
        'default_limit'] == 20
    assert admin('GET', f'/v3/limits?project_id={project}')['limits'][0]['id'] == limit['id']
    admin('DELETE', f'/v3/projects/{project}')
    admin('GET', path, code=404)                                     # it goes with the project
    assert admin('GET', '/v3/limits/model')['model']['name'] == 'flat'


def test_registered_limit_outlives_its_service_and_region(cloud, admin):
    region = admin('POST', '/v3/regions', {'region': {'id': 'r9'}})['region']['id']
    service = admin('POST', '/v3/services', {'service': {'type': 'x', 'name': 'x'}})['service']['id']
    given = {'service_id': service, 'region_id': region, 'resource_name': 'things', 'default_limit': 10}
    (made,) = admin('POST', '/v3/registered_limits', {'registered_limits': [given]})['registered_limits']
    admin('DELETE', f'/v3/services/{service}')
    admin('DELETE', f'/v3/regions/{region}')
    path = f'/v3/registered_limits/{made["id"]}'
    assert admin('GET', path)['registered_limit'] == made
    admin('PATCH', path, {'registered_limit': {'default_limit': 5}}, code=400)      # for a service that there is not
    admin('DELETE', path)


def test_members_see_only_limits_of_their_project_and_cannot_change_them(cloud, admin):
    compute = admin('GET', '/v3/services?type=compute')['services'][0]['id']
    given = {'service_id': compute, 'resource_name': 'cores'}
    admin('POST', '/v3/registered_limits', {'registered_limits': [{**given, 'default_limit': 1}]})
    made = {name: admin('POST', '/v3/limits', {'limits': [{**given, 'resource_limit': 2, 'project_id': cloud.id_of(
        'project', name)}]})['limits'][0]['id'] for name in ('demo', 'service')}
    made['domain'] = admin('POST', '/v3/limits', {'limits': [{
        **given, 'resource_limit': 2, 'domain_id': 'default'}]})['limits'][0]['id']
    demo = cloud.token('demo')
    assert [row['id'] for row in cloud.call('GET', '/v3/limits', token=demo).json['limits']] == [made['demo']]
    assert {name: cloud.call('GET', f'/v3/limits/{limit}', token=demo).status_int for name, limit in made.items()} == {
        'demo': 200, 'service': 404, 'domain': 404}
    assert len(admin('GET', '/v3/limits')['limits']) == 3
    assert cloud.call('GET', '/v3/registered_limits', token=demo).status_int == 200
    for noun in ('limits', 'registered_limits'):
        assert cloud.call('POST', f'/v3/{noun}', {noun: []}, demo).status_int == 403
    for method in ('PATCH', 'DELETE'):
        body = {'limit': {'resource_limit': 9}}
        assert cloud.call(method, f'/v3/limits/{made["demo"]}', body, demo).status_int == 403


# ---- projects

def test_project_tags_are_managed(cloud, admin):
    project = admin.make('project', name='p', tags=['a', 'b'])['id']
    path = f'/v3/projects/{project}/tags'
    assert admin('GET', path)['tags'] == ['a', 'b']
    admin('PUT', f'{path}/c', code=201)
    admin('PUT', f'{path}/c', code=201)
    admin('HEAD', f'{path}/c')
    admin('HEAD', f'{path}/d', code=404)
    admin('DELETE', f'{path}/a')
    admin('DELETE', f'{path}/a', code=404)
    assert admin('GET', path)['tags'] == ['b', 'c']
    assert admin('PUT', path, {'tags': ['x']}, code=200)['tags'] == ['x']
    admin('PUT', path, {'tags': ['x', 'x']}, code=400)
    admin('PUT', path, {'tags': [str(number) for number in range(81)]}, code=400)
    admin('PUT', path, {'tags': [str(number) for number in range(80)]}, code=200)
    admin('PUT', f'{path}/more', code=400)
    admin('PUT', f'{path}/{"x" * 256}', code=400)
    admin('PUT', f'{path}/a,b', code=400)
    admin('DELETE', path)
    assert admin('GET', f'/v3/projects/{project}')['project']['tags'] == []
    demo, own = cloud.token('demo'), f'/v3/projects/{cloud.id_of("project", "demo")}/tags'
    assert [cloud.call('GET', at, token=demo).status_int for at in (own, path)] == [200, 403]
    assert cloud.call('PUT', own, {'tags': []}, demo).status_int == 403


def test_projects_form_a_tree(cloud, admin):
    top = admin.make('project', name='top')
    middle = admin.make('project', name='middle', parent_id=top['id'])
    low = admin.make('project', name='low', parent_id=middle['id'])
    assert (top['parent_id'], middle['parent_id']) == ('default', top['id'])

    def shown(project, query):
        return admin('GET', f'/v3/projects/{project["id"]}?{query}')['project']
    assert [row['project'] for row in shown(low, 'parents_as_list')['parents']] == [middle, top]
    assert [row['project'] for row in shown(top, 'subtree_as_list')['subtree']] == [middle, low]
    assert shown(low, 'parents_as_ids')['parents'] == {middle['id']: {top['id']: {'default': None}}}
    assert shown(top, 'subtree_as_ids')['subtree'] == {middle['id']: {low['id']: None}}
    assert shown(low, 'subtree_as_ids')['subtree'] is None
    admin('GET', f'/v3/projects/{low["id"]}?parents_as_ids&parents_as_list', code=400)
    for query, found in (('parent_id=' + top['id'], ['middle']), ('parent_id=none', [])):
        assert [row['name'] for row in admin('GET', '/v3/projects?' + query)['projects']] == found
    assert 'top' in {row['name'] for row in admin('GET', '/v3/projects?parent_id=default')['projects']}
    admin('PATCH', f'/v3/projects/{low["id"]}', {'project': {'parent_id': top['id']}}, code=403)
    admin('PATCH', f'/v3/projects/{low["id"]}', {'project': {'parent_id': middle['id'], 'name': 'lowest'}})
    admin('DELETE', f'/v3/projects/{top["id"]}', code=403)
    admin('PATCH', f'/v3/projects/{top["id"]}', {'project': {'enabled': False}}, code=403)
    for project in (low, middle, top):
        admin('PATCH', f'/v3/projects/{project["id"]}', {'project': {'enabled': False}})
    admin('PATCH', f'/v3/projects/{low["id"]}', {'project': {'enabled': True}}, code=403)
    admin('POST', '/v3/projects', {'project': {'name': 'x', 'parent_id': top['id']}}, code=403)
    admin('POST', '/v3/projects', {'project': {'name': 'x', 'parent_id': 'none'}}, code=400)
    for project in (low, middle, top):
        admin('DELETE', f'/v3/projects/{project["id"]}')


def test_a_tree_has_bounded_depth(admin):
    parent = None
    for level in range(directory.MAX_DEPTH):
        parent = admin.make('project', name=f'p{level}', parent_id=parent)['id']
    admin('POST', '/v3/projects', {'project': {'name': 'deeper', 'parent_id': parent}}, code=403)


def test_a_member_sees_relatives_only_with_a_role_on_them(cloud, admin):
    top = admin.make('project', name='top')['id']
    low = admin.make('project', name='low', parent_id=top)['id']
    user = admin.user()
    admin('PUT', f'/v3/projects/{low}/users/{user}/roles/{cloud.id_of("role", "member")}')
    token = cloud.service.login('u', 'pw', 'low')[0]
    assert cloud.call('GET', f'/v3/projects/{low}?parents_as_list', token=token).json['project']['parents'] == []
    admin('PUT', f'/v3/projects/{top}/users/{user}/roles/{cloud.id_of("role", "reader")}')
    shown = cloud.call('GET', f'/v3/projects/{low}?parents_as_list', token=token).json['project']['parents']
    assert [row['project']['id'] for row in shown] == [top]


def test_additional_attributes_are_stored_and_shown(admin):
    user = admin.make('user', name='u', team='a', nested={'x': [1]}, id='chosen', links='none', created_at='x')
    assert (user['team'], user['nested']) == ('a', {'x': [1]})
    assert user['id'] != 'chosen' and isinstance(user['links'], dict) and 'created_at' not in user
    path = f'/v3/users/{user["id"]}'
    assert admin('PATCH', path, {'user': {'team': None, 'floor': 3}})['user']['floor'] == 3
    assert 'team' not in admin('GET', path)['user'] and admin('GET', path)['user']['nested'] == {'x': [1]}
    admin('PATCH', path, {'user': {'more': 'x' * directory.MAX_EXTRA}}, code=400)
    admin('PATCH', path, {'user': {'password_hash': 'x'}})
    assert 'floor' in admin('GET', path)['user']


def test_only_keystone_has_it(admin, cloud):
    for path in ('OS-FEDERATION/mappings', 'auth/OS-FEDERATION/saml2', 'OS-OAUTH1/consumers',
                 'domains/default/config', 'domains/config/default'):
        for token in (admin.token, cloud.token('demo')):
            reply = cloud.call('GET', '/v3/' + path, token=token)
            assert reply.status_int == 501 and 'Use Keystone for that.' in reply.json['error']['message'], path
    reply = cloud.call('POST', '/v3/roles', {'role': {'name': 'x', 'is_domain': True}}, admin.token)
    assert reply.status_int == 403 and 'Only a project can act as a domain.' in reply.json['error']['message']


def test_is_domain_takes_the_values_that_keystone_documents(admin):
    """Of projects: a flag or its text, not null. Other resources store any attribute, so null says nothing."""
    for number, value in enumerate((False, 'False', 'false')):
        made = admin('POST', '/v3/projects', {'project': {'name': f'flag{number}', 'is_domain': value}}, code=201)
        assert made['project']['is_domain'] is False
    for value in (None, 'no', 0):
        admin('POST', '/v3/projects', {'project': {'name': 'flag', 'is_domain': value}}, code=400)
    assert admin('POST', '/v3/roles', {'role': {'name': 'flag', 'is_domain': None}}, code=201)['role']['name'] == 'flag'


# ---- policy documents

def test_policy_documents_are_stored_and_filtered(cloud, admin):
    made = admin('POST', '/v3/policies', {'policy': {
        'type': 'application/json', 'blob': '{"a": "role:b"}', 'description': 'd'}})['policy']
    assert made == {'id': made['id'], 'type': 'application/json', 'blob': '{"a": "role:b"}', 'description': 'd',
                    'links': {'self': f'http://cloud.example/identity/v3/policies/{made["id"]}'}}
    for query, found in (('', [made]), ('?type__contains=json', [made]), ('?type__contains=foo', []),
                         ('?type=application/json', [made])):
        assert admin('GET', f'/v3/policies{query}')['policies'] == found
    path = f'/v3/policies/{made["id"]}'
    assert admin('GET', path)['policy'] == made
    changed = admin('PATCH', path, {'policy': {'type': 'text/plain', 'blob': 'x', 'description': 'e'}})['policy']
    assert changed == {**made, 'type': 'text/plain', 'blob': 'x', 'description': 'e'}
    for body in ({'type': 'x'}, {'type': '', 'blob': 'x'}, {'type': 'x', 'blob': {}},
                 {'type': 'x', 'blob': 'a\0b'}):
        admin('POST', '/v3/policies', {'policy': body}, code=400)
    assert cloud.call('GET', '/v3/policies', token=cloud.token('demo')).status_int == 403
    admin('DELETE', path)
    admin('GET', path, code=404)


# ---- projects that act as domains

def test_project_that_acts_as_a_domain_is_this_domain(admin):
    made = admin.make('project', name='corp', is_domain='true', description='d')
    assert made['is_domain'] is True and (made['domain_id'], made['parent_id']) == (None, None)
    path = f'/v3/projects/{made["id"]}'
    assert admin('GET', f'/v3/domains/{made["id"]}')['domain']['name'] == 'corp'
    assert admin('GET', path)['project'] == made
    inside = admin.make('project', name='inside', domain_id=made['id'])
    assert (inside['domain_id'], inside['parent_id'], inside['is_domain']) == (made['id'], made['id'], False)
    assert [row['name'] for row in admin('GET', '/v3/projects?is_domain=true')['projects']] == ['Default', 'corp']
    assert 'corp' not in {row['name'] for row in admin('GET', '/v3/projects')['projects']}
    admin('PATCH', f'/v3/projects/{inside["id"]}', {'project': {'is_domain': True}}, code=403)
    admin('PATCH', path, {'project': {'is_domain': False}}, code=403)
    admin('PATCH', path, {'project': {'parent_id': inside['id']}}, code=400)
    admin('DELETE', path, code=403)                                        # enabled
    assert admin('PATCH', path, {'project': {'enabled': False}})['project']['enabled'] is False
    admin('DELETE', path)
    admin('GET', f'/v3/projects/{inside["id"]}', code=404)
    admin('POST', '/v3/projects', {'project': {'name': 'x', 'is_domain': True, 'parent_id': 'default'}}, code=400)
    admin('PATCH', '/v3/projects/default', {'project': {'name': 'x'}}, code=403)


def test_managers_of_a_domain_create_no_domains(cloud, admin):
    reply = cloud.call('POST', '/v3/projects', {'project': {'name': 'x', 'is_domain': True}}, cloud.token('demo'))
    assert reply.status_int == 403
