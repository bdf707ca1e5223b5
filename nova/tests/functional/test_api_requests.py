"""What every request meets, whatever it asks for: paths, versions, callers, bodies, faults."""
import pathlib

import orjson
import pytest
import sqlalchemy as sa
from paste.deploy import loadwsgi

from nova import exception
from nova.tests.functional import base
from nova.web import paste_registry
from nova.web.params import Object
from nova.web.params import Param
from nova.web.params import STRING
from nova.web.routes import Route

FLAVOR = {'flavor': {'name': 'm1', 'ram': 64, 'vcpus': 1, 'disk': 1, 'id': 'one'}}


# ---- paths -------------------------------------------------------------------

@pytest.mark.parametrize('path', ['/flavors', f'/{base.PROJECT}/flavors', '/flavors/', '/flavors.json'])
def test_equivalent_spellings_of_a_path_return_the_same(api, path):
    answer = api.client().get(path)
    assert (answer.status, answer.json) == (200, {'flavors': []})


@pytest.mark.parametrize('prefix,script', [('/v2.1', '/compute'), ('', '/compute/v2.1'), ('', '/v2.1'),
                                           ('/v2', '/compute'), ('', '/v2')])
def test_links_follow_the_mount_point(api, prefix, script):
    api.admin().post('/flavors', FLAVOR)
    client = api.client(prefix=prefix)
    link = client.get('/flavors', environ={'SCRIPT_NAME': script}).json['flavors'][0]['links'][0]['href']
    assert link == f'http://cloud.test:8774{script}{prefix}/flavors/one'


def test_links_have_the_project_when_the_request_had_it(api):
    api.admin().post('/flavors', FLAVOR)
    links = api.client().get(f'/{base.PROJECT}/flavors/one').json['flavor']['links']
    assert [link['href'] for link in links] == [f'http://cloud.test:8774/v2.1/{base.PROJECT}/flavors/one',
                                                f'http://cloud.test:8774/{base.PROJECT}/flavors/one']


def test_configured_link_prefix_is_used_in_links(tmp_path):
    api = base.ApiFixture(tmp_path, api__compute_link_prefix='https://public.test/nova/')
    href = api.client().get('/').json['version']['links'][0]['href']
    assert href == 'https://public.test/nova/v2.1/'
    api.close()


def test_other_project_in_the_path_returns_400(api):
    answer = api.client().get(f'/{"b" * 32}/flavors')
    assert answer.fault[:2] == ('badRequest', 400)


@pytest.mark.parametrize('path', ['/nothing', '/flavors/a/b/c', f'/{base.PROJECT}', f'/{base.PROJECT}/nothing'])
def test_unknown_paths_return_404(api, path):
    assert api.client().get(path).fault[:2] == ('itemNotFound', 404)


def test_unsupported_method_returns_405(api):
    answer = api.client().request('PATCH', '/flavors')
    assert answer.fault[:2] == ('badMethod', 405)
    assert answer.headers['allow'] == 'GET, POST'


@pytest.mark.parametrize('path', ['/flavors/%ff', '/flavors/%00'])
def test_undecodable_paths_return_400(api, path):
    assert api.client().get(path).fault[:2] == ('badRequest', 400)


def test_missing_slash_redirects_to_the_version_document(api):
    answer = api.client().get('')
    assert (answer.status, answer.headers['location']) == (302, 'http://cloud.test:8774/v2.1/')


def test_head_is_get_without_a_body(api):
    answer = api.client().request('HEAD', '/flavors')
    assert (answer.status, answer.body) == (200, b'')


# ---- versions ----------------------------------------------------------------

@pytest.mark.parametrize('headers,served', [
    ({}, '2.1'),
    ({'OpenStack-API-Version': 'compute 2.30'}, '2.30'),
    ({'OpenStack-API-Version': 'volume 3.1, compute 2.30'}, '2.30'),
    ({'OpenStack-API-Version': 'volume 3.1'}, '2.1'),
    ({'X-OpenStack-Nova-API-Version': '2.12'}, '2.12'),
    ({'OpenStack-API-Version': 'compute latest'}, '2.104'),
    ({'OpenStack-API-Version': 'compute 2.30', 'X-OpenStack-Nova-API-Version': '2.12'}, '2.30'),
    ({'OpenStack-API-Version': 'compute 2.11', 'X-OpenStack-Nova-API-Version': '2.12'}, '2.12'),
])
def test_requested_microversion_is_served(api, headers, served):
    answer = api.client().get('/flavors', headers=headers)
    assert answer.status == 200
    assert answer.headers['openstack-api-version'] == f'compute {served}'
    assert answer.headers['x-openstack-nova-api-version'] == served
    assert answer.headers['vary'] == 'OpenStack-API-Version, X-OpenStack-Nova-API-Version'


@pytest.mark.parametrize('version', ['2.105', '2.0', '3.1', '2.999', '1.1'])
def test_unsupported_microversion_returns_406(api, version):
    key, code, message = api.client().get('/flavors', version=version).fault
    assert (key, code) == ('computeFault', 406)
    assert '2.1 ' in message and '2.104' in message


@pytest.mark.parametrize('version', ['2', '2.x', '2.01', '', '2.1.1', '٢.١', '-2.1'])
def test_malformed_microversion_returns_400(api, version):
    answer = api.client().get('/flavors', headers={'X-OpenStack-Nova-API-Version': version})
    assert answer.fault[:2] == ('badRequest', 400)


def test_operation_outside_its_versions_returns_404(api):
    api.admin().post('/flavors', FLAVOR)
    body = {'flavor': {'description': 'small'}}
    assert api.admin().put('/flavors/one', body, version='2.54').status == 404
    assert api.admin().put('/flavors/one', body, version='2.55').status == 200
    assert api.admin().get('/os-hypervisors/statistics', version='2.87').status == 200
    assert api.admin().get('/os-hypervisors/statistics', version='2.88').status == 404


def test_v2_knows_no_microversions(api):
    answer = api.client(prefix='/v2').get('/flavors', version='2.55')
    assert answer.status == 200
    assert 'openstack-api-version' not in answer.headers


# ---- callers -----------------------------------------------------------------

def test_request_without_a_caller_returns_401(api):
    client = api.client(project=None)
    assert client.get('/flavors').fault[:2] == ('unauthorized', 401)
    assert client.post('/flavors', FLAVOR).fault[:2] == ('unauthorized', 401)
    assert client.get(f'/{base.PROJECT}/flavors').fault[:2] == ('unauthorized', 401)
    assert client.get('/').status == 200


def test_rule_that_the_caller_does_not_pass(api):
    key, code, message = api.client().post('/flavors', FLAVOR).fault
    assert (key, code) == ('forbidden', 403)
    assert 'os_compute_api:os-flavor-manage:create' in message
    assert api.client().get('/flavors').json == {'flavors': []}


def test_policy_file_changes_the_required_role(tmp_path):
    (tmp_path / 'policy.yaml').write_text('"os_compute_api:os-flavor-manage:create": "role:member"\n')
    api = base.ApiFixture(tmp_path, oslo_policy__policy_file=str(tmp_path / 'policy.yaml'))
    assert api.client().post('/flavors', FLAVOR).status == 200
    api.close()


def test_responses_have_request_ids(api):
    for path in ('/flavors', '/nothing', '/'):
        headers = api.client().get(path).headers
        assert headers['x-compute-request-id'].startswith('req-')
        assert headers['x-openstack-request-id'] == headers['x-compute-request-id']


# ---- bodies ------------------------------------------------------------------

@pytest.mark.parametrize('raw', [
    b'', b'{', b'[]', b'"text"', b'null', b'{"flavor": NaN}', b'{"flavor": Infinity}', b'\xff\xfe{}',
    b'{"flavor": ' + b'[' * 40 + b']' * 40 + b'}', b'{"flavor": ' + b'[' * 100000,
    b'{"flavor": {"name": "a\\u0000b"}}', b'{"flavor": {"\\u0000": 1}}', b'{"flavor": {"name": "\\ud800"}}'])
def test_body_that_is_no_object_returns_400(api, raw):
    assert api.admin().request('POST', '/flavors', raw=raw).fault[:2] == ('badRequest', 400)


def test_escaped_backslash_is_no_nul(api):
    body = {'flavor': {'description': 'a \\u0000 text', **FLAVOR['flavor']}}
    assert api.admin().post('/flavors', body, version='2.55').status == 200


def test_too_large_body_returns_413(tmp_path):
    api = base.ApiFixture(tmp_path, api__max_request_body_size=2000)
    answer = api.admin().request('POST', '/flavors', raw=b' ' * 2001)
    assert answer.fault[:2] == ('overLimit', 413)
    assert 'retry-after' in answer.headers
    chunked = {'CONTENT_LENGTH': '', 'HTTP_TRANSFER_ENCODING': 'chunked'}
    assert api.admin().request('POST', '/flavors', raw=b' ' * 9000, environ=chunked).status == 413
    assert api.admin().post('/flavors', FLAVOR, environ=chunked).status == 200
    api.close()


@pytest.mark.parametrize('length', ['-1', 'many', '1e3', '9' * 30])
def test_invalid_content_length_returns_400(api, length):
    answer = api.admin().post('/flavors', FLAVOR, environ={'CONTENT_LENGTH': length})
    assert answer.status == 400


@pytest.mark.parametrize('kind,status', [('text/xml', 415), ('application/x-www-form-urlencoded', 415),
                                         ('application/json; charset=UTF-8', 200), ('Application/JSON', 200)])
def test_content_type_must_be_json(api, kind, status):
    assert api.admin().post('/flavors', FLAVOR, environ={'CONTENT_TYPE': kind}).status == status


def _flavor(**changes):
    return {'flavor': {**FLAVOR['flavor'], **changes}}


@pytest.mark.parametrize('body,field', [
    ({}, "'flavor'"), (_flavor(ram='x'), 'flavor.ram'), (_flavor(ram=True), 'flavor.ram'),
    (_flavor(ram=1.5), 'flavor.ram'), (_flavor(ram=10 ** 30), 'flavor.ram'), (_flavor(ram=0), 'flavor.ram'),
    (_flavor(ram='9' * 400), 'flavor.ram'), (_flavor(ram='٣'), 'flavor.ram'), (_flavor(ram=None), 'flavor.ram'),
    (_flavor(name=' m1'), 'flavor.name'), (_flavor(name='a\x07b'), 'flavor.name'),
    (_flavor(name='n' * 256), 'flavor.name'), (_flavor(name=''), 'flavor.name'),
    (_flavor(shape='round'), "'shape'"), ({**FLAVOR, 'x': 1}, "'x'"), ({'flavor': []}, 'flavor'),
    (_flavor(**{'os-flavor-access:is_public': 'maybe'}), 'is_public'), (_flavor(id='a/b'), 'flavor.id')])
def test_faults_name_the_field(api, body, field):
    key, code, message = api.admin().post('/flavors', body).fault
    assert (key, code) == ('badRequest', 400)
    assert field in message
    assert len(message) < 400
    assert api.admin().get('/flavors').json == {'flavors': []}


def test_v2_ignores_what_it_does_not_know(api):
    body = {'flavor': {**FLAVOR['flavor'], 'name': ' spaced ', 'shape': 'round'}, 'x': 1}
    answer = api.admin(prefix='/v2').post('/flavors', body)
    assert answer.json['flavor']['name'] == 'spaced'


@pytest.mark.parametrize('query', ['limit=-1', 'limit=x', 'limit=', 'sort_key=secret', 'sort_dir=up',
                                   'minRam=x', 'marker=nothing', 'limit=1%00', 'limit=%ff', 'is_public=maybe'])
def test_invalid_queries_return_400(api, query):
    assert api.admin().get('/flavors?' + query).fault[:2] == ('badRequest', 400)


def test_too_many_query_parameters_return_400(api):
    assert api.client().get('/flavors?' + '&'.join(['a=1'] * 600)).status == 400


def test_unknown_query_keys_return_400_since_2_75(api):
    assert api.client().get('/flavors?shape=round', version='2.74').status == 200
    assert api.client().get('/flavors?shape=round', version='2.75').status == 400
    assert api.client().get('/extensions?shape=round', version='2.101').status == 200
    assert api.client().get('/extensions?shape=round', version='2.102').status == 400


# ---- actions, faults ---------------------------------------------------------

@pytest.mark.parametrize('body', [{}, {'unknown': {}}, {'addTenantAccess': {'tenant': 'a'},
                                                        'removeTenantAccess': {'tenant': 'a'}}])
def test_body_without_a_known_action_returns_400(api, body):
    assert api.admin().post('/flavors/one/action', body).fault[:2] == ('badRequest', 400)


def _boom(req):
    raise RuntimeError('the password is swordfish')


def _busy(req):
    raise exception.HostUnavailable(host='host1')


SECRET = Object(Param('adminPass', {'type': 'string', 'maxLength': 3, 'writeOnly': True}),
                Param('data', STRING))


@pytest.fixture
def odd(tmp_path):
    fixture = base.ApiFixture(tmp_path, routes=[
        Route('GET', '/boom', _boom, policy='os_compute_api:limits'),
        Route('GET', '/busy', _busy, policy='os_compute_api:limits'),
        Route('POST', '/secret', lambda req: {}, policy='os_compute_api:limits', body=SECRET)])
    yield fixture
    fixture.close()


def test_unexpected_error_shows_no_details(odd, caplog):
    answer = odd.client().get('/boom')
    key, code, message = answer.fault
    assert (key, code) == ('computeFault', 500)
    assert b'swordfish' not in answer.body and b'Traceback' not in answer.body
    assert answer.headers['x-openstack-request-id'] in message
    assert answer.headers['x-openstack-request-id'] in caplog.text and 'swordfish' in caplog.text


def test_unavailable_service_returns_503_with_retry_after(odd):
    answer = odd.client().get('/busy')
    assert answer.fault[:2] == ('serviceUnavailable', 503)
    assert answer.headers['retry-after'] == '5'


def test_secrets_are_not_repeated(odd):
    answer = odd.client().post('/secret', {'adminPass': 'swordfish'})
    assert answer.status == 400
    assert b'swordfish' not in answer.body


def test_long_values_are_cut(odd):
    answer = odd.client().post('/secret', {'data': ['x' * 10000]})
    assert answer.status == 400 and len(answer.body) < 400


def test_a_lost_database_is_a_503(tmp_path):
    api = base.ApiFixture(tmp_path)
    api.api_db.dispose()
    api.api_db._reading = sa.create_engine('postgresql+psycopg2://nobody@127.0.0.1:1/nothing')
    assert api.client().get('/flavors').fault[:2] == ('serviceUnavailable', 503)
    api.close()


def test_answers_are_json(api):
    answer = api.client().get('/extensions')
    assert answer.headers['content-type'] == 'application/json'
    assert int(answer.headers['content-length']) == len(answer.body)
    assert orjson.loads(answer.body)['extensions']


# ---- the paste file ----------------------------------------------------------

PASTE = pathlib.Path(__file__).parents[3] / 'etc/nova/api-paste.ini'


class Tokens:
    """What EmbeddedAuth uses of an identity service."""

    def validate(self, token, allow_expired=False):
        raise exception.Unauthorized()


@pytest.mark.parametrize('pipeline', ['embedded', 'keystone'])
def test_paste_pipelines_load(api, tmp_path, monkeypatch, pipeline):
    monkeypatch.setattr('sys.argv', ['nova-api'])          # oslo.middleware reads a command line of its own
    for name, value in {'AUTH_TYPE': 'password', 'AUTH_URL': 'http://127.0.0.1:1/v3', 'USERNAME': 'nova',
                        'WWW_AUTHENTICATE_URI': 'http://127.0.0.1:1/v3', 'PASSWORD': 'x'}.items():
        monkeypatch.setenv(f'OS_KEYSTONE_AUTHTOKEN__{name}', value)
    tokens = Tokens()
    application = loadwsgi.loadapp(f'config:{PASTE}', name=pipeline, global_conf={
        'api_services': paste_registry.register(api.services), 'identity_service': paste_registry.register(tokens),
        'policy': paste_registry.register(api.policy), 'conf': paste_registry.register(api.services.conf)})
    client = base.Client(application, project=None)
    client.audited = False                   # the pipeline has no services to look for records
    assert client.get('/').json['version']['id'] == 'v2.1'
    answer = client.get('/flavors')
    assert answer.fault[:2] == ('unauthorized', 401) and 'www-authenticate' in answer.headers
    lies = {'X-Identity-Status': 'Confirmed', 'X-Project-Id': 'p', 'X-User-Id': 'u', 'X-Roles': 'admin'}
    assert client.get('/flavors', headers=lies).status == 401
