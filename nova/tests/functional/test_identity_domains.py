"""Domains: their life, names within them, what disabling ends, and what their managers may do."""
import pytest

from nova.tests import identity_fixture
from nova.tests.support.identity_grants import Admin


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path)


@pytest.fixture
def admin(cloud):
    return Admin(cloud)


class Domain:
    """A domain with a project, and a user who has a role there."""

    def __init__(self, cloud, admin, name='east', role='member'):
        self.cloud, self.admin, self.name = cloud, admin, name
        self.id = admin.make('domain', name=name)['id']
        self.path = f'/v3/domains/{self.id}'
        self.project = admin.make('project', name='work', domain_id=self.id)['id']
        self.user = admin.make('user', name='ann', password='pw', domain_id=self.id)['id']
        self.role = cloud.id_of('role', role)
        admin('PUT', f'/v3/projects/{self.project}/users/{self.user}/roles/{self.role}')

    def login(self, scope=None, name='ann', domain=None, code=201):
        reply = self.cloud.call('POST', '/v3/auth/tokens', {'auth': {
            'identity': {'methods': ['password'], 'password': {'user': {
                'name': name, 'password': 'pw', 'domain': domain or {'id': self.id}}}},
            'scope': scope or {'project': {'name': 'work', 'domain': {'name': self.name}}}}})
        assert reply.status_int == code, reply.text
        return reply.headers.get('X-Subject-Token'), reply.json.get('token')

    def granted(self, role):
        """A token of the user for the domain, with a role there."""
        self.admin('PUT', f'{self.path}/users/{self.user}/roles/{self.cloud.id_of("role", role)}')
        return self.login({'domain': {'id': self.id}})[0]


@pytest.fixture
def east(cloud, admin):
    return Domain(cloud, admin)


def test_domain_is_created_changed_and_deleted(cloud, admin):
    made = admin.make('domain', name='East', description='all of it', tags=['a'], own='x@y')
    assert made == {'id': made['id'], 'name': 'East', 'description': 'all of it', 'enabled': True, 'tags': ['a'],
                    'options': {}, 'own': 'x@y',
                    'links': {'self': f'http://cloud.example/identity/v3/domains/{made["id"]}'}}
    path = f'/v3/domains/{made["id"]}'
    assert admin('GET', path)['domain'] == made
    assert [row['id'] for row in admin('GET', '/v3/domains')['domains']] == ['default', made['id']]
    assert [row['id'] for row in admin('GET', '/v3/domains?name=East')['domains']] == [made['id']]
    for name in ('East', 'default', 'DEFAULT'):
        admin('POST', '/v3/domains', {'domain': {'name': name}}, code=409)
    assert admin('PATCH', path, {'domain': {'name': 'West', 'enabled': False}})['domain']['name'] == 'West'
    assert admin('GET', '/v3/domains?enabled=false')['domains'][0]['id'] == made['id']
    admin('PATCH', path, {'domain': {'enabled': True}})
    admin('DELETE', path, code=403)
    admin('PATCH', path, {'domain': {'enabled': False}})
    admin('DELETE', path)
    admin('GET', path, code=404)
    for method, body in (('PATCH', {'domain': {'enabled': False}}), ('DELETE', None)):
        admin(method, '/v3/domains/default', body, code=403)
        admin(method, '/v3/domains/none', body, code=404)


def test_names_are_those_within_a_domain(cloud, admin, east):
    west = Domain(cloud, admin, 'west')
    for each in (east, west):
        admin('POST', '/v3/users', {'user': {'name': 'ann', 'domain_id': each.id}}, code=409)
        admin.make('group', name='all', domain_id=each.id)
        _token, shown = each.login()
        ref = {'id': each.id, 'name': each.name}
        assert shown['user']['id'] == each.user and shown['user']['domain'] == ref
        assert shown['project'] == {'id': each.project, 'name': 'work', 'domain': ref}
        assert [row['id'] for row in admin('GET', f'/v3/users?domain_id={each.id}')['users']] == [each.user]
        assert [row['id'] for row in admin('GET', f'/v3/projects?parent_id={each.id}')['projects']] == [each.project]
        other = west if each is east else east
        assert admin('GET', f'/v3/projects?parent_id={each.id}&domain_id={other.id}')['projects'] == []
        assert admin('GET', f'/v3/projects/{each.project}?parents_as_ids')['project']['parents'] == {each.id: None}
        listed, = admin('GET', f'/v3/role_assignments?user.id={each.user}&include_names')['role_assignments']
        assert listed['user']['domain'] == ref and listed['scope']['project']['domain'] == ref
    east.login(domain={'name': 'Default'}, code=401)
    east.login(domain={'name': 'none'}, code=401)
    east.login({'project': {'name': 'work', 'domain': {'id': west.id}}}, code=401)
    east.login({'domain': {'id': east.id}}, code=401)                    # no role on the domain
    for noun, path in (('user', f'/v3/users/{east.user}'), ('project', f'/v3/projects/{east.project}')):
        admin('PATCH', path, {noun: {'domain_id': west.id}}, code=403)
        assert admin('PATCH', path, {noun: {'domain_id': east.id, 'description': 'd'}})[noun]['domain_id'] == east.id
    for noun in ('user', 'project', 'group', 'role'):
        admin('POST', f'/v3/{noun}s', {noun: {'name': 'x', 'domain_id': 'none'}}, code=404)


def test_a_project_is_in_the_domain_of_its_parent(cloud, admin, east):
    inner = admin.make('project', name='inner', parent_id=east.project)
    assert (inner['domain_id'], inner['parent_id']) == (east.id, east.project)
    top = admin.make('project', name='top', parent_id=east.id)
    assert (top['domain_id'], top['parent_id']) == (east.id, east.id)
    admin('POST', '/v3/projects', {'project': {'name': 'x', 'parent_id': east.project, 'domain_id': 'default'}},
          code=400)
    admin('POST', '/v3/projects', {'project': {'name': 'x', 'parent_id': 'none'}}, code=400)
    admin('PATCH', f'/v3/projects/{top["id"]}', {'project': {'parent_id': east.id}})
    admin('PATCH', f'/v3/projects/{top["id"]}', {'project': {'parent_id': east.project}}, code=403)


def test_a_disabled_domain_ends_tokens_of_its_users_and_projects(cloud, admin, east):
    guest = admin.make('user', name='guest', password='pw')['id']
    admin('PUT', f'/v3/projects/{east.project}/users/{guest}/roles/{east.role}')
    scope = {'project': {'id': east.project}}
    tokens = [east.login()[0], east.login(scope, 'guest', {'id': 'default'})[0]]
    admin('PATCH', east.path, {'domain': {'enabled': False}})
    for token in tokens:
        assert cloud.call('GET', '/v3/auth/projects', token=token).status_int == 401
    east.login(code=401)
    east.login(scope, 'guest', {'id': 'default'}, code=401)
    assert admin('GET', f'/v3/users/{guest}/projects')['projects'] == []
    admin('PATCH', east.path, {'domain': {'enabled': True}})
    assert cloud.call('GET', '/v3/auth/projects', token=tokens[0]).status_int == 401
    assert cloud.call('GET', '/v3/auth/projects', token=east.login()[0]).status_int == 200


def test_deletion_takes_what_belongs_to_the_domain(cloud, admin, east):
    group = admin.make('group', name='g', domain_id=east.id)['id']
    role = admin.make('role', name='r', domain_id=east.id)['id']
    demo = cloud.id_of('user', 'demo')
    admin('PUT', f'{east.path}/users/{demo}/roles/{east.role}')
    admin('PATCH', east.path, {'domain': {'enabled': False}})
    admin('DELETE', east.path)
    for path in (f'users/{east.user}', f'projects/{east.project}', f'groups/{group}', f'roles/{role}'):
        admin('GET', f'/v3/{path}', code=404)
    assert [row['scope'].keys() for row in admin('GET', f'/v3/role_assignments?user.id={demo}')['role_assignments']
            ] == [{'project'}]


def test_inherited_roles_reach_the_projects_of_the_domain(cloud, admin, east):
    demo = cloud.id_of('user', 'demo')
    admin('PUT', f'/v3/OS-INHERIT/domains/{east.id}/users/{demo}/roles/{east.role}/inherited_to_projects')
    reached = {row['name'] for row in admin('GET', f'/v3/users/{demo}/projects')['projects']}
    assert reached == {'demo', 'work'}
    effective = admin('GET', f'/v3/role_assignments?user.id={demo}&effective')['role_assignments']
    assert {row['scope']['project']['id'] for row in effective} == {cloud.id_of('project', 'demo'), east.project}
    admin('PUT', f'{east.path}/users/{demo}/roles/{east.role}')
    found = cloud.call('GET', '/v3/auth/domains', token=cloud.token('demo')).json['domains']
    assert [row['id'] for row in found] == [east.id]


def test_managers_of_a_domain_manage_only_their_domain(cloud, admin, east):
    token, demo = east.granted('manager'), cloud.id_of('user', 'demo')
    group = admin.make('group', name='g')['id']

    def ask(method, path, body=None):
        return cloud.call(method, f'/v3/{path}', body, token)
    made = ask('POST', 'users', {'user': {'name': 'new'}})
    assert made.status_int == 201 and made.json['user']['domain_id'] == east.id
    assert ask('POST', 'projects', {'project': {'name': 'more'}}).json['project']['domain_id'] == east.id
    assert {row['domain_id'] for row in ask('GET', 'users').json['users']} == {east.id}
    assert {row['domain_id'] for row in ask('GET', 'projects').json['projects']} == {east.id}
    assert ask('GET', 'groups').json['groups'] == []
    assert [row['id'] for row in ask('GET', 'domains').json['domains']] == [east.id]
    acting = ask('GET', 'projects?is_domain=true&name=east').json['projects']
    assert [(row['id'], row['domain_id']) for row in acting] == [(east.id, None)]
    assert ask('GET', 'projects?is_domain=true&name=Default').json['projects'] == []
    assert ask('PATCH', f'users/{made.json["user"]["id"]}', {'user': {'description': 'd'}}).status_int == 200
    assert {each['scope'].get('domain', {}).get('id') or each['scope']['project']['id']
            for each in ask('GET', 'role_assignments').json['role_assignments']} == {east.id, east.project}
    role = cloud.id_of('role', 'reader')
    assert ask('PUT', f'projects/{east.project}/users/{made.json["user"]["id"]}/roles/{role}').status_int == 204
    for method, path, body in (
            ('POST', 'users', {'user': {'name': 'x', 'domain_id': 'default'}}),
            ('POST', 'projects', {'project': {'name': 'x', 'parent_id': cloud.id_of('project', 'demo')}}),
            ('POST', 'groups', {'group': {'name': 'x', 'domain_id': 'default'}}),
            ('GET', 'users?domain_id=default', None), ('GET', f'users/{demo}', None), ('GET', f'groups/{group}', None),
            ('PATCH', f'users/{demo}', {'user': {'password': 'taken over'}}), ('DELETE', f'users/{demo}', None),
            ('GET', 'domains/default', None), ('PATCH', f'domains/{east.id}', {'domain': {'name': 'x'}}),
            ('PUT', f'projects/{east.project}/users/{demo}/roles/{role}', None),
            ('PUT', f'projects/{cloud.id_of("project", "demo")}/users/{east.user}/roles/{role}', None),
            ('PUT', f'domains/default/users/{east.user}/roles/{role}', None),
            ('PUT', f'groups/{group}/users/{east.user}', None)):
        assert ask(method, path, body).status_int == 403, (method, path)


def test_managers_of_a_domain_change_users_with_its_domain_specific_roles(cloud, admin, east):
    """Tokens never have such a role, but the roles that it implies."""
    token = east.granted('manager')
    own, above = (admin.make('role', name=name, domain_id=east.id)['id'] for name in ('operator', 'owner'))
    admin('PUT', f'/v3/roles/{own}/implies/{cloud.id_of("role", "member")}', code=201)
    auditor = admin.make('role', name='auditor')['id']                  # the manager does not have this role
    admin('PUT', f'/v3/roles/{above}/implies/{auditor}', code=201)

    def ask(method, path, body=None):
        return cloud.call(method, f'/v3/{path}', body, token).status_int
    for role, refused in ((own, False), (above, True)):
        user = admin.make('user', name='bob', domain_id=east.id)['id']
        group = admin.make('group', name='team', domain_id=east.id)['id']
        admin('PUT', f'/v3/projects/{east.project}/users/{user}/roles/{role}')
        admin('PUT', f'/v3/projects/{east.project}/groups/{group}/roles/{role}')
        member = admin.make('user', name='carol', domain_id=east.id)['id']
        assert ask('PUT', f'groups/{group}/users/{member}') == (403 if refused else 204)
        assert ask('PATCH', f'users/{user}', {'user': {'description': 'd'}}) == (403 if refused else 200)
        assert ask('DELETE', f'users/{user}') == (403 if refused else 204)
        admin('DELETE', f'/v3/users/{member}')
        admin('DELETE', f'/v3/groups/{group}')


def test_limits_of_domains_are_set_and_shown(cloud, admin, east):
    service = admin('GET', '/v3/services')['services'][0]['id']
    admin('POST', '/v3/registered_limits', {'registered_limits': [
        {'service_id': service, 'resource_name': 'things', 'default_limit': 5}]})
    limit = {'service_id': service, 'resource_name': 'things', 'resource_limit': 7}
    made, = admin('POST', '/v3/limits', {'limits': [{**limit, 'domain_id': east.id}]})['limits']
    assert made['domain_id'] == east.id
    admin('POST', '/v3/limits', {'limits': [{**limit, 'domain_id': 'none'}]}, code=400)
    token = east.granted('reader')
    assert [row['id'] for row in cloud.call('GET', '/v3/limits', token=token).json['limits']] == [made['id']]
