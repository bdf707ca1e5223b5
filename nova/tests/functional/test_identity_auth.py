"""The middlewares: whose request it is, and what a client cannot make it be."""
import json
import logging
import uuid

import pytest
import sqlalchemy
import webob
from oslo_context import context as oslo_context
from oslo_db import exception as db_exc
from paste.deploy import loadwsgi

from nova import conf as nova_conf
from nova import policy
from nova.identity import auth
from nova.tests import identity_fixture
from nova.web import paste_registry


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path)


def echo(environ, start_response):
    """Answers with what the middleware found, and with the identity headers that came through."""
    caller = environ.get('nova.context')
    body = {'headers': sorted(key for key in environ if key.startswith('HTTP_X'))}
    if caller is not None:
        body |= {name: getattr(caller, name) for name in (
            'user_id', 'user_name', 'project_id', 'project_name', 'user_domain_id', 'project_domain_id',
            'roles', 'service_roles', 'remote_address', 'request_id', 'global_request_id', 'is_admin')}
    start_response('200 OK', [('Content-Type', 'application/json')])
    return [json.dumps(body).encode()]


def public(environ):
    return environ['PATH_INFO'] in ('', '/')


def ask(app, token=None, path='/servers', **headers):
    req = webob.Request.blank(path, base_url='http://cloud.example/compute/v2.1')
    req.environ['REMOTE_ADDR'] = '192.0.2.9'
    if token is not None:
        req.headers['X-Auth-Token'] = token
    for name, value in headers.items():
        req.headers[name.replace('_', '-')] = value
    return req.get_response(app)


def test_a_token_becomes_a_context(cloud):
    app = auth.EmbeddedAuth(echo, cloud.service)
    found = ask(app, cloud.token('demo')).json
    assert found['user_id'] == cloud.id_of('user', 'demo') and found['user_name'] == 'demo'
    assert found['project_id'] == cloud.id_of('project', 'demo') and found['project_name'] == 'demo'
    assert sorted(found['roles']) == ['member', 'reader']
    assert found['user_domain_id'] == found['project_domain_id'] == 'default'
    assert found['remote_address'] == '192.0.2.9'
    assert found['is_admin'] is False and found['service_roles'] == []
    assert oslo_context.get_current().user_name == 'demo'       # what the log lines of this thread say


def test_no_token_and_bad_ones_get_401_in_the_form_of_the_api(cloud):
    app = auth.EmbeddedAuth(echo, cloud.service)
    for token in (None, '', 'x', cloud.token()[:-2], 'A' * 5000):
        reply = ask(app, token)
        assert reply.status_int == 401
        assert reply.json['unauthorized']['code'] == 401
        assert reply.headers['WWW-Authenticate'] == 'Keystone uri="http://cloud.example:80/identity"'
    other_form = auth.EmbeddedAuth(echo, cloud.service, fault=auth.identity_fault, auth_uri='http://k/v3')
    reply = ask(other_form)
    assert reply.json['error']['title'] == 'Unauthorized'
    assert reply.headers['WWW-Authenticate'] == 'Keystone uri="http://k/v3"'


LIES = {
    'X_User_Id': 'root', 'X_User_Name': 'root', 'X_User_Domain_Id': 'd', 'X_User': 'root', 'X_Roles': 'admin',
    'X_Role': 'admin', 'X_Project_Id': 'p', 'X_Project_Name': 'p', 'X_Tenant_Id': 'p', 'X_Tenant': 'p',
    'X_Tenant_Name': 'p', 'X_Identity_Status': 'Confirmed', 'X_Is_Admin': 'True',
    'X_Is_Admin_Project': 'True', 'X_Domain_Id': 'd', 'X_Service_Roles': 'service', 'X_Service_User_Id': 's',
    'X_Service_Catalog': '[]',
    'X_Service_Identity_Status': 'Confirmed', 'OpenStack_System_Scope': 'all', 'X_Keystone_Token_Info': 'x'}


def test_identity_headers_of_the_client_are_removed(cloud):
    app = auth.EmbeddedAuth(echo, cloud.service, public=public)
    token = cloud.token('demo')
    honest, lied = ask(app, token).json, ask(app, token, **LIES).json
    assert {key: lied[key] for key in lied if key != 'request_id'} == {
        key: honest[key] for key in honest if key != 'request_id'}
    assert lied['headers'] == ['HTTP_X_AUTH_TOKEN']
    assert ask(app, **LIES).status_int == 401
    assert ask(app, path='/', **LIES).json == {'headers': []}        # nor do they reach what is public


def test_public_paths_need_no_token_and_get_no_caller_context(cloud):
    app = auth.EmbeddedAuth(echo, cloud.service, public=public)
    ask(app, cloud.token('demo'))
    assert 'user_id' not in ask(app, path='/').json
    assert oslo_context.get_current().user_name is None
    assert 'user_id' not in ask(app, 'forged', path='/').json
    assert ask(app, cloud.token('demo'), path='/').json['user_name'] == 'demo'


def test_a_context_that_was_there_before_does_not_survive(cloud):
    app = auth.EmbeddedAuth(echo, cloud.service, public=public)
    req = webob.Request.blank('/', environ={'nova.context': 'somebody'})
    req.path_info = '/'
    assert 'user_id' not in req.get_response(app).json


def test_service_token_adds_service_roles(cloud):
    app = auth.EmbeddedAuth(echo, cloud.service)
    vouched = ask(app, cloud.token('demo'), X_Service_Token=cloud.token('nova'))
    assert vouched.json['service_roles'] == ['service']
    assert ask(app, cloud.token('demo'), X_Service_Token='forged').status_int == 401


def test_global_request_id_is_kept(cloud):
    app = auth.EmbeddedAuth(echo, cloud.service)
    chain = 'req-' + str(uuid.uuid4())
    found = ask(app, cloud.token(), X_OpenStack_Request_ID=chain).json
    assert found['global_request_id'] == chain and found['request_id'] != chain
    found = ask(app, cloud.token(), X_OpenStack_Request_ID='req-\nforged line').json
    assert found['global_request_id'] is None


def test_revocation_takes_effect_at_once_here_and_soon_elsewhere(cloud):
    here, token = auth.EmbeddedAuth(echo, cloud.service), cloud.token('demo')
    cloud.conf.set_override('validation_cache_time', 0, group='identity')
    there = auth.EmbeddedAuth(echo, cloud.sibling())
    assert ask(here, token).status_int == ask(there, token).status_int == 200
    cloud.service.tokens.revoke(token)
    assert ask(here, token).status_int == ask(there, token).status_int == 401


def test_a_database_that_is_away_says_nothing_about_a_token(cloud, monkeypatch):
    """It was an error of ours, a 500 without a fault."""
    token = cloud.token('demo')
    here = auth.EmbeddedAuth(echo, cloud.sibling())

    def away():
        raise db_exc.DBConnectionError()
    monkeypatch.setattr(here._validate.__self__.db, 'reader', away)
    answer = ask(here, token)
    assert answer.status_int == 503 and answer.headers['Retry-After']
    assert answer.json['serviceUnavailable']['code'] == 503


PASTE = '''
[pipeline:main]
pipeline = strip auth echo
[filter:strip]
paste.filter_factory = nova.identity.auth:strip_factory
[filter:auth]
paste.filter_factory = nova.identity.auth:embedded_factory
public = nova.tests.functional.test_identity_auth:public
fault = nova.identity.auth:identity_fault
auth_uri = http://keystone.example/v3
[app:echo]
paste.app_factory = nova.tests.functional.test_identity_auth:echo_factory
'''


def echo_factory(global_conf, **local):
    return echo


def test_a_paste_file_names_the_middlewares(cloud, tmp_path):
    (tmp_path / 'api-paste.ini').write_text(PASTE)
    rules = policy.Policy(nova_conf.new())
    app = loadwsgi.loadapp(f'config:{tmp_path}/api-paste.ini',
                           global_conf={'identity_service': paste_registry.register(cloud.service),
                                        'policy': paste_registry.register(rules)})
    assert ask(app, cloud.token('demo')).json['user_name'] == 'demo'
    assert ask(app, path='/').status_int == 200
    refused = ask(app)
    assert refused.status_int == 401 and refused.json['error']['code'] == 401
    assert refused.headers['WWW-Authenticate'] == 'Keystone uri="http://keystone.example/v3"'


def test_policy_says_who_is_an_administrator(cloud, tmp_path):
    """Once, when the request comes in, for every face behind."""
    rules = policy.Policy(nova_conf.new())
    app = auth.EmbeddedAuth(echo, cloud.service, is_admin=rules.is_admin)
    assert ask(app, cloud.token('admin')).json['is_admin'] is True
    assert ask(app, cloud.token('demo')).json['is_admin'] is False
    keystone = auth.KeystoneContext(echo, is_admin=rules.is_admin)
    for roles, expected in (('admin,member', True), ('member', False), ('', False), ('administrator', False)):
        found = ask(keystone, 't', X_Identity_Status='Confirmed', X_User_Id='u', X_Project_Id='p', X_Roles=roles,
                    X_Is_Admin='True', X_Is_Admin_Project='True').json
        assert found['is_admin'] is expected, roles
    (tmp_path / 'policy.yaml').write_text('"context_is_admin": "role:member"\n')
    rules = policy.Policy(nova_conf.new(oslo_policy__policy_file=str(tmp_path / 'policy.yaml')))
    app = auth.EmbeddedAuth(echo, cloud.service, is_admin=rules.is_admin)
    assert ask(app, cloud.token('demo')).json['is_admin'] is True


def test_keystone_context_believes_auth_token_only():
    app = auth.strip_factory({})(auth.KeystoneContext(echo))
    assert ask(app, 'anything', **LIES).status_int == 401
    behind = auth.KeystoneContext(echo, public=public)
    confirmed = {'X_Identity_Status': 'Confirmed', 'X_User_Id': 'u', 'X_Project_Id': 'p',
                 'X_Roles': 'member,reader'}
    found = ask(behind, 't', **confirmed).json
    assert (found['user_id'], found['project_id'], found['roles']) == ('u', 'p', ['member', 'reader'])
    assert found['is_admin'] is False and found['remote_address'] == '192.0.2.9'
    assert ask(behind, 't', **confirmed | {'X_Identity_Status': 'Invalid'}).status_int == 401
    service = {'X_Service_Token': 's', 'X_Service_Identity_Status': 'Confirmed', 'X_Service_Roles': 'service'}
    assert ask(behind, 't', **confirmed | service).json['service_roles'] == ['service']
    service['X_Service_Identity_Status'] = 'Invalid'
    assert ask(behind, 't', **confirmed | service).status_int == 401
    assert ask(behind, path='/').status_int == 200


def test_logs_contain_no_token_and_no_password(cloud, caplog):
    caplog.set_level(logging.DEBUG)
    app = auth.EmbeddedAuth(echo, cloud.service)
    token = cloud.token('demo')
    ask(app, token)
    ask(app, token[:-3] + 'AAA')
    assert token[:40] not in caplog.text
    assert cloud.passwords['demo'] not in caplog.text


def test_a_remembered_token_costs_no_sql(cloud):
    app, token, statements = auth.EmbeddedAuth(echo, cloud.service), cloud.token('demo'), []
    sqlalchemy.event.listen(cloud.db.engine, 'before_cursor_execute',
                            lambda *args: statements.append(args[2]))
    ask(app, token)
    assert 0 < len(statements) <= 7
    statements.clear()
    ask(app, token)
    assert statements == []
