"""Unmodified clients over HTTP: python-openstackclient, openstacksdk, keystoneauth1, keystonemiddleware."""
import base64
import json
import os
import time

import keystoneauth1.exceptions
import pytest
import webob
from keystoneauth1 import identity as keystone_identity
from keystoneauth1 import loading
from keystoneauth1 import session as keystone_session
from keystonemiddleware import auth_token

from nova.identity import auth
from nova.identity import totp
from nova.identity.embedded import bootstrap
from nova.identity.embedded import catalog
from nova.tests import identity_fixture
from nova.tests import warm_client


@pytest.fixture
def cloud(tmp_path):
    """An IdentityCloud that is served; ``url`` is where."""
    shift = []                # steps that the clock of one-time codes is ahead
    made = identity_fixture.IdentityCloud(tmp_path, clock=lambda: time.time() + len(shift) * totp.STEP_S)
    made.ahead = shift

    def mounted(environ, start_response):
        assert environ['PATH_INFO'].startswith('/identity')
        environ['SCRIPT_NAME'], environ['PATH_INFO'] = '/identity', environ['PATH_INFO'][len('/identity'):]
        return made.app(environ, start_response)
    with identity_fixture.served(mounted) as port:
        made.url = f'http://127.0.0.1:{port}'
        made.service.built_in = catalog.for_base(made.url)
        yield made


def session(cloud, user='demo', password=None, project=None, path='/identity/v3'):
    return keystone_session.Session(keystone_identity.Password(
        auth_url=cloud.url + path, username=user, password=password or cloud.passwords[user],
        project_name=project or user, user_domain_id='default', project_domain_id='default'))


def test_keystoneauth_accepts_urls_with_and_without_version(cloud):
    for path in ('/identity/v3', '/identity', '/identity/'):
        mine = session(cloud, path=path) if path.endswith('v3') else keystone_session.Session(
            keystone_identity.Password(auth_url=cloud.url + path, username='demo', project_name='demo',
                                       password=cloud.passwords['demo'], user_domain_name='Default',
                                       project_domain_name='Default'))
        assert mine.get_project_id() == cloud.id_of('project', 'demo')
        assert mine.get_endpoint(service_type='compute') == cloud.url + '/compute/v2.1'
        assert mine.get_endpoint(service_type='identity', interface='admin') == cloud.url + '/identity'
        assert mine.get('/auth/projects', endpoint_filter={'service_type': 'identity', 'version': (3, 0)}
                        ).json()['projects'][0]['name'] == 'demo'


def test_keystoneauth_fails_clearly(cloud):
    with pytest.raises(keystoneauth1.exceptions.Unauthorized, match='requires authentication'):
        session(cloud, password='wrong').get_token()


def test_keystoneauth_uses_application_credentials(cloud):
    mine = session(cloud)
    made = mine.post(f'{cloud.url}/identity/v3/users/{mine.get_user_id()}/application_credentials', json={
        'application_credential': {'name': 'c'}}).json()['application_credential']
    by_credential = keystone_session.Session(keystone_identity.V3ApplicationCredential(
        auth_url=cloud.url + '/identity/v3', application_credential_id=made['id'],
        application_credential_secret=made['secret']))
    assert by_credential.get_project_id() == mine.get_project_id()


def test_keystoneauth_logs_in_with_one_time_codes(cloud):
    """v3totp, v3multifactor, and the receipt of a login that is not complete."""
    blob, user_id = base64.b32encode(os.urandom(20)).decode(), cloud.id_of('user', 'demo')
    url, admin = cloud.url + '/identity/v3', session(cloud, 'admin')
    made = admin.post(url + '/credentials', json={'credential': {'type': 'totp', 'user_id': user_id, 'blob': blob}})
    assert made.json()['credential']['blob'] == blob

    def code():
        """Of the next step: each is taken once."""
        cloud.ahead.append(True)
        return totp.code(totp.secret_of(blob), int(cloud.clock() // totp.STEP_S))

    def token_by(name, **options):
        plugin = loading.get_plugin_loader(name).load_from_options(
            auth_url=url, user_id=user_id, project_name='demo', project_domain_id='default', **options)
        return keystone_session.Session(plugin), plugin
    by_code, _plugin = token_by('v3totp', passcode=code())
    assert by_code.get_project_id() == cloud.id_of('project', 'demo')
    admin.patch(f'{url}/users/{user_id}', json={'user': {'options': {
        'multi_factor_auth_enabled': True, 'multi_factor_auth_rules': [['password', 'totp']]}}})
    both, _plugin = token_by('v3multifactor', auth_methods=['v3password', 'v3totp'], passcode=code(),
                             password=cloud.passwords['demo'])
    assert both.get_project_id() == cloud.id_of('project', 'demo')
    mine, plugin = token_by('v3password', password=cloud.passwords['demo'])
    with pytest.raises(keystoneauth1.exceptions.MissingAuthMethods) as caught:
        mine.get_token()
    assert caught.value.methods == ['password'] and caught.value.required_auth_methods == [['password', 'totp']]
    completed, plugin = token_by('v3totp', passcode=code())
    plugin.add_method(keystone_identity.v3.ReceiptMethod(receipt=caught.value.receipt))
    assert completed.get_project_id() == cloud.id_of('project', 'demo')


def echo(environ, start_response):
    caller = environ['nova.context']
    start_response('200 OK', [('Content-Type', 'application/json')])
    return [json.dumps({'user': caller.user_name, 'project': caller.project_id, 'roles': sorted(caller.roles),
                        'service_roles': sorted(caller.service_roles)}).encode()]


def test_keystonemiddleware_validates_against_us(cloud):
    """The pipeline that a deployment with a real Keystone has, with this service in Keystone's place."""
    app = auth.strip_factory({})(auth_token.AuthProtocol(auth.KeystoneContext(echo), {
        'delay_auth_decision': True, 'auth_type': 'password', 'auth_url': cloud.url + '/identity',
        'www_authenticate_uri': cloud.url + '/identity', 'username': 'nova',
        'password': cloud.passwords['nova'], 'project_name': 'service', 'user_domain_id': 'default',
        'project_domain_id': 'default',
        'interface': 'internal', 'token_cache_time': -1, 'service_token_roles_required': True}))

    def ask(token, **headers):
        req = webob.Request.blank('/servers', headers={'X-Auth-Token': token} | headers)
        return req.get_response(app)
    token = cloud.token('demo')
    assert ask(token).json == {'user': 'demo', 'project': cloud.id_of('project', 'demo'),
                               'roles': ['member', 'reader'], 'service_roles': []}
    with_service = ask(token, **{'X-Service-Token': cloud.token('nova')})
    assert with_service.json['service_roles'] == ['service']
    refused = ask('forged')
    assert refused.status_int == 401
    assert refused.headers.getall('WWW-Authenticate') == [f'Keystone uri="{cloud.url}/identity"']     # and not ours
    assert ask('forged', **{'X-Identity-Status': 'Confirmed', 'X-User-Id': 'root'}).status_int == 401
    cloud.service.tokens.revoke(token)
    assert ask(token).status_int == 401


@pytest.fixture
def openstack(cloud):
    """function(command, user, exit code, environment) -> the JSON or text that python-openstackclient prints"""
    pytest.importorskip('openstackclient', reason='python-openstackclient is not installed')
    path = str(cloud.path / 'clouds.yaml')
    bootstrap.write_clouds_yaml(path, cloud.url, cloud.passwords)

    def run(command, user='admin', code=0, **environ):
        env = {'PATH': os.environ['PATH'], 'HOME': str(cloud.path), 'OS_CLIENT_CONFIG_FILE': path,
               'OS_CLOUD': 'nova-' + user} | environ
        status, printed = warm_client.client().run(command.split(), env)
        assert status == code, (command, printed)
        return json.loads(printed) if printed.strip().startswith(('{', '[')) else printed
    return run


def test_openstackclient_manages_projects_and_users(cloud, openstack):
    token = openstack('token issue -f json', 'demo')
    assert token['project_id'] == cloud.id_of('project', 'demo')
    types = {row['Type'] for row in openstack('catalog list -f json')}
    assert types >= {'identity', 'compute', 'image', 'network'}
    project = openstack('project create -f json --description d p')
    user = openstack('user create -f json --password pw --project p u')
    openstack('role add --project p --user u member')
    assert {row['Name'] for row in openstack('project list -f json')} == {'admin', 'demo', 'service', 'p'}
    assert user['id'] in {row['ID'] for row in openstack('user list -f json')}
    assert {'Role': 'member', 'User': 'u@Default', 'Project': 'p@Default', 'Group': '', 'Domain': '',
            'System': '', 'Inherited': False} in openstack('role assignment list --names -f json')
    made = openstack('application credential create -f json --role reader c', 'demo')
    by_credential = {'OS_CLOUD': '', 'OS_AUTH_TYPE': 'v3applicationcredential',
                     'OS_AUTH_URL': cloud.url + '/identity/v3', 'OS_APPLICATION_CREDENTIAL_ID': made['ID'],
                     'OS_APPLICATION_CREDENTIAL_SECRET': made['Secret']}
    assert openstack('token issue -f json', **by_credential)['project_id'] == token['project_id']
    assert '403' in openstack('application credential create d', code=1, **by_credential)
    blob = base64.b32encode(os.urandom(20)).decode()
    device = openstack(f'credential create -f json --type totp u {blob}')
    assert (device['blob'], device['user_id']) == (blob, user['id'])
    assert [row['ID'] for row in openstack('credential list -f json --type totp')] == [device['id']]
    openstack('user set --enable-multi-factor-auth --multi-factor-auth-rule password,totp u')
    by_password = {'OS_CLOUD': '', 'OS_AUTH_URL': cloud.url + '/identity/v3', 'OS_USERNAME': 'u', 'OS_PASSWORD': 'pw',
                   'OS_USER_DOMAIN_ID': 'default', 'OS_PROJECT_NAME': 'p', 'OS_PROJECT_DOMAIN_ID': 'default'}
    assert 'totp' in openstack('token issue', code=1, **by_password)
    by_code = by_password | {'OS_AUTH_TYPE': 'v3multifactor', 'OS_AUTH_METHODS': 'v3password,v3totp',
                             'OS_PASSCODE': totp.code(totp.secret_of(blob), int(time.time() // totp.STEP_S))}
    assert openstack('token issue -f json', **by_code)['user_id'] == user['id']
    openstack(f'credential delete {device["id"]}')
    openstack(f'token revoke {token["id"]}')
    assert '401' in openstack('project list --my-projects', code=1, OS_CLOUD='', OS_AUTH_TYPE='token',
                              OS_AUTH_URL=cloud.url + '/identity/v3', OS_TOKEN=token['id'])
    assert 'No Project found for nowhere' in openstack('project show nowhere', code=1)
    openstack(f'project delete {project["id"]}')


def test_openstackclient_manages_groups_and_roles(cloud, openstack):
    group = openstack('group create -f json --description d ops')
    assert group['description'] == 'd' and [row['Name'] for row in openstack('group list -f json')] == ['ops']
    openstack('group add user ops demo')
    assert 'demo in group ops' in openstack('group contains user ops demo')
    assert [row['Name'] for row in openstack('user list -f json --group ops')] == ['demo']
    openstack('role add --project admin --group ops reader')
    openstack('role add --project admin --group ops --inherited member')
    rows = openstack('role assignment list -f json --names --group ops')
    assert {(row['Role'], row['Group'], row['Project'], row['Inherited']) for row in rows} == {
        ('reader', 'ops@Default', 'admin@Default', False), ('member', 'ops@Default', 'admin@Default', True)}
    rows = openstack('role assignment list -f json --names --effective --user demo')
    assert ('reader', 'admin@Default') in {(row['Role'], row['Project']) for row in rows}
    assert {row['Name'] for row in openstack('project list -f json --my-projects', 'demo')} == {'admin', 'demo'}
    openstack('group remove user ops demo')
    openstack('group set --name ops2 ops')
    openstack('group delete ops2')
    openstack('role create auditor')
    openstack('implied role create auditor --implied-role reader')
    rows = openstack('implied role list -f json')
    assert ('auditor', 'reader') in {(row['Prior Role Name'], row['Implied Role Name']) for row in rows}
    openstack('implied role delete auditor --implied-role reader')
    assert '403' in openstack('implied role delete member --implied-role reader', code=1)
    openstack('project create --tag a p')
    assert openstack('project create -f json --parent p child')['parent_id'] == cloud.id_of('project', 'p')
    openstack('project set --tag b p')
    assert sorted(openstack('project show -f json p')['tags']) == ['a', 'b']
    assert set(openstack('project show -f json --children p')['subtree']) == {cloud.id_of('project', 'child')}


def test_openstackclient_manages_catalog_and_limits(cloud, openstack):
    assert openstack('region create -f json --parent-region RegionOne west')['parent_region'] == 'RegionOne'
    service = openstack('service create -f json --name designate --description d dns')
    assert (service['type'], service['name'], service['enabled']) == ('dns', 'designate', True)
    endpoint = openstack('endpoint create -f json --region west dns public http://dns.example/%(project_id)s')
    assert (endpoint['region_id'], endpoint['interface']) == ('west', 'public')
    assert [row['ID'] for row in openstack('endpoint list -f json --service dns')] == [endpoint['id']]
    assert 'http://dns.example/' in json.dumps(openstack('catalog show -f json dns'))
    openstack('registered limit create --service dns --default-limit 5 --region west zones')
    openstack('limit create --project demo --service dns --resource-limit 7 --region west zones')
    (row,) = openstack('limit list -f json')
    assert (row['Resource Name'], row['Resource Limit']) == ('zones', 7)
    openstack(f'limit set --resource-limit 8 {row["ID"]}')
    openstack(f'limit delete {row["ID"]}')
    (row,) = openstack('registered limit list -f json')
    openstack(f'registered limit delete {row["ID"]}')
    openstack(f'endpoint delete {endpoint["id"]}')
    openstack('service delete dns')
    openstack('region delete west')
    assert '403' in openstack('region delete RegionOne', code=1)


def test_openstackclient_manages_trusts_and_credentials(cloud, openstack):
    openstack('user create --password pw friend')
    made = openstack('trust create -f json --project demo --role member demo friend', 'admin', code=1)
    assert '403' in made                                             # the administrator is not the trustor
    trust = openstack('trust create -f json --project {} --role {} {} {}'.format(
        cloud.id_of('project', 'demo'), cloud.id_of('role', 'member'), cloud.id_of('user', 'demo'),
        cloud.id_of('user', 'friend')), 'demo')
    as_friend = {'OS_CLOUD': '', 'OS_AUTH_URL': cloud.url + '/identity/v3', 'OS_USERNAME': 'friend',
                 'OS_PASSWORD': 'pw', 'OS_USER_DOMAIN_ID': 'default', 'OS_TRUST_ID': trust['id']}
    assert openstack('token issue -f json', **as_friend)['project_id'] == cloud.id_of('project', 'demo')
    openstack(f'trust delete {trust["id"]}', 'demo')
    openstack('token issue', code=1, **as_friend)
    rules = '[{"service":"compute","method":"GET","path":"/v2.1/servers"}]'
    openstack(f'application credential create -f json --access-rules {rules} c', 'demo')
    (row,) = openstack('access rule list -f json', 'demo')
    assert (row['Service'], row['Method'], row['Path']) == ('compute', 'GET', '/v2.1/servers')
    assert '403' in openstack(f'access rule delete {row["ID"]}', 'demo', code=1)
    openstack('application credential delete c', 'demo')
    openstack(f'access rule delete {row["ID"]}', 'demo')
