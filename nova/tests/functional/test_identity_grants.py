"""Groups, implied roles, inherited roles and the list of role assignments, over HTTP."""
import tracemalloc

import pytest
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db.identity import assignments
from nova.db.identity import directory
from nova.identity.embedded import bootstrap
from nova.identity.embedded import effective_roles
from nova.identity.embedded import grants
from nova.tests import identity_fixture
from nova.tests.support import identity_grants
from nova.tests.support.identity_grants import Admin

cloud = identity_grants.cloud


@pytest.fixture
def admin(cloud):
    return Admin(cloud)


def roles(cloud, token):
    """The names of a token's roles, or None for an invalid token."""
    try:
        return sorted(cloud.service.validate(token).roles)
    except exception.Unauthorized:
        return None


def test_group_is_created_changed_and_deleted(cloud, admin):
    group = admin.make('group', name='ops', description='the operators', domain_id='default', team='a')
    assert group == {'id': group['id'], 'name': 'ops', 'description': 'the operators', 'domain_id': 'default',
                     'team': 'a', 'links': {'self': f'http://cloud.example/identity/v3/groups/{group["id"]}'}}
    path = f'/v3/groups/{group["id"]}'
    assert admin('GET', path)['group'] == group
    for query, found in (('name=ops', [group]), ('name__contains=p', [group]), ('name=other', []), ('domain_id=x', [])):
        assert admin('GET', '/v3/groups?' + query)['groups'] == found
    admin('POST', '/v3/groups', {'group': {'name': 'ops'}}, code=409)
    admin('POST', '/v3/groups', {'group': {'name': 'x', 'domain_id': 'other'}}, code=404)
    assert admin('PATCH', path, {'group': {'name': 'ops2', 'team': None}})['group']['name'] == 'ops2'
    assert 'team' not in admin('GET', path)['group'] and admin('GET', path)['group']['description'] == 'the operators'
    admin('DELETE', path)
    admin('GET', path, code=404)
    admin('DELETE', path, code=404)


def test_group_members_are_managed(cloud, admin):
    group, user = admin.make('group', name='ops')['id'], admin.user()
    path = f'/v3/groups/{group}/users'
    admin('HEAD', f'{path}/{user}', code=404)
    admin('PUT', f'{path}/{user}')
    admin('PUT', f'{path}/{user}')
    admin('HEAD', f'{path}/{user}')
    assert [row['name'] for row in admin('GET', path)['users']] == ['u']
    assert admin('GET', path + '?name=x')['users'] == []
    assert [row['id'] for row in admin('GET', f'/v3/users/{user}/groups')['groups']] == [group]
    admin('PUT', f'{path}/none', code=404)
    admin('PUT', f'/v3/groups/none/users/{user}', code=404)
    admin('DELETE', f'{path}/{user}')
    admin('DELETE', f'{path}/{user}', code=404)
    admin('PUT', f'{path}/{user}')
    admin('DELETE', f'/v3/users/{user}')
    assert admin('GET', path)['users'] == []


def test_a_user_can_be_in_a_bounded_number_of_groups(cloud, admin, monkeypatch):
    monkeypatch.setattr(grants, 'MAX_GROUPS_OF_USER', 1)
    user = admin.user()
    first, second = (admin.make('group', name=name)['id'] for name in 'ab')
    admin('PUT', f'/v3/groups/{first}/users/{user}')
    admin('PUT', f'/v3/groups/{second}/users/{user}', code=403)
    monkeypatch.setattr(grants, 'MAX_MEMBERS', 1)
    admin('PUT', f'/v3/groups/{first}/users/{cloud.id_of("user", "demo")}', code=403)


@pytest.mark.parametrize('target', ['/v3/projects/{project}', '/v3/domains/default', '/v3/system'])
def test_roles_of_a_group_apply_to_its_members(cloud, admin, target):
    group, reader = admin.make('group', name='ops')['id'], cloud.id_of('role', 'reader')
    path = target.format(project=cloud.id_of('project', 'demo')) + f'/groups/{group}/roles'
    admin('HEAD', f'{path}/{reader}', code=404)
    admin('PUT', f'{path}/{reader}')
    admin('HEAD', f'{path}/{reader}')
    assert [row['name'] for row in admin('GET', path)['roles']] == ['reader']
    rows = admin('GET', f'/v3/role_assignments?group.id={group}&include_names')['role_assignments']
    assert [(row['group']['name'], row['group']['domain'], row['role']['name']) for row in rows] == [
        ('ops', {'id': 'default', 'name': 'Default'}, 'reader')]
    assert rows[0]['links']['assignment'] == f'http://cloud.example/identity{path}/{reader}'
    admin('DELETE', f'{path}/{reader}')
    admin('DELETE', f'{path}/{reader}', code=404)
    admin('PUT', f'{path}/none', code=404)


@pytest.mark.parametrize('end', [
    ('DELETE', '/v3/groups/{group}/users/{user}', None), ('DELETE', '/v3/groups/{group}', None),
    ('DELETE', '/v3/projects/{project}/groups/{group}/roles/{role}', None),
    ('PATCH', '/v3/users/{user}', {'user': {'enabled': False}}), ('DELETE', '/v3/users/{user}', None),
    ('PATCH', '/v3/projects/{project}', {'project': {'enabled': False}}), ('DELETE', '/v3/projects/{project}', None),
], ids=['membership', 'group', 'grant', 'user disabled', 'user deleted', 'project disabled', 'project deleted'])
def test_tokens_with_the_role_of_a_group_end_at_once(cloud, admin, end):
    ids = {'group': admin.make('group', name='ops')['id'], 'user': admin.user(),
           'project': admin.make('project', name='p')['id'], 'role': cloud.id_of('role', 'member')}
    admin('PUT', '/v3/groups/{group}/users/{user}'.format(**ids))
    admin('PUT', '/v3/projects/{project}/groups/{group}/roles/{role}'.format(**ids))
    token, _data = cloud.service.login('u', 'pw', 'p')
    assert roles(cloud, token) == ['member', 'reader']
    assert [row['name'] for row in cloud.call('GET', '/v3/auth/projects', token=token).json['projects']] == ['p']
    method, path, body = end
    admin(method, path.format(**ids), body)
    assert roles(cloud, token) is None


def test_a_credential_ends_with_the_membership_that_gave_its_role(cloud, admin):
    group, user, member = admin.make('group', name='ops')['id'], admin.user(), cloud.id_of('role', 'member')
    admin('PUT', f'/v3/groups/{group}/users/{user}')
    admin('PUT', f'/v3/projects/{cloud.id_of("project", "demo")}/groups/{group}/roles/{member}')
    token, _data = cloud.service.login('u', 'pw', 'demo')
    made = cloud.call('POST', f'/v3/users/{user}/application_credentials', {
        'application_credential': {'name': 'c'}}, token).json['application_credential']
    auth = {'identity': {'methods': ['application_credential'], 'application_credential': {
        'id': made['id'], 'secret': made['secret']}}}
    own, _data = cloud.service.logins.authenticate(auth)
    admin('DELETE', f'/v3/groups/{group}/users/{user}')
    assert roles(cloud, own) is None and roles(cloud, token) is None
    with pytest.raises(exception.Unauthorized):
        cloud.service.logins.authenticate(auth)


# ---- implied roles

def test_implied_roles_apply_to_tokens(cloud, admin):
    prior, implied = admin.make('role', name='auditor'), admin.make('role', name='viewer')
    path = f'/v3/roles/{prior["id"]}/implies/{implied["id"]}'
    admin('HEAD', path, code=404)
    made = admin('PUT', path, code=201)['role_inference']
    assert (made['prior_role']['name'], made['implies']['name']) == ('auditor', 'viewer')
    assert made['implies']['links']['self'].endswith(f'/v3/roles/{implied["id"]}')
    admin('PUT', path, code=201)
    admin('HEAD', path, code=200)
    listed = admin('GET', f'/v3/roles/{prior["id"]}/implies')['role_inference']
    assert [role['name'] for role in listed['implies']] == ['viewer']
    rules = {rule['prior_role']['name']: [role['name'] for role in rule['implies']]
             for rule in admin('GET', '/v3/role_inferences')['role_inferences']}
    assert rules == {'admin': ['manager'], 'manager': ['member'], 'member': ['reader'], 'auditor': ['viewer']}
    user = admin.user()
    admin('PUT', f'/v3/projects/{cloud.id_of("project", "demo")}/users/{user}/roles/{prior["id"]}')
    token, _data = cloud.service.login('u', 'pw', 'demo')
    assert roles(cloud, token) == ['auditor', 'viewer']
    admin('DELETE', path)
    assert roles(cloud, token) == ['auditor']
    admin('DELETE', path, code=404)
    admin('PUT', path, code=201)
    admin('DELETE', f'/v3/roles/{implied["id"]}')
    assert roles(cloud, token) == ['auditor']


def test_rules_of_default_roles_cannot_be_deleted_and_none_implies_admin(cloud, admin):
    ids = {name: cloud.id_of('role', name) for name in effective_roles.ROLES}
    admin('DELETE', f'/v3/roles/{ids["member"]}/implies/{ids["reader"]}', code=403)
    admin('PUT', f'/v3/roles/{ids["reader"]}/implies/{ids["admin"]}', code=403)
    admin('PUT', f'/v3/roles/{ids["reader"]}/implies/{ids["reader"]}', code=403)
    admin('PUT', f'/v3/roles/none/implies/{ids["reader"]}', code=404)
    admin('GET', '/v3/roles/none/implies', code=404)


def test_rules_in_a_circle_end(cloud, admin):
    first, second = (admin.make('role', name=name)['id'] for name in ('a', 'b'))
    admin('PUT', f'/v3/roles/{first}/implies/{second}', code=201)
    admin('PUT', f'/v3/roles/{second}/implies/{first}', code=201)
    user = admin.user()
    admin('PUT', f'/v3/projects/{cloud.id_of("project", "demo")}/users/{user}/roles/{first}')
    assert roles(cloud, cloud.service.login('u', 'pw', 'demo')[0]) == ['a', 'b']


def test_domain_specific_roles_are_in_no_token_but_what_they_imply(cloud, admin):
    role = admin.make('role', name='team', domain_id='default')
    assert role['domain_id'] == 'default' and admin('GET', '/v3/roles?name=team')['roles'] == []
    assert [row['name'] for row in admin('GET', '/v3/roles?domain_id=default')['roles']] == ['team']
    user, demo = admin.user(), cloud.id_of('project', 'demo')
    admin('PUT', f'/v3/roles/{role["id"]}/implies/{cloud.id_of("role", "reader")}', code=201)
    admin('PUT', f'/v3/projects/{demo}/users/{user}/roles/{role["id"]}')
    assert roles(cloud, cloud.service.login('u', 'pw', 'demo')[0]) == ['reader']
    admin('PUT', f'/v3/system/users/{user}/roles/{role["id"]}', code=403)
    admin('PUT', f'/v3/roles/{cloud.id_of("role", "reader")}/implies/{role["id"]}', code=403)
    assert admin('PATCH', f'/v3/roles/{role["id"]}', {'role': {'description': 'd'}})['role']['description'] == 'd'
    admin('PATCH', f'/v3/roles/{role["id"]}', {'role': {'domain_id': None}}, code=403)


def test_names_of_roles_are_unique_in_their_domain(cloud, admin):
    other = admin.make('domain', name='other')['id']
    found = {admin.make('role', name='team', **where)['id']
             for where in ({}, {'domain_id': 'default'}, {'domain_id': other})}
    assert len(found) == 3
    for where in ({}, {'domain_id': 'default'}, {'domain_id': other}):
        admin('POST', '/v3/roles', {'role': {'name': 'team', **where}}, code=409)
    assert len(admin('GET', '/v3/roles?name=team')['roles']) == 1
    # one with the name of a default role is none of these
    role = admin.make('role', name='manager', domain_id=other)
    assert role['options'] == {}
    user, demo = admin.user(), cloud.id_of('project', 'demo')
    admin('PUT', f'/v3/projects/{demo}/users/{user}/roles/{role["id"]}')
    with pytest.raises(exception.Unauthorized):
        cloud.service.login('u', 'pw', 'demo')
    again = admin('PATCH', f'/v3/roles/{role["id"]}', {'role': {'name': 'renamed'}})['role']
    assert again['name'] == 'renamed'
    bootstrap.bootstrap(cloud.service)
    assert [row['name'] for row in cloud.service.list('role', name_space=other)] == ['team', 'renamed']
    admin('DELETE', f'/v3/roles/{role["id"]}', code=204)


# ---- inherited roles and the list

def test_inherited_roles_apply_to_child_projects(cloud, admin):
    parent, user, member = admin.make('project', name='top')['id'], admin.user(), cloud.id_of('role', 'member')
    child = admin.make('project', name='below', parent_id=parent)['id']
    path = f'/v3/OS-INHERIT/projects/{parent}/users/{user}/roles'
    admin('PUT', f'{path}/{member}/inherited_to_projects')
    admin('HEAD', f'{path}/{member}/inherited_to_projects')
    assert [row['name'] for row in admin('GET', f'{path}/inherited_to_projects')['roles']] == ['member']
    token, data = cloud.service.login('u', 'pw', 'below')
    assert data.project_id == child and roles(cloud, token) == ['member', 'reader']
    with pytest.raises(exception.Unauthorized):                    # the role is not for the parent itself
        cloud.service.login('u', 'pw', 'top')
    assert [row['name'] for row in admin('GET', f'/v3/users/{user}/projects')['projects']] == ['below']
    rows = admin('GET', f'/v3/role_assignments?user.id={user}')['role_assignments']
    assert [row['scope'] for row in rows] == [{'project': {'id': parent}, 'OS-INHERIT:inherited_to': 'projects'}]
    assert rows[0]['links']['assignment'].endswith(f'{path}/{member}/inherited_to_projects')
    query = f'/v3/role_assignments?user.id={user}&scope.OS-INHERIT:inherited_to=projects'
    assert admin('GET', query)['role_assignments'] == rows
    effective = admin('GET', f'/v3/role_assignments?user.id={user}&effective&include_names')['role_assignments']
    assert sorted((row['scope']['project']['name'], row['role']['name']) for row in effective) == [
        ('below', 'member'), ('below', 'reader')]
    admin('DELETE', f'{path}/{member}/inherited_to_projects')
    assert roles(cloud, token) is None


def test_roles_that_all_projects_inherit(cloud, admin):
    group, user = admin.make('group', name='ops')['id'], admin.user()
    admin('PUT', f'/v3/groups/{group}/users/{user}')
    path = f'/v3/OS-INHERIT/domains/default/groups/{group}/roles/{cloud.id_of("role", "reader")}/inherited_to_projects'
    admin('PUT', path)
    assert roles(cloud, cloud.service.login('u', 'pw', 'demo')[0]) == ['reader']
    assert {row['name'] for row in admin('GET', f'/v3/users/{user}/projects')['projects']} == {
        'admin', 'demo', 'service'}
    rows = admin('GET', f'/v3/role_assignments?user.id={user}&effective')['role_assignments']
    assert len(rows) == 3 and all(row['links']['membership'].endswith(f'/groups/{group}/users/{user}') for row in rows)
    admin('DELETE', path)
    with pytest.raises(exception.Unauthorized):
        cloud.service.login('u', 'pw', 'demo')


def test_role_assignment_filters_select_rows(cloud, admin):
    parent = admin.make('project', name='top')['id']
    child = admin.make('project', name='below', parent_id=parent)['id']
    group, user = admin.make('group', name='ops')['id'], admin.user()
    ids = {name: cloud.id_of('role', name) for name in effective_roles.ROLES}
    admin('PUT', f'/v3/groups/{group}/users/{user}')
    admin('PUT', f'/v3/projects/{child}/groups/{group}/roles/{ids["member"]}')
    admin('PUT', f'/v3/projects/{parent}/users/{user}/roles/{ids["reader"]}')

    def found(query):
        rows = admin('GET', '/v3/role_assignments?include_names&' + query)['role_assignments']
        return sorted((row['user' if 'user' in row else 'group']['name'], row['scope']['project']['name'],
                       row['role']['name']) for row in rows)
    assert found(f'scope.project.id={parent}') == [('u', 'top', 'reader')]
    assert found(f'scope.project.id={parent}&include_subtree') == [('ops', 'below', 'member'), ('u', 'top', 'reader')]
    assert found(f'scope.project.id={parent}&include_subtree&effective') == [
        ('u', 'below', 'member'), ('u', 'below', 'reader'), ('u', 'top', 'reader')]
    assert found(f'scope.project.id={child}&effective&role.id={ids["reader"]}') == [('u', 'below', 'reader')]
    assert found(f'user.id={user}') == [('u', 'top', 'reader')]
    assert found(f'group.id={group}') == [('ops', 'below', 'member')]
    assert ('demo', 'demo', 'member') in found('scope.project.id=default&include_subtree')
    for wrong in ('include_subtree', f'effective&group.id={group}', f'user.id={user}&group.id={group}',
                  'effective&scope.OS-INHERIT:inherited_to=projects',
                  f'scope.project.id={parent}&scope.domain.id=default'):
        admin('GET', '/v3/role_assignments?' + wrong, code=400)


def test_a_long_list_says_that_it_is_truncated(cloud, admin, monkeypatch):
    monkeypatch.setattr(grants, 'MAX_LISTED', 2)
    for query in ('', '?effective'):
        listed = admin('GET', '/v3/role_assignments' + query)
        assert listed['truncated'] and 2 <= len(listed['role_assignments']) <= 5


def test_filters_find_what_stands_after_the_end_of_the_whole_list(cloud, admin, monkeypatch):
    monkeypatch.setattr(grants, 'MAX_LISTED', 2)
    ids = {name: cloud.id_of('role', name) for name in ('manager', 'reader')}
    parent = admin.make('project', name='top')['id']
    admin.make('project', name='below', parent_id=parent)
    for number in range(4):
        user = admin.user(f'u{number}')
        for role in ids.values():
            admin('PUT', f'/v3/projects/{parent}/users/{user}/roles/{role}')
    last = max(cloud.id_of('user', f'u{number}') for number in range(4))
    admin('PUT', f'/v3/OS-INHERIT/projects/{parent}/users/{last}/roles/{ids["reader"]}/inherited_to_projects')

    def users(query):
        return [row['user']['id'] for row in admin('GET', f'/v3/role_assignments?{query}')['role_assignments']]
    assert users('scope.OS-INHERIT:inherited_to=projects') == [last]
    admin('DELETE', f'/v3/projects/{parent}/users/{last}/roles/{ids["manager"]}')
    member = cloud.id_of('role', 'member')
    admin('PUT', f'/v3/projects/{parent}/users/{last}/roles/{member}')
    for number in range(4):
        if (user := cloud.id_of('user', f'u{number}')) != last:
            admin('DELETE', f'/v3/projects/{parent}/users/{user}/roles/{ids["manager"]}')
    assert users(f'scope.project.id={parent}&effective&role.id={member}') == [last]
    for number in range(3):
        group = admin.make('group', name=f'g{number}')['id']             # without members
        admin('PUT', f'/v3/projects/{parent}/groups/{group}/roles/{member}')
    refused = admin('GET', f'/v3/role_assignments?scope.project.id={parent}&effective&role.id={member}', code=400)
    assert 'More than 2 role assignments match' in str(refused)


# ---- callers

MEMBER = '/v3/groups/{group}/users/{user}'
READS = ('/v3/groups', '/v3/groups/{group}', '/v3/groups/{group}/users', MEMBER,
         '/v3/projects/{project}/groups/{group}/roles', '/v3/role_assignments')
WRITES = (('POST', '/v3/groups'), ('PATCH', '/v3/groups/{group}'), ('DELETE', '/v3/groups/{group}'), ('PUT', MEMBER),
          ('DELETE', MEMBER), ('PUT', '/v3/projects/{project}/groups/{group}/roles/{role}'),
          ('PUT', '/v3/OS-INHERIT/projects/{project}/users/{user}/roles/{role}/inherited_to_projects'),
          ('PUT', '/v3/roles/{role}/implies/{reader}'), ('DELETE', '/v3/roles/{role}/implies/{reader}'))


@pytest.mark.parametrize('role', ['manager', 'member', 'reader'])
def test_only_administrators_manage_groups_and_roles(cloud, admin, role):
    """The user has the role on the project of the group, which is like every other place to them."""
    user, group = admin.user(), admin.make('group', name='ops')['id']
    ids = {'user': user, 'group': group, 'project': cloud.id_of('project', 'demo'), 'role': cloud.id_of('role', role),
           'reader': cloud.id_of('role', 'reader')}
    admin('PUT', '/v3/projects/{project}/users/{user}/roles/{role}'.format(**ids))
    token, _data = cloud.service.login('u', 'pw', 'demo')
    before = admin('GET', '/v3/role_assignments')['role_assignments']
    for method, path in [('GET', path) for path in READS] + list(WRITES):
        for known in (ids, ids | {'group': 'unknown'}):                # the answer does not tell whether it exists
            body = {'group': {'name': 'x'}} if 'groups' in path else {}
            assert cloud.call(method, path.format(**known), body, token).status_int == 403, (method, path)
    assert admin('GET', '/v3/role_assignments')['role_assignments'] == before
    assert cloud.call('GET', f'/v3/users/{user}/groups', token=token).status_int == 200
    assert cloud.call('GET', f'/v3/users/{cloud.id_of("user", "admin")}/groups', token=token).status_int == 403


def test_a_manager_of_the_domain_gives_no_role_beyond_the_own_ones(cloud, admin):
    """Neither by an assignment, nor by a group."""
    user, group, other = admin.user(), admin.make('group', name='ops')['id'], admin.make('group', name='helpers')['id']
    ids = {name: cloud.id_of('role', name) for name in effective_roles.ROLES}
    admin('PUT', f'/v3/domains/default/users/{user}/roles/{ids["manager"]}')
    admin('PUT', f'/v3/system/groups/{group}/roles/{ids["admin"]}')
    admin('PUT', f'/v3/projects/{cloud.id_of("project", "demo")}/groups/{other}/roles/{ids["member"]}')
    body = identity_fixture.password_auth('u', 'pw')
    body['auth']['scope'] = {'domain': {'id': 'default'}}
    token = cloud.call('POST', '/v3/auth/tokens', body).headers['X-Subject-Token']
    assert roles(cloud, token) == ['manager', 'member', 'reader']
    path = f'/v3/projects/{cloud.id_of("project", "demo")}/users/{user}/roles/'
    codes = {name: cloud.call('PUT', path + role, token=token).status_int for name, role in ids.items()}
    assert codes == {'admin': 403, 'service': 403, 'manager': 204, 'member': 204, 'reader': 204}
    assert cloud.call('PUT', f'/v3/groups/{group}/users/{user}', token=token).status_int == 403
    assert cloud.call('PUT', f'/v3/groups/{other}/users/{user}', token=token).status_int == 204
    assert cloud.call('PUT', f'/v3/system/users/{user}/roles/{ids["reader"]}', token=token).status_int == 403


def test_a_manager_of_the_domain_takes_no_user_over(cloud, admin):
    """A new password would give the manager the roles that a user has, in a group or by a trust too."""
    boss, plain = admin.user('boss'), admin.user('plain')
    ids = {name: cloud.id_of('role', name) for name in effective_roles.ROLES}
    admin('PUT', f'/v3/domains/default/users/{boss}/roles/{ids["manager"]}')
    admin('PUT', f'/v3/projects/{cloud.id_of("project", "demo")}/users/{plain}/roles/{ids["member"]}')
    grouped, trustee, group = admin.user('grouped'), admin.user('trustee'), admin.make('group', name='ops')['id']
    admin('PUT', f'/v3/groups/{group}/users/{grouped}')
    admin('PUT', f'/v3/domains/default/groups/{group}/roles/{ids["admin"]}')
    admin('POST', '/v3/OS-TRUST/trusts', {'trust': {
        'trustor_user_id': cloud.id_of('user', 'admin'), 'trustee_user_id': trustee, 'impersonation': False,
        'project_id': cloud.id_of('project', 'admin'), 'roles': [{'name': 'admin'}]}})
    body = identity_fixture.password_auth('boss', 'pw')
    body['auth']['scope'] = {'domain': {'id': 'default'}}
    token = cloud.call('POST', '/v3/auth/tokens', body).headers['X-Subject-Token']
    for user in (cloud.id_of('user', 'admin'), cloud.id_of('user', 'nova'), grouped, trustee):
        for method, change in (('PATCH', {'user': {'password': 'taken over'}}), ('DELETE', None)):
            assert cloud.call(method, f'/v3/users/{user}', change, token).status_int == 403, (user, method)
    assert cloud.call('PATCH', f'/v3/users/{plain}', {'user': {'password': 'new'}}, token).status_int == 200
    assert cloud.call('DELETE', f'/v3/users/{plain}', token=token).status_int == 204


def test_lists_of_large_trees(cloud, admin):
    """SQLite limits the depth of expressions, and the number of statements is that of a small tree."""
    top, user, reader = admin.make('project', name='top')['id'], admin.user(), cloud.id_of('role', 'reader')

    def fill(conn):
        for number in range(1100):
            directory.create(conn, 'project', {
                'id': f'p{number}', 'domain_id': 'default', 'name': f'p{number}', 'description': '', 'enabled': True,
                'tags': [], 'parent_id': top, 'created_at': utils.utcnow()})
    cloud.service.db.run(fill)
    admin('PUT', f'/v3/OS-INHERIT/projects/{top}/users/{user}/roles/{reader}/inherited_to_projects')
    path = f'/v3/role_assignments?scope.project.id={top}&include_subtree'
    assert len(admin('GET', path)['role_assignments']) == 1
    statements = []
    sa.event.listen(cloud.db.engine, 'before_cursor_execute', lambda *given: statements.append(given[2]))
    assert len(admin('GET', path + '&effective')['role_assignments']) == 1100
    assert len(statements) < 20
    assert len(admin('GET', f'/v3/projects/{top}?subtree_as_ids')['project']['subtree']) == 1100


def test_effective_assignments_of_large_groups_are_listed_quickly(cloud, admin):
    """Members are counted only where a role matches."""
    reader = cloud.id_of('role', 'reader')

    def fill(conn):
        for number in range(300):
            directory.create(conn, 'user', {'id': f'u{number}', 'domain_id': 'default', 'name': f'u{number}',
                                            'enabled': True, 'created_at': utils.utcnow()})
            directory.create(conn, 'project', {
                'id': f'p{number}', 'domain_id': 'default', 'name': f'p{number}', 'description': '', 'enabled': True,
                'tags': [], 'created_at': utils.utcnow()})
        directory.create(conn, 'group', {'id': 'g', 'domain_id': 'default', 'name': 'g', 'description': '',
                                         'created_at': utils.utcnow()})
        for number in range(300):
            assignments.add_member(conn, 'g', f'u{number}')
            assignments.assign(conn, 'g', 'project', f'p{number}', reader, 'group')
    cloud.service.db.run(fill)
    tracemalloc.start()
    try:
        found = admin('GET', f'/v3/role_assignments?effective&role.id={cloud.id_of("role", "service")}')
        assert tracemalloc.get_traced_memory()[1] < 20 * 2 ** 20
    finally:
        tracemalloc.stop()
    assert [row['user']['id'] for row in found['role_assignments']] == [cloud.id_of('user', 'nova')]
