"""Trusts, access rules of application credentials, and revocation events, over HTTP."""
import datetime

import pytest

from nova import exception
from nova import utils
from nova.db.audit import log
from nova.identity import auth
from nova.identity.embedded import access_rules
from nova.identity.embedded import trusts
from nova.tests import identity_fixture


@pytest.fixture
def cloud(tmp_path):
    made = identity_fixture.IdentityCloud(tmp_path)
    made.service.create_user('friend', 'pw')
    made.service.create_user('stranger', 'pw')
    return made


def trust(cloud, token=None, code=201, **fields):
    """Create a trust of demo, for friend."""
    body = {'trustor_user_id': cloud.id_of('user', 'demo'), 'trustee_user_id': cloud.id_of('user', 'friend'),
            'project_id': cloud.id_of('project', 'demo'), 'impersonation': False, 'roles': [{'name': 'member'}]}
    reply = cloud.call('POST', '/v3/OS-TRUST/trusts', {'trust': body | fields}, token or cloud.token('demo'))
    assert reply.status_int == code, reply.text
    return reply.json.get('trust')


def use(cloud, made, user='friend', password='pw'):
    """The reply to a login for a trust."""
    body = identity_fixture.password_auth(user, password)
    body['auth']['scope'] = {'OS-TRUST:trust': {'id': made['id']}}
    return cloud.call('POST', '/v3/auth/tokens', body)


def is_valid(cloud, token):
    try:
        return bool(cloud.service.validate(token))
    except exception.Unauthorized:
        return False


# ---- trusts

def test_trust_is_created_used_and_deleted(cloud):
    demo, end = cloud.token('demo'), utils.utcnow().replace(microsecond=0) + datetime.timedelta(hours=1)
    made = trust(cloud, expires_at=end.isoformat() + 'Z', remaining_uses=2)
    assert made['expires_at'] == end.strftime('%Y-%m-%dT%H:%M:%S.000000Z') and made['deleted_at'] is None
    assert (made['impersonation'], made['remaining_uses'], made['redelegation_count']) == (False, 2, 0)
    assert [role['name'] for role in made['roles']] == ['member']
    path = f'/v3/OS-TRUST/trusts/{made["id"]}'
    assert made['links']['self'] == 'http://cloud.example/identity' + path
    assert cloud.call('GET', path, token=demo).json['trust'] == made
    listed = cloud.call('GET', f'/v3/OS-TRUST/trusts?trustor_user_id={made["trustor_user_id"]}', token=demo)
    assert [row['id'] for row in listed.json['trusts']] == [made['id']] and 'roles' not in listed.json['trusts'][0]
    assert [row['name'] for row in cloud.call('GET', path + '/roles', token=demo).json['roles']] == ['member']
    member, reader = cloud.id_of('role', 'member'), cloud.id_of('role', 'reader')
    assert cloud.call('GET', f'{path}/roles/{member}', token=demo).json['role']['name'] == 'member'
    assert cloud.call('HEAD', f'{path}/roles/{reader}', token=demo).status_int == 404
    assert cloud.call('DELETE', path, token=demo).status_int == 204
    assert cloud.call('GET', path, token=demo).status_int == 404


@pytest.mark.parametrize('impersonation', [True, False])
def test_the_token_of_a_trust(cloud, impersonation):
    made = trust(cloud, impersonation=impersonation)
    reply = use(cloud, made)
    assert reply.status_int == 201
    shown = reply.json['token']
    assert shown['OS-TRUST:trust'] == {
        'id': made['id'], 'impersonation': impersonation, 'trustor_user': {'id': made['trustor_user_id']},
        'trustee_user': {'id': made['trustee_user_id']}}
    assert shown['user']['name'] == ('demo' if impersonation else 'friend')
    assert shown['project']['name'] == 'demo' and {row['name'] for row in shown['roles']} == {'member', 'reader'}
    token = reply.headers['X-Subject-Token']
    assert cloud.call('GET', '/v3/auth/tokens', token=token, X_Subject_Token=token).json['token']['OS-TRUST:trust'][
        'id'] == made['id']


def test_an_audit_record_names_the_trust(cloud):
    """The user of the record is the trustor if the trust impersonates."""
    made = trust(cloud, impersonation=True)
    data = cloud.service.validate(use(cloud, made).headers['X-Subject-Token'])
    values = log.Record('POST', '/servers', 'create', context=data).values
    assert (values['user_id'], values['credential_id']) == (made['trustor_user_id'], made['id'])


def test_only_the_trustee_uses_a_trust(cloud):
    made = trust(cloud)
    assert use(cloud, made, 'stranger').status_int == 401
    assert use(cloud, made, 'demo', cloud.passwords['demo']).status_int == 401        # not even the trustor
    assert use(cloud, {'id': 'unknown'}).status_int == 401


def test_a_trust_counts_its_uses(cloud):
    made = trust(cloud, remaining_uses=2)
    assert [use(cloud, made).status_int for _ in range(3)] == [201, 201, 401]
    assert cloud.call('GET', f'/v3/OS-TRUST/trusts/{made["id"]}', token=cloud.token('demo')).json['trust'][
        'remaining_uses'] == 0


def test_a_trust_expires_and_its_tokens_with_it(cloud, monkeypatch):
    end = utils.utcnow() + datetime.timedelta(minutes=5)
    made = trust(cloud, expires_at=end.isoformat())
    reply = use(cloud, made)
    assert reply.json['token']['expires_at'] == made['expires_at']
    monkeypatch.setattr(utils, 'utcnow', lambda: end + datetime.timedelta(seconds=1))
    assert use(cloud, made).status_int == 401 and not is_valid(cloud, reply.headers['X-Subject-Token'])
    assert cloud.call('GET', f'/v3/OS-TRUST/trusts/{made["id"]}', token=cloud.token('demo')).status_int == 404


@pytest.mark.parametrize('end', [
    lambda s, ids, made: s.trusts.delete(made['id']),
    lambda s, ids, made: s.update_user(ids['demo'], enabled=False),
    lambda s, ids, made: s.delete_user(ids['demo']),
    lambda s, ids, made: s.update_user(ids['friend'], enabled=False),
    lambda s, ids, made: s.update_user(ids['friend'], password='new'),
    lambda s, ids, made: s.delete_user(ids['friend']),
    lambda s, ids, made: s.unassign_role(ids['demo'], ids['member'], 'project', ids['project']),
    lambda s, ids, made: s.update_project(ids['project'], enabled=False),
    lambda s, ids, made: s.delete_project(ids['project']),
], ids=['trust', 'trustor disabled', 'trustor deleted', 'trustee disabled', 'password of the trustee',
        'trustee deleted', 'role of the trustor', 'project disabled', 'project deleted'])
@pytest.mark.parametrize('impersonation', [True, False])
def test_tokens_of_a_trust_end_at_once(cloud, end, impersonation):
    ids = {name: cloud.id_of('user', name) for name in ('demo', 'friend')}
    ids |= {'member': cloud.id_of('role', 'member'), 'project': cloud.id_of('project', 'demo')}
    # a second role: what is left when the first one goes must not keep the trust alive
    cloud.service.assign_role(ids['demo'], cloud.id_of('role', 'reader'), 'project', ids['project'])
    made = trust(cloud, impersonation=impersonation)
    token = use(cloud, made).headers['X-Subject-Token']
    assert is_valid(cloud, token)
    end(cloud.service, ids, made)
    assert not is_valid(cloud, token)
    assert use(cloud, made).status_int == 401


def test_nobody_delegates_more_than_they_have(cloud):
    demo = cloud.token('demo')
    for role in ('admin', 'manager', 'service', 'unknown'):
        trust(cloud, roles=[{'name': role}], code=403)
    trust(cloud, project_id=cloud.id_of('project', 'admin'), roles=[{'name': 'reader'}], code=403)
    trust(cloud, project_id='unknown', roles=[{'name': 'reader'}], code=403)
    trust(cloud, trustor_user_id=cloud.id_of('user', 'admin'), roles=[{'name': 'admin'}], code=403)
    trust(cloud, trustee_user_id='unknown', code=404)
    trust(cloud, cloud.token('admin'), code=403)                    # not for another trustor
    assert cloud.call('GET', f'/v3/OS-TRUST/trusts?trustor_user_id={cloud.id_of("user", "demo")}',
                      token=demo).json['trusts'] == []


def test_a_credential_delegates_only_its_own_roles(cloud):
    demo, user = cloud.token('demo'), cloud.id_of('user', 'demo')
    for unrestricted, code in ((False, 403), (True, 201)):
        made = cloud.call('POST', f'/v3/users/{user}/application_credentials', {'application_credential': {
            'name': str(unrestricted), 'unrestricted': unrestricted, 'roles': [{'name': 'reader'}]}}, demo).json[
                'application_credential']
        token, _data = cloud.service.logins.authenticate({'identity': {
            'methods': ['application_credential'], 'application_credential': made}})
        trust(cloud, token, roles=[{'name': 'reader'}], code=code)
        trust(cloud, token, roles=[{'name': 'member'}], code=403)


def test_the_token_of_a_trust_gets_no_further_rights(cloud):
    """It impersonates the trustor with one of two roles, and must not reach the other one, nor outlive the trust."""
    demo, project = cloud.id_of('user', 'demo'), cloud.id_of('project', 'demo')
    cloud.service.credentials.create_ec2(demo, project)
    token = use(cloud, trust(cloud, impersonation=True, roles=[{'name': 'reader'}])).headers['X-Subject-Token']
    ec2 = f'/v3/users/{demo}/credentials/OS-EC2'
    trust(cloud, token, roles=[{'name': 'reader'}], code=403)
    for method, path, body in (
            ('POST', f'/v3/users/{demo}/application_credentials', {'application_credential': {'name': 'c'}}),
            ('POST', ec2, {'tenant_id': project}), ('GET', ec2, None), ('GET', '/v3/credentials', None),
            ('POST', '/v3/credentials', {'credential': {'type': 'totp', 'user_id': demo, 'blob': 'A' * 32}})):
        assert cloud.call(method, path, body, token).status_int == 403, path
    for scope in ({}, {'scope': {'project': {'id': project}}}, {'scope': 'unscoped'}):
        again = {'auth': {'identity': {'methods': ['token'], 'token': {'id': token}}, **scope}}
        assert cloud.call('POST', '/v3/auth/tokens', again).status_int == 403


def test_trusts_are_not_passed_on_and_bounded(cloud, monkeypatch):
    trust(cloud, allow_redelegation=True, code=400)
    trust(cloud, redelegation_count=1, code=400)
    trust(cloud, allow_redelegation=False, redelegation_count=0)
    monkeypatch.setattr(trusts, 'MAX_TRUSTS', 1)
    trust(cloud, code=403)
    for wrong in ({'roles': []}, {'remaining_uses': 0}, {'remaining_uses': 'x'}, {'expires_at': 'soon'},
                  {'expires_at': '2020-01-01T00:00:00Z'}, {'impersonation': None}, {'project_id': None},
                  {'roles': [{}]}, {'roles': [{'domain': 'x'}]}, {'roles': [{'id': 'x' * 65}]}):
        trust(cloud, code=400, **wrong)


def test_trust_is_visible_to_trustor_trustee_and_admin_only(cloud):
    made = trust(cloud)
    path = f'/v3/OS-TRUST/trusts/{made["id"]}'
    friend, stranger = (cloud.service.login(name, 'pw')[0] for name in ('friend', 'stranger'))
    for rest in ('', '/roles', f'/roles/{cloud.id_of("role", "member")}'):
        assert [cloud.call('GET', path + rest, token=token).status_int for token in (
            cloud.token('demo'), friend, cloud.token(), stranger)] == [200, 200, 200, 404]
    lists = '/v3/OS-TRUST/trusts?trustee_user_id=' + made['trustee_user_id']
    assert [cloud.call('GET', lists, token=token).status_int for token in (friend, cloud.token(), stranger)] == [
        200, 200, 403]
    assert [cloud.call('GET', '/v3/OS-TRUST/trusts', token=token).status_int for token in (
        friend, cloud.token(), stranger)] == [403, 200, 403]
    assert [cloud.call('DELETE', path, token=token).status_int for token in (
        friend, stranger, cloud.token('demo'))] == [403, 404, 204]


# ---- access rules

RULES = [{'service': 'compute', 'method': 'GET', 'path': '/v2.1/servers'},
         {'service': 'identity', 'method': 'GET', 'path': '/v3/users/{user_id}/projects'}]


def limited(cloud, name='c', rules=None, **fields):
    """(application credential of demo, its token)"""
    reply = cloud.call('POST', f'/v3/users/{cloud.id_of("user", "demo")}/application_credentials', {
        'application_credential': {'name': name, 'access_rules': RULES if rules is None else rules, **fields}},
        cloud.token('demo'))
    assert reply.status_int == 201, reply.text
    made = reply.json['application_credential']
    return made, cloud.service.logins.authenticate({'identity': {
        'methods': ['application_credential'], 'application_credential': made}})[0]


def test_access_rule_is_listed_and_deleted(cloud):
    demo, base = cloud.token('demo'), f'/v3/users/{cloud.id_of("user", "demo")}/access_rules'
    made, _token = limited(cloud)
    assert [{name: rule[name] for name in access_rules.FIELDS} for rule in made['access_rules']] == RULES
    listed = cloud.call('GET', base, token=demo).json['access_rules']
    assert [rule['id'] for rule in listed] == [rule['id'] for rule in made['access_rules']]
    assert listed[0]['links']['self'] == f'http://cloud.example/identity{base}/{listed[0]["id"]}'
    again, _token = limited(cloud, 'd', [RULES[0], {'id': listed[1]['id']}])
    assert again['access_rules'] == made['access_rules']               # the same rules are shared
    assert len(cloud.call('GET', base + '?service=compute', token=demo).json['access_rules']) == 1
    one = f'{base}/{listed[0]["id"]}'
    assert cloud.call('GET', one, token=demo).json['access_rule'] == listed[0]
    assert cloud.call('DELETE', one, token=demo).status_int == 403     # in use
    for credential in (made, again):
        path = f'/v3/users/{made["user_id"]}/application_credentials/{credential["id"]}'
        shown = cloud.call('GET', path, token=demo).json['application_credential']
        assert shown['access_rules'] == made['access_rules']
        assert cloud.call('DELETE', path, token=demo).status_int == 204
    assert [cloud.call('DELETE', one, token=demo).status_int for _ in range(2)] == [204, 404]


def test_access_rules_are_their_owners_and_bounded(cloud, monkeypatch):
    made, _token = limited(cloud)
    stranger = cloud.service.login('stranger', 'pw')[0]
    path = f'/v3/users/{made["user_id"]}/access_rules'
    own = f'/v3/users/{cloud.id_of("user", "stranger")}/access_rules/{made["access_rules"][0]["id"]}'
    assert [cloud.call('GET', at, token=stranger).status_int for at in (path, own)] == [403, 404]
    assert cloud.call('DELETE', own, token=stranger).status_int == 404
    theirs = {'application_credential': {'name': 'c', 'access_rules': [{'id': made['access_rules'][0]['id']}]}}
    path = f'/v3/users/{cloud.id_of("user", "admin")}/application_credentials'
    assert cloud.call('POST', path, theirs, cloud.token()).status_int == 404
    monkeypatch.setattr(access_rules, 'MAX_ACCESS_RULES', 2)
    more = {'application_credential': {'name': 'x', 'access_rules': [{**RULES[0], 'method': 'PUT'}]}}
    create = f'/v3/users/{made["user_id"]}/application_credentials'
    assert cloud.call('POST', create, more, cloud.token('demo')).status_int == 403
    for wrong in ({**RULES[0], 'path': 'servers'}, {**RULES[0], 'method': 'TRACE'}, {'service': 'x'}, {},
                  {**RULES[0], 'path': '/' + 'x' * 128}, {'id': 5}):
        body = {'application_credential': {'name': 'y', 'access_rules': [wrong]}}
        assert cloud.call('POST', create, body, cloud.token('demo')).status_int == 400, wrong


def test_the_identity_api_enforces_access_rules(cloud):
    made, token = limited(cloud, unrestricted=True)
    user = made['user_id']
    assert cloud.call('GET', f'/v3/users/{user}/projects', token=token).status_int == 200
    for method, path in (('GET', f'/v3/users/{user}'), ('HEAD', f'/v3/users/{user}/projects'),
                         ('GET', '/v3/auth/projects'), ('GET', '/v3/services'),
                         ('POST', f'/v3/users/{user}/application_credentials')):
        reply = cloud.call(method, path, {} if method == 'POST' else None, token)
        assert reply.status_int == 401, (method, path)
    assert 'access rules' in reply.json['error']['message']


def test_a_credential_with_access_rules_makes_no_other_credential(cloud):
    """Not even if a rule allows the request: the new one would have no rules."""
    user, project = cloud.id_of('user', 'demo'), cloud.id_of('project', 'demo')
    _made, token = limited(cloud, rules=[{'service': 'identity', 'method': 'POST', 'path': '/**'},
                                         {'service': 'identity', 'method': 'GET', 'path': '/**'}], unrestricted=True)
    assert cloud.call('GET', f'/v3/users/{user}', token=token).status_int == 200
    for path, body in ((f'/v3/users/{user}/application_credentials', {'application_credential': {'name': 'n'}}),
                       (f'/v3/users/{user}/credentials/OS-EC2', {'tenant_id': project})):
        assert cloud.call('POST', path, body, token).status_int == 403
    trust(cloud, token, code=403)
    again = {'auth': {'identity': {'methods': ['token'], 'token': {'id': token}}}}
    new = cloud.call('POST', '/v3/auth/tokens', again).headers['X-Subject-Token']
    assert cloud.service.validate(new).credential['access_rules'] == cloud.service.validate(token).credential[
        'access_rules']


def test_only_services_that_enforce_access_rules_can_validate_the_token(cloud):
    _made, token = limited(cloud)
    service = cloud.token('nova')
    assert cloud.call('GET', '/v3/auth/tokens', token=service, X_Subject_Token=token).status_int == 404
    reply = cloud.call('GET', '/v3/auth/tokens', token=service, X_Subject_Token=token,
                       OpenStack_Identity_Access_Rules='1.0')
    assert [rule['path'] for rule in reply.json['token']['application_credential']['access_rules']] == [
        rule['path'] for rule in RULES]


def _echo(environ, start_response):
    start_response('200 OK', [])
    return [b'']


@pytest.mark.parametrize('services, method, mount, path, code', [
    (('compute',), 'GET', '/compute', '/v2.1/servers', 200), (('compute',), 'GET', '', '/v2.1/servers/', 200),
    (('compute',), 'GET', '/compute', '/v2.1/servers/detail', 401), (('compute',), 'POST', '', '/v2.1/servers', 401),
    (('compute',), 'HEAD', '', '/v2.1/servers', 401), (('compute',), 'GET', '', '/v2/servers', 401),
    (('compute',), 'GET', '', '//v2.1/servers', 401), (('network',), 'GET', '', '/v2.1/servers', 401),
    ((), 'GET', '', '/v2.1/servers', 401)])
def test_other_apis_enforce_access_rules(cloud, services, method, mount, path, code):
    _made, token = limited(cloud)
    app, found = auth.EmbeddedAuth(_echo, cloud.service, services), []
    environ = {'REQUEST_METHOD': method, 'SCRIPT_NAME': mount, 'PATH_INFO': path, 'HTTP_X_AUTH_TOKEN': token,
               'wsgi.url_scheme': 'http', 'SERVER_NAME': 'x', 'SERVER_PORT': '80'}
    app(dict(environ), lambda status, headers: found.append(int(status[:3])))
    app(environ | {'HTTP_X_SERVICE_TOKEN': cloud.token('nova')},         # a service acts for the user
        lambda status, headers: found.append(int(status[:3])))
    assert found == [code, 200]


# ---- revocation

def test_malformed_access_rules_are_refused(cloud):
    path = f'/v3/users/{cloud.id_of("user", "demo")}/application_credentials'
    rule = {'service': 'compute', 'method': 'GET', 'path': '/v2.1/servers'}
    for rules in ([rule | {'id': [1]}], [rule | {'id': {}}], [{'id': 1}], [{'service': 'compute'}]):
        body = {'application_credential': {'name': 'c', 'access_rules': rules}}
        assert cloud.call('POST', path, body, cloud.token('demo')).status_int == 400, rules


def test_revoked_tokens_are_listed_for_services(cloud):
    service, token = cloud.token('nova'), cloud.token('demo')
    before = utils.utcnow()
    audit_id = cloud.service.validate(token).claims.audit_ids[0]
    assert cloud.call('DELETE', '/v3/auth/tokens', token=token, X_Subject_Token=token).status_int == 204
    assert cloud.call('HEAD', '/v3/auth/tokens', token=service, X_Subject_Token=token).status_int == 404
    user = cloud.id_of('user', 'friend')
    cloud.service.update_user(user, enabled=False)
    events = cloud.call('GET', '/v3/OS-REVOKE/events', token=service).json['events']
    assert [event.get('audit_id') or event['user_id'] for event in events] == [user, audit_id]
    since = (before - datetime.timedelta(seconds=1)).isoformat()
    assert len(cloud.call('GET', f'/v3/OS-REVOKE/events?since={since}', token=service).json['events']) == 2
    since = (utils.utcnow() + datetime.timedelta(seconds=5)).isoformat()
    assert cloud.call('GET', f'/v3/OS-REVOKE/events?since={since}', token=service).json['events'] == []
    assert cloud.call('GET', '/v3/OS-REVOKE/events?since=x', token=service).status_int == 400
    assert cloud.call('GET', '/v3/OS-REVOKE/events', token=cloud.token('demo')).status_int == 403
