"""Management over HTTP: who may, what is accepted, what clients get to see."""
import itertools

import pytest

from nova.identity.rest import handlers
from nova.tests import identity_fixture


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path)


def test_identity_versions_are_listed(cloud):
    root = cloud.call('GET', '/')
    assert root.status_int == 300
    assert root.json['versions']['values'][0]['links'][0]['href'] == 'http://cloud.example/identity/v3/'
    assert cloud.call('GET', '').status_int == 300
    for path in ('/v3', '/v3/'):
        assert cloud.call('GET', path).json['version']['id'].startswith('v3.')


def test_bootstrap_creates_roles_projects_and_users(cloud):
    token = cloud.token()
    assert {row['name'] for row in cloud.call('GET', '/v3/roles', token=token).json['roles']} == {
        'admin', 'manager', 'member', 'reader', 'service'}
    rows = cloud.call('GET', '/v3/role_assignments?include_names=True', token=token).json['role_assignments']
    assert sorted((row['user']['name'], row['role']['name'], row['scope'].get('project', {}).get('name'))
                  for row in rows if 'project' in row['scope']) == [
        ('admin', 'admin', 'admin'), ('demo', 'member', 'demo'), ('nova', 'service', 'service')]


def test_project_is_created_changed_and_deleted(cloud):
    token = cloud.token()
    made = cloud.call('POST', '/v3/projects', {'project': {
        'name': 'p', 'description': None, 'tags': ['a'], 'unknown': {'x': 1}}}, token)
    assert made.status_int == 201
    project = made.json['project']
    assert project['description'] == '' and project['tags'] == ['a'] and project['parent_id'] == 'default'
    path = f'/v3/projects/{project["id"]}'
    assert project['links']['self'] == 'http://cloud.example/identity' + path
    assert cloud.call('POST', '/v3/projects', {'project': {'name': 'p'}}, token).status_int == 409
    assert cloud.call('GET', '/v3/projects?name=p', token=token).json['projects'] == [project]
    assert cloud.call('GET', '/v3/projects?name=p&enabled=false', token=token).json['projects'] == []
    assert cloud.call('PATCH', path, {'project': {'name': 'q'}}, token).json['project']['name'] == 'q'
    assert cloud.call('PATCH', path, {'project': {'name': 'demo'}}, token).status_int == 409
    assert cloud.call('DELETE', path, token=token).status_int == 204
    assert cloud.call('GET', path, token=token).status_int == 404
    assert cloud.call('DELETE', path, token=token).status_int == 404
    assert cloud.call('PATCH', path, {'project': {}}, token).status_int == 404


def test_user_is_created_changed_and_deleted(cloud):
    token = cloud.token()
    user = cloud.call('POST', '/v3/users', {'user': {
        'name': 'u', 'password': 'pw', 'email': 'u@example.org', 'domain_id': 'default'}}, token).json['user']
    assert 'password' not in user and 'password_hash' not in user and user['email'] == 'u@example.org'
    cloud.service.login('u', 'pw')
    path = f'/v3/users/{user["id"]}'
    assert cloud.call('PATCH', path, {'user': {'password': 'new'}}, token).status_int == 200
    cloud.service.login('u', 'new')
    assert cloud.call('DELETE', path, token=token).status_int == 204
    assert cloud.call('POST', '/v3/auth/tokens', identity_fixture.password_auth('u', 'new')).status_int == 401


def test_roles_are_granted_and_revoked(cloud):
    token, user, reader = cloud.token(), cloud.id_of('user', 'demo'), cloud.id_of('role', 'reader')
    for target in (f'/v3/projects/{cloud.id_of("project", "admin")}', '/v3/domains/default'):
        path = f'{target}/users/{user}/roles'
        assert cloud.call('HEAD', f'{path}/{reader}', token=token).status_int == 404
        assert cloud.call('PUT', f'{path}/{reader}', token=token).status_int == 204
        assert cloud.call('PUT', f'{path}/{reader}', token=token).status_int == 204
        assert cloud.call('HEAD', f'{path}/{reader}', token=token).status_int == 204
        assert cloud.call('GET', f'{path}/{reader}', token=token).body == b''
        assert [row['name'] for row in cloud.call('GET', path, token=token).json['roles']] == ['reader']
        assert cloud.call('DELETE', f'{path}/{reader}', token=token).status_int == 204
        assert cloud.call('DELETE', f'{path}/{reader}', token=token).status_int == 404
        assert cloud.call('PUT', f'{path}/nonsense', token=token).status_int == 404
    assert cloud.call('PUT', f'/v3/projects/none/users/{user}/roles/{reader}', token=token).status_int == 404


def test_role_assignments_are_filtered(cloud):
    token, demo = cloud.token(), cloud.id_of('user', 'demo')

    def found(query):
        rows = cloud.call('GET', '/v3/role_assignments?' + query, token=token).json['role_assignments']
        return sorted(row['role'].get('name', row['role']['id']) for row in rows)
    assert found(f'user.id={demo}') == [cloud.id_of('role', 'member')]
    assert found(f'user.id={demo}&include_names&effective') == ['member', 'reader']
    reader = cloud.id_of('role', 'reader')
    assert found(f'role.id={reader}&effective=True&user.id={demo}&include_names=1') == ['reader']
    assert found('scope.domain.id=default&include_names=true') == ['admin']
    assert found(f'scope.project.id={cloud.id_of("project", "demo")}&include_names=True') == ['member']
    assert found('scope.system=all&include_names=true') == ['admin'] and found('group.id=g') == []


def test_default_roles_and_the_default_domain_stay(cloud):
    token = cloud.token()
    role = f'/v3/roles/{cloud.id_of("role", "reader")}'
    assert cloud.call('DELETE', role, token=token).status_int == 403
    assert cloud.call('PATCH', role, {'role': {'name': 'x'}}, token).status_int == 403
    assert cloud.call('DELETE', '/v3/domains/default', token=token).status_int == 403
    made = cloud.call('POST', '/v3/roles', {'role': {'name': 'auditor'}}, token).json['role']
    assert cloud.call('DELETE', f'/v3/roles/{made["id"]}', token=token).status_int == 204


def test_catalog_is_listed(cloud):
    token = cloud.token()
    services = cloud.call('GET', '/v3/services', token=token).json['services']
    assert {row['type'] for row in services} == {
        'identity', 'compute', 'image', 'network', 'block-storage', 'volumev3', 's3', 'key-manager'}
    compute = next(row for row in services if row['type'] == 'compute')
    endpoints = cloud.call('GET', f'/v3/endpoints?service_id={compute["id"]}', token=token).json['endpoints']
    assert {row['interface'] for row in endpoints} == {'public', 'internal', 'admin'}
    assert {row['url'] for row in endpoints} == {'http://cloud.example/compute/v2.1'}
    assert cloud.call('GET', f'/v3/services/{compute["id"]}', token=token).json['service'] == compute
    assert cloud.call('GET', '/v3/services/none', token=token).status_int == 404
    assert cloud.call('GET', '/v3/regions', token=token).json['regions'][0]['id'] == 'RegionOne'


# ---- who may: every row of the table, as a user who is nobody special

def test_every_operation_needs_a_token_unless_it_is_public(cloud):
    public = {(row.method, row.path) for row in handlers.ROUTES if row.public}
    assert public == {('GET', '/'), ('GET', '/v3'), ('POST', '/v3/auth/tokens'),
                      ('POST', '/v3/users/{user_id}/password')}
    for row in handlers.ROUTES:
        if not row.public:
            for token in (None, 'forged'):
                assert cloud.call(row.method, _filled(row.path), {}, token).status_int == 401, row


def _filled(path):
    return '/'.join('some' if part.startswith('{') else part for part in path.split('/'))


def test_changes_are_for_administrators(cloud):
    token = cloud.token('demo')
    free = {'/v3/auth/tokens', '/v3/users/{user_id}/application_credentials',
            '/v3/users/{user_id}/application_credentials/{credential_id}', '/v3/users/{user_id}/password',
            '/v3/credentials', '/v3/credentials/{credential_id}', '/v3/users/{user_id}/credentials/OS-EC2',
            '/v3/users/{user_id}/credentials/OS-EC2/{credential_id}', '/v3/OS-TRUST/trusts',
            '/v3/OS-TRUST/trusts/{trust_id}', '/v3/users/{user_id}/access_rules/{rule_id}'}
    tried = 0
    for row in handlers.ROUTES:
        if row.method != 'GET' and row.path not in free:
            tried += 1
            # 403 whether the thing exists or not
            for known in ('some', cloud.id_of('user', 'demo'), cloud.id_of('project', 'demo')):
                path = '/'.join(known if part.startswith('{') else part for part in row.path.split('/'))
                body = {'role': {'name': 'x'}} if row.path.startswith('/v3/roles') else {}
                assert cloud.call(row.method, path, body, token).status_int == 403, row
    assert tried >= 15


def test_users_see_themselves_and_nobody_else(cloud):
    token, me, other = cloud.token('demo'), cloud.id_of('user', 'demo'), cloud.id_of('user', 'admin')
    for rest in ('', '/projects', '/groups', '/application_credentials'):
        assert cloud.call('GET', f'/v3/users/{me}{rest}', token=token).status_int == 200
        for unknown in (other, 'some'):
            assert cloud.call('GET', f'/v3/users/{unknown}{rest}', token=token).status_int == 403
    mine, theirs = cloud.id_of('project', 'demo'), cloud.id_of('project', 'admin')
    assert cloud.call('GET', f'/v3/projects/{mine}', token=token).status_int == 200
    assert cloud.call('GET', f'/v3/projects/{theirs}', token=token).status_int == 403
    assert cloud.call('GET', '/v3/users', token=token).status_int == 403
    for query in ('users?name=admin', 'users?name=demo', 'projects', 'projects?name=demo', 'role_assignments',
                  f'role_assignments?user.id={me}', 'domains', 'roles', 'services'):
        assert cloud.call('GET', f'/v3/{query}', token=token).status_int == 403, query


# ---- bad input

BAD_BODIES = [b'', b'{', b'[]', b'null', b'"x"', b'\xff\xfe', b'[' * 5000, b'{"user": {"name": "\\ud800"}}']
BAD_VALUES = [None, 5, [], {}, True, '', ' ', 'a\0b', 'x' * 70000]


def test_invalid_identity_bodies_return_400(cloud):
    token = cloud.token()
    for row in handlers.ROUTES:
        if row.body:
            for body in BAD_BODIES:
                path = _filled(row.path).replace('some', cloud.id_of('user', 'admin'))
                reply = cloud.call(row.method, path, body, token)
                assert reply.status_int == 400, (row, body, reply)
                assert reply.json['error']['title'] == 'Bad Request'


def test_wrong_values_are_refused_and_change_nothing(cloud):
    token = cloud.token()
    before = (cloud.service.list('user'), cloud.service.list('project'), cloud.service.list('role'))
    for noun in ('user', 'project', 'role'):
        for value in BAD_VALUES:
            reply = cloud.call('POST', f'/v3/{noun}s', {noun: {'name': value}}, token)
            assert reply.status_int == 400, (noun, value)
            assert cloud.call('POST', f'/v3/{noun}s', {noun: value}, token).status_int == 400
    fields = 'enabled', 'email', 'password', 'default_project_id'
    for field, value in itertools.product(fields, (5, [], {}, 'a\0')):
        if (field, value) != ('password', 'a\0'):
            reply = cloud.call('POST', '/v3/users', {'user': {'name': 'n', field: value}}, token)
            assert reply.status_int == 400, (field, value)
    assert before == (cloud.service.list('user'), cloud.service.list('project'), cloud.service.list('role'))


@pytest.mark.parametrize('auth', [
    {}, {'identity': {}}, {'identity': {'methods': []}}, {'identity': {'methods': 'password'}},
    {'identity': {'methods': ['password'], 'password': []}},
    {'identity': {'methods': ['password'], 'password': {}}},
    {'identity': {'methods': ['password'], 'password': {'user': {'name': 5, 'password': 'x'}}}},
    {'identity': {'methods': ['password'], 'password': {'user': {'name': 'x', 'password': 5}}}},
    {'identity': {'methods': ['password'],
                  'password': {'user': {'name': 'x', 'password': 'x', 'domain': 'y'}}}},
    {'identity': {'methods': ['token'], 'token': {'id': 5}}},
    {'identity': {'methods': ['token'], 'token': {'id': 'x'}}, 'scope': 5},
    {'identity': {'methods': ['token'], 'token': {'id': 'x'}}, 'scope': {'project': 'x'}},
    {'identity': {'methods': ['password'], 'password': {'user': {'id': 'a\0', 'password': 'x'}}}},
])
def test_malformed_login_returns_400(cloud, auth):
    assert cloud.call('POST', '/v3/auth/tokens', {'auth': auth}).status_int == 400


@pytest.mark.parametrize('auth', [
    {'identity': {'methods': ['magic']}}, {'identity': {'methods': ['password']}},
    {'identity': {'methods': ['token']}}, {'identity': {'methods': ['application_credential']}},
    {'identity': {'methods': ['password'], 'password': {'user': {'password': 'x'}}}},
    {'identity': {'methods': ['application_credential'],
                  'application_credential': {'name': 'x', 'secret': 'y'}}},
    {'identity': {'methods': ['password'], 'password': {'user': {'id': 'x' * 9999, 'password': 'x'}}}},
])
def test_wrong_credentials_return_401(cloud, auth):
    assert cloud.call('POST', '/v3/auth/tokens', {'auth': auth}).status_int == 401


def test_a_fault_repeats_no_value_of_the_body(cloud):
    body = {'auth': {'identity': {'methods': ['password'], 'password': {'user': {
        'name': 'admin', 'password': ['canary-secret']}}}}}
    assert b'canary' not in cloud.call('POST', '/v3/auth/tokens', body).body


def test_unknown_identity_paths_return_404_or_405(cloud):
    token = cloud.token()
    for path in ('/v4', '/v3/nonsense', '/v3/users/', '/v3/users//projects', '/v3/users/%00', '/v3/users/%ff',
                 '/v3/users/' + 'x' * 5000, '/v3/credentials/%00', '/v3/auth/tokens/x'):
        reply = cloud.call('GET', path, token=token)
        assert reply.status_int in (200, 404), path
        assert reply.status_int == 200 if path == '/v3/users/' else 'error' in reply.json
    assert cloud.call('GET', '/v3/users?name=%ff', token=token).status_int == 400
    assert cloud.call('GET', '/v3/users?name=%00', token=token).status_int == 400
    assert cloud.call('GET', '/v3/role_assignments?user.id=%00', token=token).status_int == 400
    assert cloud.call('GET', '/v3/credentials?user_id=%00', token=token).status_int == 400
    reply = cloud.call('DELETE', '/v3/users', token=token)
    assert reply.status_int == 405 and reply.headers['Allow'] == 'GET, POST'


def test_a_body_beyond_the_cap_is_not_read(cloud):
    token = cloud.token()
    body = b'{"user": {"name": "' + b'x' * 200000 + b'"}}'
    assert cloud.call('POST', '/v3/users', body, token).status_int == 413


def test_other_domains_do_not_exist(cloud):
    token = cloud.token()
    assert cloud.call('GET', '/v3/domains/other', token=token).status_int == 404
    elsewhere = {'user': {'name': 'u', 'domain_id': 'other'}}
    assert cloud.call('POST', '/v3/users', elsewhere, token).status_int == 404
    assert cloud.call('GET', '/v3/users?domain_id=other', token=token).json['users'] == []
    assert cloud.call('GET', '/v3/domains?name=default', token=token).json['domains'][0]['id'] == 'default'
    assert cloud.call('GET', '/v3/domains?name=x', token=token).json['domains'] == []
