"""Logins, tokens, revocation and application credentials: what gives access, and what ends it."""
import datetime
import logging
import threading

import pytest

from nova import exception
from nova import utils
from nova.db.identity import directory as queries
from nova.identity import passwords
from nova.identity.embedded import bootstrap
from nova.identity.embedded import directory
from nova.identity.rest import app
from nova.tests import identity_fixture

password_auth = identity_fixture.password_auth


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path)


def with_standing_delays(path, **options):
    """A cloud in which no delay after failed logins ends, however slow the machine is."""
    return identity_fixture.IdentityCloud(path, elapsed=lambda: 1000.0, **options)


def login(cloud, body, **more):
    return cloud.call('POST', '/v3/auth/tokens', body, **more)


def valid(cloud, token):
    try:
        return cloud.service.validate(token)
    except exception.Unauthorized:
        return None


def show(cloud, subject, token, query='', method='GET'):
    return cloud.call(method, '/v3/auth/tokens' + query, token=token, X_Subject_Token=subject)


# ---- what a login gives

def test_password_login_returns_a_project_token(cloud):
    reply = login(cloud, password_auth('admin', cloud.passwords['admin'], 'admin'))
    assert reply.status_int == 201
    body = reply.json['token']
    assert body['project']['name'] == 'admin' and body['user']['name'] == 'admin'
    assert body['user']['domain'] == body['project']['domain'] == {'id': 'default', 'name': 'Default'}
    assert [role['name'] for role in body['roles']].count('admin') == 1
    assert {role['name'] for role in body['roles']} == {'admin', 'manager', 'member', 'reader'}
    urls = {row['type']: row['endpoints'][0]['url'] for row in body['catalog']}
    assert urls['compute'] == 'http://cloud.example/compute/v2.1'
    assert body['methods'] == ['password'] and len(body['audit_ids']) == 1
    assert reply.headers['X-Subject-Token'] not in reply.text
    left = datetime.datetime.strptime(body['expires_at'], '%Y-%m-%dT%H:%M:%S.%fZ') - utils.utcnow()
    assert datetime.timedelta(minutes=59) < left <= datetime.timedelta(hours=1)


def test_requested_scopes_are_granted_or_refused(cloud):
    body = password_auth('admin', cloud.passwords['admin'])
    assert login(cloud, body).json['token']['project']['name'] == 'admin'        # the default project
    body['auth']['scope'] = {'unscoped': {}}
    unscoped = login(cloud, body)
    assert not {'roles', 'project', 'catalog', 'domain'} & set(unscoped.json['token'])
    body['auth']['scope'] = {'domain': {'name': 'default'}}
    assert login(cloud, body).json['token']['domain']['id'] == 'default'
    body['auth']['scope'] = {'project': {'id': cloud.id_of('project', 'admin')}}
    assert login(cloud, body).status_int == 201
    for scope in ({'project': {'id': cloud.id_of('project', 'demo')}}, {'project': {'id': 'none'}},
                  {'project': {'name': 'none', 'domain': {'id': 'default'}}}, {'project': {'name': 'admin'}},
                  {'project': {'name': 'admin', 'domain': {'id': 'other'}}}, {'domain': {'id': 'other'}},
                  {'system': {}}, {'system': {'all': False}}, {'OS-TRUST:trust': {'id': 'x'}}, {}):
        body['auth']['scope'] = scope
        assert login(cloud, body).status_int == 401, scope
    demo = password_auth('demo', cloud.passwords['demo'])
    demo['auth']['scope'] = {'domain': {'id': 'default'}}
    assert login(cloud, demo).status_int == 401


def test_system_role_gives_a_system_token(cloud):
    """Who holds a role on the system gets a token of it; a role in a project or on the domain is none there."""
    body = password_auth('admin', cloud.passwords['admin'])
    body['auth']['scope'] = {'system': {'all': True}}
    made = login(cloud, body)
    shown = made.json['token']
    assert shown['system'] == {'all': True} and not {'project', 'domain'} & set(shown) and shown['catalog']
    assert {role['name'] for role in shown['roles']} == {'admin', 'manager', 'member', 'reader'}
    token, demo = made.headers['X-Subject-Token'], cloud.id_of('user', 'demo')
    assert cloud.call('GET', '/v3/auth/system', token=token).json['system'] == [{'all': True}]
    body = password_auth('demo', cloud.passwords['demo'])
    body['auth']['scope'] = {'system': {'all': True}}
    assert login(cloud, body).status_int == 401
    path = f'/v3/system/users/{demo}/roles'
    reader = cloud.id_of('role', 'reader')
    assert cloud.call('PUT', f'{path}/{reader}', token=cloud.token('demo')).status_int == 403
    assert cloud.call('PUT', f'{path}/{reader}', token=token).status_int == 204
    assert [role['name'] for role in cloud.call('GET', path, token=token).json['roles']] == ['reader']
    assert cloud.call('HEAD', f'{path}/{reader}', token=token).status_int == 204
    found = cloud.call('GET', f'/v3/role_assignments?scope.system=all&user.id={demo}&include_names', token=token)
    found, = found.json['role_assignments']
    assert found['scope'] == {'system': {'all': True}} and found['links']['assignment'].endswith(f'{path}/{reader}')
    theirs = login(cloud, body)
    assert [role['name'] for role in theirs.json['token']['roles']] == ['reader']
    assert cloud.call('POST', '/v3/projects', {'project': {'name': 'x'}},
                      token=theirs.headers['X-Subject-Token']).status_int == 403
    assert cloud.call('DELETE', f'{path}/{reader}', token=token).status_int == 204
    assert cloud.call('GET', '/v3/projects', token=theirs.headers['X-Subject-Token']).status_int == 401


def test_a_token_for_a_token_lives_no_longer(cloud):
    body = password_auth('admin', cloud.passwords['admin'])
    body['auth']['scope'] = {'unscoped': {}}
    first = login(cloud, body)
    token = first.headers['X-Subject-Token']
    second = login(cloud, {'auth': {'identity': {'methods': ['token'], 'token': {'id': token}},
                                    'scope': {'project': {'name': 'admin', 'domain': {'id': 'default'}}}}})
    assert second.json['token']['expires_at'] == first.json['token']['expires_at']
    assert second.json['token']['methods'] == ['token', 'password']
    assert second.json['token']['audit_ids'][1] == first.json['token']['audit_ids'][0]
    assert cloud.call('GET', '/v3/auth/projects', token=token).json['projects'][0]['name'] == 'admin'
    assert cloud.call('GET', '/v3/auth/catalog', token=token).status_int == 403
    assert cloud.call('GET', '/v3/auth/catalog', token=second.headers['X-Subject-Token']).status_int == 200


def test_a_token_that_another_process_revoked_gives_nothing_that_lasts(cloud):
    """Another process still has it in its cache."""
    other, token, user = cloud.sibling(), cloud.token('demo'), cloud.id_of('user', 'demo')
    other.validate(token)
    cloud.service.update_user(user, password='new')
    assert other.validate(token).user_id == user                 # from the cache
    with pytest.raises(exception.Unauthorized):
        other.logins.authenticate({'identity': {'methods': ['token'], 'token': {'id': token}}})
    cloud.service = other
    other.tokens.forget()
    fresh = other.login('demo', 'new', 'demo')[0]
    other.validate(fresh)
    third = cloud.sibling()
    third.update_user(user, password='newer')
    cloud.app = app.Application(other)
    path = f'/v3/users/{user}/application_credentials'
    assert cloud.call('GET', path, token=fresh).status_int == 200            # from the cache
    body = {'application_credential': {'name': 'c'}}
    assert cloud.call('POST', path, body, fresh).status_int == 401


def test_two_methods_must_prove_the_same_user(cloud):
    body = password_auth('admin', cloud.passwords['admin'], 'admin')
    identity = body['auth']['identity']
    identity['methods'] = ['password', 'token']
    identity['token'] = {'id': cloud.token('demo')}
    assert login(cloud, body).status_int == 401
    identity['token'] = {'id': cloud.token('admin')}
    assert login(cloud, body).status_int == 201
    identity['password']['user']['password'] = 'wrong'
    assert login(cloud, body).status_int == 401


# ---- failed logins

def test_every_refusal_reads_the_same(cloud):
    demo = cloud.id_of('user', 'demo')
    cloud.service.update_user(demo, enabled=False)
    replies = {(reply.status_int, reply.body) for reply in (
        login(cloud, password_auth('admin', 'wrong', 'admin')),
        login(cloud, password_auth('nobody', 'wrong', 'admin')),
        login(cloud, password_auth('demo', cloud.passwords['demo'], 'demo')),
        login(cloud, password_auth('admin', cloud.passwords['admin'], 'demo')),
        login(cloud, password_auth('admin', cloud.passwords['admin'], 'none')))}
    assert len(replies) == 1 and next(iter(replies))[0] == 401


def test_failed_logins_wait(tmp_path):
    now = [1000.0]
    cloud = identity_fixture.IdentityCloud(tmp_path, max_login_failures=3, elapsed=lambda: now[0])
    for name in ('admin', 'nobody'):
        codes = [login(cloud, password_auth(name, 'wrong')).status_int for _ in range(5)]
        assert codes == [401, 401, 401, 429, 429], name
    right = password_auth('admin', cloud.passwords['admin'], 'admin')
    refused = login(cloud, right)
    assert refused.status_int == 429 and refused.headers['Retry-After'] == '1'
    assert refused.json['error']['title'] == 'Too Many Requests'
    assert login(cloud, right, address='192.0.2.2').status_int == 201       # another address
    by_id = {'auth': {'identity': {'methods': ['password'], 'password': {'user': {
        'id': cloud.id_of('user', 'admin'), 'password': cloud.passwords['admin']}}}}}
    assert login(cloud, by_id).status_int == 429                            # the same user by another word
    forwarded = login(cloud, right, X_Forwarded_For='203.0.113.1')
    assert forwarded.status_int == 429                              # a client cannot choose its address
    now[0] += 1.1
    assert login(cloud, right).status_int == 201                    # later it is good
    assert login(cloud, password_auth('admin', 'wrong')).status_int == 401


def test_many_addresses_do_not_lock_a_user_out(tmp_path):
    """They fail for the user for as long as they like; who did not fail logs in, and is not even late."""
    cloud = with_standing_delays(tmp_path, max_login_failures=3)
    right = password_auth('demo', cloud.passwords['demo'], 'demo')
    assert login(cloud, right, address='198.51.100.1').status_int == 201
    answers = {}
    for _ in range(3):
        for number in range(1, 12):
            address = f'192.0.2.{number}'
            reply = login(cloud, password_auth('demo', 'wrong'), address=address)
            answers.setdefault(number, []).append(reply.status_int)
    assert [codes.count(401) for codes in answers.values()] == [2, 2] + 9 * [1]        # the rest waits
    for address in ('198.51.100.1', '198.51.100.2', '::ffff:198.51.100.3', '2001:db8::1'):
        assert login(cloud, right, address=address).status_int == 201, address
    typo = [login(cloud, password_auth('demo', 'typo'), address='198.51.100.1').status_int for _ in range(3)]
    assert typo == [401, 401, 401]                                  # the user's own address has its free tries


def test_a_burst_of_guesses_gets_no_more_answers(tmp_path):
    cloud = with_standing_delays(tmp_path, max_login_failures=3)
    codes = []
    bodies = [password_auth('admin', f'wrong {number}', 'admin') for number in range(16)]
    threads = [threading.Thread(target=lambda body=body: codes.append(login(cloud, body).status_int))
               for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) <= {401, 429}
    assert login(cloud, password_auth('admin', cloud.passwords['admin'], 'admin')).status_int == 429


def test_the_right_guess_of_a_burst_is_not_told(tmp_path, monkeypatch):
    cloud = with_standing_delays(tmp_path, max_login_failures=3)
    real, right = passwords.matches, cloud.passwords['admin']

    def slow_for_the_right_one(password, stored, rounds):
        if password == right:            # others of the burst fail meanwhile
            for _ in range(3):
                cloud.service.checks.delays.failed(cloud.id_of('user', 'admin'), '192.0.2.1')
        return real(password, stored, rounds)
    monkeypatch.setattr(passwords, 'matches', slow_for_the_right_one)
    assert login(cloud, password_auth('admin', right, 'admin')).status_int == 429


def test_success_starts_the_count_again(tmp_path):
    cloud = identity_fixture.IdentityCloud(tmp_path, max_login_failures=2)
    for _ in range(4):
        assert login(cloud, password_auth('demo', 'wrong')).status_int == 401
        assert login(cloud, password_auth('demo', cloud.passwords['demo'])).status_int == 201


def test_logs_hold_no_secret_and_no_typed_name(cloud, caplog):
    caplog.set_level(logging.DEBUG)
    login(cloud, password_auth('canary-typed-into-name', 'canary-password'))
    login(cloud, password_auth('demo', 'canary-password'))
    reply = login(cloud, password_auth('demo', cloud.passwords['demo'], 'demo'))
    token = reply.headers['X-Subject-Token']
    secret = credential(cloud, token).json['application_credential']['secret']
    cloud.call('POST', '/v3/users', b'{"user": {"name": "canary-body", "password": 5}}', cloud.token())
    assert 'Login refused for user' in caplog.text
    for word in ('canary', token[:30], secret, cloud.passwords['demo']):
        assert word not in caplog.text, word


def test_the_database_holds_no_secret(cloud):
    token = cloud.token('demo')
    reply = cloud.call('POST', f'/v3/users/{cloud.id_of("user", "demo")}/application_credentials',
                       {'application_credential': {'name': 'c', 'secret': 'canary-secret'}}, token)
    assert reply.status_int == 201
    content = b''.join(path.read_bytes() for path in cloud.path.glob('api.sqlite*'))
    for word in ('canary-secret', cloud.passwords['demo'], token):
        assert word.encode() not in content


# ---- validation and revocation over HTTP

def test_token_is_shown_to_its_user_services_and_administrators(cloud):
    admin, demo, service = cloud.token(), cloud.token('demo'), cloud.token('nova')
    for caller in (admin, demo, service):
        reply = show(cloud, demo, caller)
        assert reply.status_int == 200 and reply.json['token']['user']['name'] == 'demo'
        assert reply.headers['X-Subject-Token'] == demo
    assert 'catalog' in show(cloud, demo, admin).json['token']
    assert 'catalog' not in show(cloud, demo, admin, '?nocatalog').json['token']
    assert show(cloud, demo, admin, method='HEAD').status_int == 200
    assert show(cloud, demo, admin, method='HEAD').body == b''
    assert show(cloud, admin, demo).status_int == 403
    assert show(cloud, 'forged', admin).status_int == 404
    assert show(cloud, '', admin).status_int == 404
    assert show(cloud, admin, 'forged').status_int == 401


def test_revoking_really_revokes(cloud):
    admin, demo = cloud.token(), cloud.token('demo')
    other, sibling = cloud.token('demo'), cloud.sibling()
    assert show(cloud, admin, demo, method='DELETE').status_int == 403
    assert valid(cloud, admin)
    assert show(cloud, demo, demo, method='DELETE').status_int == 204
    assert valid(cloud, demo) is None
    assert show(cloud, demo, admin).status_int == 404
    with pytest.raises(exception.Unauthorized):
        sibling.validate(demo)
    rescope = {'auth': {'identity': {'methods': ['token'], 'token': {'id': demo}}}}
    assert login(cloud, rescope).status_int == 401
    assert valid(cloud, other)                                              # only the one
    assert show(cloud, other, admin, method='DELETE').status_int == 204
    assert valid(cloud, other) is None
    assert show(cloud, other, admin, method='DELETE').status_int == 404


def test_tokens_expire(cloud, monkeypatch):
    token, admin = cloud.token('demo'), cloud.token('admin')
    assert valid(cloud, token)
    cloud.service.forget()
    late = utils.utcnow() + datetime.timedelta(hours=1, seconds=1)
    monkeypatch.setattr(utils, 'utcnow', lambda: late)
    assert valid(cloud, token) is None
    fresh, service = cloud.token('demo'), cloud.token('nova')
    assert show(cloud, token, service).status_int == 404
    assert show(cloud, token, service, '?allow_expired=1').status_int == 200
    assert show(cloud, token, fresh, '?allow_expired=1').status_int == 404      # for services only
    assert valid(cloud, token) is None                                          # and not remembered as good
    assert cloud.call('GET', '/v3/users', token=admin).status_int == 401
    cloud.service.forget()
    too_late = late + datetime.timedelta(days=3)
    monkeypatch.setattr(utils, 'utcnow', lambda: too_late)
    assert show(cloud, token, cloud.token('nova'), '?allow_expired=1').status_int == 404


def test_a_remembered_token_ends_in_time(tmp_path):
    cloud = identity_fixture.IdentityCloud(tmp_path, token_expiration=60, validation_cache_time=300)
    token = cloud.token('demo')
    cloud.service.validate(token)
    _data, until = cloud.service.tokens._cache[token]
    assert until <= (cloud.service.validate(token).claims.expires_at
                     - datetime.datetime(1970, 1, 1)).total_seconds() + 0.1


@pytest.mark.parametrize('end', [
    lambda s, user, project, role: s.update_user(user, password='another'),
    lambda s, user, project, role: s.update_user(user, enabled=False),
    lambda s, user, project, role: s.delete_user(user),
    lambda s, user, project, role: s.update_project(project, enabled=False),
    lambda s, user, project, role: s.delete_project(project),
    lambda s, user, project, role: s.unassign_role(user, role, 'project', project),
], ids=['password', 'user disabled', 'user deleted', 'project disabled', 'project deleted', 'role gone'])
def test_access_ends_with_what_it_rests_on(cloud, end):
    ids = cloud.id_of('user', 'demo'), cloud.id_of('project', 'demo'), cloud.id_of('role', 'member')
    token, sibling = cloud.token('demo'), cloud.sibling()
    assert valid(cloud, token)
    end(cloud.service, *ids)
    assert valid(cloud, token) is None
    with pytest.raises(exception.Unauthorized):
        sibling.validate(token)


def test_enabling_a_user_again_does_not_revive_tokens(cloud):
    token, user = cloud.token('demo'), cloud.id_of('user', 'demo')
    cloud.service.update_user(user, enabled=False)
    cloud.service.update_user(user, enabled=True)
    assert valid(cloud, token) is None
    assert valid(cloud, cloud.token('demo'))


def test_a_role_that_changes_shows_at_once(cloud):
    token = cloud.token('demo')
    assert 'admin' not in cloud.service.validate(token).roles
    ids = (cloud.id_of('user', 'demo'), cloud.id_of('role', 'manager'), 'project',
           cloud.id_of('project', 'demo'))
    cloud.service.assign_role(*ids)
    assert 'manager' in cloud.service.validate(token).roles
    cloud.service.unassign_role(*ids)
    assert set(cloud.service.validate(token).roles) == {'member', 'reader'}


def test_own_password_change_needs_the_old_password(tmp_path):
    cloud = with_standing_delays(tmp_path)
    user, token = cloud.id_of('user', 'demo'), cloud.token('demo')
    path = f'/v3/users/{user}/password'

    def change(original, new):
        return cloud.call('POST', path, {'user': {'original_password': original, 'password': new}}).status_int
    assert change('wrong', 'new-password') == 401
    assert valid(cloud, token)
    assert change(cloud.passwords['demo'], 'new-password') == 204
    assert valid(cloud, token) is None
    assert login(cloud, password_auth('demo', 'new-password')).status_int == 201
    assert cloud.call('POST', '/v3/users/none/password',
                      {'user': {'original_password': 'x', 'password': 'y'}}).status_int == 401
    codes = [change('wrong', 'x') for _ in range(12)]
    assert codes[0] == 401 and codes[-1] == 429


# ---- application credentials

def credential(cloud, token, user='demo', **body):
    return cloud.call('POST', f'/v3/users/{cloud.id_of("user", user)}/application_credentials',
                      {'application_credential': {'name': 'c'} | body}, token)


def by_credential(made, **scope):
    return {'auth': {'identity': {'methods': ['application_credential'], 'application_credential': {
        'id': made['id'], 'secret': made['secret']}}} | scope}


def test_a_credential_logs_in_to_its_project(cloud):
    made = credential(cloud, cloud.token('demo')).json['application_credential']
    assert {role['name'] for role in made['roles']} == {'member', 'reader'}
    body = login(cloud, by_credential(made)).json['token']
    assert body['project']['name'] == 'demo' and body['methods'] == ['application_credential']
    assert body['application_credential'] == {'id': made['id'], 'name': 'c', 'restricted': True}
    by_name = {'auth': {'identity': {'methods': ['application_credential'], 'application_credential': {
        'name': 'c', 'secret': made['secret'], 'user': {'name': 'demo', 'domain': {'id': 'default'}}}}}}
    assert login(cloud, by_name).status_int == 201
    by_name['auth']['identity']['application_credential']['secret'] = 'wrong'
    assert login(cloud, by_name).status_int == 401
    path = f'/v3/users/{cloud.id_of("user", "demo")}/application_credentials'
    listed = cloud.call('GET', path, token=cloud.token('demo')).json['application_credentials']
    assert [row['id'] for row in listed] == [made['id']] and 'secret' not in listed[0]
    assert credential(cloud, cloud.token('demo')).status_int == 409


def test_a_credential_gives_no_more_than_its_creator_has(cloud):
    token = cloud.token('demo')
    for roles in ([{'name': 'admin'}], [{'id': cloud.id_of('role', 'manager')}], [{'name': 'none'}]):
        assert credential(cloud, token, roles=roles).status_int == 400, roles
    made = credential(cloud, token, roles=[{'name': 'reader'}]).json['application_credential']
    assert [role['name'] for role in login(cloud, by_credential(made)).json['token']['roles']] == ['reader']


def test_a_credential_reaches_no_other_project(cloud):
    cloud.service.assign_role(cloud.id_of('user', 'demo'), cloud.id_of('role', 'member'), 'project',
                              cloud.id_of('project', 'admin'))
    made = credential(cloud, cloud.token('demo')).json['application_credential']
    elsewhere = {'project': {'id': cloud.id_of('project', 'admin')}}
    assert login(cloud, by_credential(made, scope=elsewhere)).status_int == 401
    token = login(cloud, by_credential(made)).headers['X-Subject-Token']
    rescope = {'auth': {'identity': {'methods': ['token'], 'token': {'id': token}}, 'scope': elsewhere}}
    assert login(cloud, rescope).status_int == 401
    rescope['auth']['scope'] = {'unscoped': {}}
    assert login(cloud, rescope).status_int == 401
    del rescope['auth']['scope']
    again = login(cloud, rescope).json['token']
    assert again['project']['name'] == 'demo' and again['application_credential']['restricted']


def test_a_restricted_credential_makes_no_credentials(cloud):
    owner = cloud.token('demo')
    made = credential(cloud, owner).json['application_credential']
    token = login(cloud, by_credential(made)).headers['X-Subject-Token']
    assert credential(cloud, token, name='d').status_int == 403
    path = f'/v3/users/{cloud.id_of("user", "demo")}/application_credentials/{made["id"]}'
    assert cloud.call('DELETE', path, token=token).status_int == 403
    # nor does a token that was got for its token
    rescoped = login(cloud, {'auth': {'identity': {'methods': ['token'], 'token': {'id': token}}}})
    assert credential(cloud, rescoped.headers['X-Subject-Token'], name='d').status_int == 403
    free = credential(cloud, owner, name='free', unrestricted=True, roles=[{'name': 'reader'}])
    token = login(cloud, by_credential(free.json['application_credential'])).headers['X-Subject-Token']
    assert credential(cloud, token, name='e').status_int == 201
    assert credential(cloud, token, name='f', roles=[{'name': 'member'}]).status_int == 400


def test_a_user_has_a_bounded_number_of_credentials(cloud, monkeypatch):
    monkeypatch.setattr(directory, 'MAX_CREDENTIALS', 2)
    token = cloud.token('demo')
    assert [credential(cloud, token, name=name).status_int for name in 'abc'] == [201, 201, 403]
    assert credential(cloud, cloud.token('admin'), user='admin').status_int == 201           # of each user


def test_an_unrestricted_credential_makes_nothing_that_gives_more_than_it_has(cloud):
    """Its holder could log in by a device of the owner, or sign with keys: both have all roles of the owner."""
    demo, projects = cloud.id_of('user', 'demo'), {name: cloud.id_of('project', name) for name in ('demo', 'admin')}
    cloud.service.assign_role(demo, cloud.id_of('role', 'member'), 'project', projects['admin'])
    owner, ec2 = cloud.token('demo'), f'/v3/users/{demo}/credentials/OS-EC2'
    device = {'credential': {'type': 'totp', 'user_id': demo, 'blob': 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'}}
    kept = {name: cloud.call('POST', ec2, {'tenant_id': project}, owner).json['credential']
            for name, project in projects.items()}
    tokens = []
    for name, roles in (('whole', None), ('narrow', [{'name': 'reader'}])):
        made = credential(cloud, owner, name=name, unrestricted=True, roles=roles).json['application_credential']
        tokens.append(login(cloud, by_credential(made)).headers['X-Subject-Token'])
    whole, narrow = tokens
    for token, beyond in ((whole, {'admin'}), (narrow, {'admin', 'demo'})):
        assert cloud.call('POST', '/v3/credentials', device, token).status_int == 403
        for name, project in projects.items():
            refused = 403 if name in beyond else None
            for method, path, body in (('POST', ec2, {'tenant_id': project}),
                                       ('GET', f'{ec2}/{kept[name]["access"]}', None)):
                reply = cloud.call(method, path, body, token)
                assert (reply.status_int == 403) == bool(refused), (name, method)
                assert not refused or kept[name]['secret'] not in reply.text
        for path in (ec2, '/v3/credentials'):
            shown = cloud.call('GET', path, token=token)
            assert shown.status_int == 200
            assert {name for name in kept if kept[name]['secret'] in shown.text} == projects.keys() - beyond


@pytest.mark.parametrize('end', [
    lambda s, user, project, role, cred: s.unassign_role(user, role, 'project', project),
    lambda s, user, project, role, cred: s.update_user(user, enabled=False),
    lambda s, user, project, role, cred: s.delete_user(user),
    lambda s, user, project, role, cred: s.delete_project(project),
    lambda s, user, project, role, cred: s.delete_row('application_credential', cred),
], ids=['role gone', 'user disabled', 'user deleted', 'project deleted', 'deleted'])
def test_a_credential_dies_with_what_it_rests_on(cloud, end):
    ids = cloud.id_of('user', 'demo'), cloud.id_of('project', 'demo'), cloud.id_of('role', 'member')
    # a second role: what is left when the first one goes must not keep the credential alive
    cloud.service.assign_role(ids[0], cloud.id_of('role', 'reader'), 'project', ids[1])
    made = credential(cloud, cloud.token('demo')).json['application_credential']
    token = login(cloud, by_credential(made)).headers['X-Subject-Token']
    assert valid(cloud, token)
    end(cloud.service, *ids, made['id'])
    assert valid(cloud, token) is None
    assert login(cloud, by_credential(made)).status_int == 401


def test_a_credential_expires_and_its_tokens_with_it(cloud, monkeypatch):
    token = cloud.token('demo')
    for wrong in ('2020-01-01T00:00:00', 'soon', '0001-01-01T00:00:00+10:00', ''):
        assert credential(cloud, token, expires_at=wrong).status_int == 400, wrong
    end = utils.utcnow() + datetime.timedelta(minutes=10)
    made = credential(cloud, token, expires_at=end.isoformat()).json['application_credential']
    body = login(cloud, by_credential(made)).json['token']
    assert made['expires_at'] == end.strftime('%Y-%m-%dT%H:%M:%S.%f') and body['expires_at'] == made['expires_at'] + 'Z'
    monkeypatch.setattr(utils, 'utcnow', lambda: end + datetime.timedelta(seconds=1))
    assert login(cloud, by_credential(made)).status_int == 401


def test_credentials_are_their_owners(cloud):
    admin, demo = cloud.token('admin'), cloud.token('demo')
    made = credential(cloud, demo).json['application_credential']
    assert credential(cloud, admin, user='demo', name='x').status_int == 403     # not even an administrator
    assert credential(cloud, demo, user='admin', name='x').status_int == 403
    path = f'/v3/users/{cloud.id_of("user", "admin")}/application_credentials/{made["id"]}'
    assert cloud.call('GET', path, token=admin).status_int == 404                # not under another user
    assert cloud.call('DELETE', path, token=admin).status_int == 404
    mine = credential(cloud, admin, user='admin').json['application_credential']
    path = f'/v3/users/{cloud.id_of("user", "demo")}/application_credentials/{mine["id"]}'
    assert cloud.call('GET', path, token=demo).status_int == 404
    assert cloud.call('DELETE', path, token=demo).status_int == 404


def test_guessing_the_secret_of_a_credential_is_limited(tmp_path):
    cloud = with_standing_delays(tmp_path, max_login_failures=2)
    made = credential(cloud, cloud.token('demo')).json['application_credential']
    wrong = by_credential(made | {'secret': 'wrong'})
    assert [login(cloud, wrong).status_int for _ in range(3)] == [401, 401, 429]


# ---- rules of passwords

def change(cloud, user_id, original, password):
    return cloud.call('POST', f'/v3/users/{user_id}/password', {'user': {
        'original_password': original, 'password': password}}).status_int


def test_passwords_have_rules(tmp_path):
    cloud = identity_fixture.IdentityCloud(tmp_path, password_min_length=8, password_regex='.*[0-9].*')
    admin, codes = cloud.token(), []
    for password in ('short 1', 'no digit here', 'good enough 1'):
        made = cloud.call('POST', '/v3/users', {'user': {'name': password, 'password': password}}, admin)
        codes.append(made.status_int)
        assert made.status_int == 201 or (password not in made.text and 'requirements' in made.json['error']['message'])
    assert codes == [400, 400, 201]
    path, user_id = '/v3/users/' + made.json['user']['id'], made.json['user']['id']
    assert cloud.call('PATCH', path, {'user': {'password': 'short 1'}}, admin).status_int == 400
    assert change(cloud, user_id, 'good enough 1', 'no digit here') == 400
    assert change(cloud, user_id, 'wrong', 'no digit here') == 401         # the rules are for who knows the password
    assert change(cloud, user_id, 'good enough 1', 'good enough 2') == 204
    assert login(cloud, password_auth('good enough 1', 'good enough 2')).status_int == 201


def test_the_last_passwords_are_not_chosen_again(tmp_path):
    cloud = identity_fixture.IdentityCloud(tmp_path, password_history=3)
    admin = cloud.token()
    user_id = cloud.call('POST', '/v3/users', {'user': {'name': 'u', 'password': 'p0'}}, admin).json['user']['id']
    assert change(cloud, user_id, 'p0', 'p0') == 400
    assert change(cloud, user_id, 'p0', 'p1') == 204
    assert change(cloud, user_id, 'p1', 'p2') == 204
    assert [change(cloud, user_id, 'p2', word) for word in ('p0', 'p1', 'p2')] == [400, 400, 400]
    assert change(cloud, user_id, 'p2', 'p3') == 204
    assert change(cloud, user_id, 'p3', 'p0') == 204                       # the fourth last one
    assert cloud.call('PATCH', f'/v3/users/{user_id}', {'user': {'password': 'p3'}}, admin).status_int == 200
    with cloud.db.reader() as conn:
        assert len(queries.past_passwords(conn, user_id)) == 2
    assert cloud.call('DELETE', f'/v3/users/{user_id}', token=admin).status_int == 204
    with cloud.db.reader() as conn:
        assert queries.past_passwords(conn, user_id) == []


def test_passwords_that_the_cloud_makes_are_not_looked_at(tmp_path):
    cloud = identity_fixture.IdentityCloud(tmp_path, password_regex='[0-9]+')
    password = bootstrap.recover(cloud.service, 'demo')
    assert login(cloud, password_auth('demo', password)).status_int == 201


def test_an_expression_that_is_none_is_told(tmp_path):
    with pytest.raises(exception.InvalidInput, match='password_regex'):
        identity_fixture.IdentityCloud(tmp_path, password_regex='(')


# ---- the end of a password, and recovery

def _user(cloud, name):
    return cloud.service.find('user', domain_id='default', name=name)


def test_a_password_that_has_expired_is_changed_first(tmp_path):
    cloud = identity_fixture.IdentityCloud(tmp_path, password_expires_days=30)
    user = cloud.service.create_user('ann', 'first')
    body = password_auth('ann', 'first')
    found = login(cloud, body).json['token']['user']['password_expires_at']
    left = datetime.datetime.strptime(found, '%Y-%m-%dT%H:%M:%S.%f') - utils.utcnow()
    assert datetime.timedelta(days=29) < left <= datetime.timedelta(days=30)
    cloud.service.db.run(queries.update, 'user', user['id'], {
        'password_expires_at': utils.utcnow() - datetime.timedelta(seconds=1)})
    refused = login(cloud, body)
    assert refused.status_int == 401
    assert refused.json['error']['message'] == (
        f'The password is expired and needs to be changed for user: {user["id"]}.')
    wrong = login(cloud, password_auth('ann', 'wrong'))
    assert wrong.json['error']['message'] == 'The request you have made requires authentication.'
    changed = cloud.call('POST', f'/v3/users/{user["id"]}/password', {'user': {
        'original_password': 'first', 'password': 'second'}})
    assert changed.status_int == 204
    assert login(cloud, password_auth('ann', 'second')).status_int == 201


def test_users_whose_passwords_do_not_expire(tmp_path):
    cloud = identity_fixture.IdentityCloud(tmp_path, password_expires_days=30)
    user = cloud.service.create_user('robot', 'first', options={'ignore_password_expiry': True})
    cloud.service.db.run(queries.update, 'user', user['id'], {'password_expires_at': utils.utcnow()})
    assert login(cloud, password_auth('robot', 'first')).json['token']['user']['password_expires_at'] is None
    assert login(cloud, password_auth('admin', cloud.passwords['admin'])).status_int == 201      # set before


def test_an_administrator_who_lost_the_device_is_let_in_again(cloud):
    before = login(cloud, password_auth('admin', cloud.passwords['admin'])).headers['X-Subject-Token']
    user = _user(cloud, 'admin')
    cloud.service.credentials.create(user['id'], 'totp', 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ')
    cloud.service.update_user(user['id'], options={
        'multi_factor_auth_enabled': True, 'multi_factor_auth_rules': [['password', 'totp']]})
    cloud.service.update_user(user['id'], enabled=False)
    assert login(cloud, password_auth('admin', cloud.passwords['admin'])).status_int == 401
    password = bootstrap.recover(cloud.service, 'admin')
    assert login(cloud, password_auth('admin', password)).status_int == 201
    assert login(cloud, password_auth('admin', cloud.passwords['admin'])).status_int == 401
    assert valid(cloud, before) is None and cloud.service.credentials.list(user_id=user['id']) == []
    with pytest.raises(exception.IdentityNotFound):
        bootstrap.recover(cloud.service, 'nobody')
