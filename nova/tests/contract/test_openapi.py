"""The OpenAPI document: valid by others' measure, complete, and served as it should be."""
import gzip
import json

import openapi_spec_validator
import pytest
from jsonschema import validators

from nova.api import app
from nova.api import response_types
from nova.api import openapi
from nova.api import versions
from nova.cmd.manage import main as manage
from nova.tests import long_runs
from nova.tests.functional import base
from nova.web import json_types

VERSIONS = (1, 26, 53, 75, 104)
ROWS = app.all_routes()


@pytest.fixture
def api(tmp_path):
    fixture = base.ApiFixture(tmp_path)
    yield fixture
    fixture.close()


# five seconds of a processor each; what is merged has the same parts
@pytest.mark.parametrize('minor, actions', long_runs.rest([
    (VERSIONS[-1], openapi.SPLIT), (VERSIONS[0], openapi.MERGED),
    *((minor, openapi.SPLIT) for minor in VERSIONS[:-1]), (VERSIONS[-1], openapi.MERGED)], 2))
def test_openapi_document_is_valid_for_an_independent_validator(minor, actions):
    document = openapi.document(ROWS, minor, actions)
    openapi_spec_validator.validate(document, cls=openapi_spec_validator.OpenAPIV31SpecValidator)


def test_validator_finds_an_invalid_document():
    document = openapi.document(ROWS, 1)
    del document['paths']['/servers/{id}']['parameters']
    with pytest.raises(openapi_spec_validator.validation.exceptions.OpenAPIValidationError):
        openapi_spec_validator.validate(document, cls=openapi_spec_validator.OpenAPIV31SpecValidator)


@pytest.mark.parametrize('minor', long_runs.sample(range(1, versions.MAX_VERSION), 5) + [versions.MAX_VERSION])
def test_every_row_of_a_version_is_an_operation_and_no_other(minor):
    documented = set()
    for path, item in openapi.document(ROWS, minor)['paths'].items():
        for method in item.keys() - {'parameters'}:
            names = item[method].get('x-openstack-actions', [''])
            documented |= {f'{method.upper()} {response_types.nameless(path)} {name}'.strip() for name in names}
    assert documented == {openapi.operation_of(row) for row in openapi.served(ROWS, minor)}


def test_a_field_is_documented_at_its_versions_only():
    def fields(minor):
        document = openapi.document(ROWS, minor)
        answer = document['paths']['/servers/{id}']['get']['responses']['200']
        return answer['content']['application/json']['schema']['properties']['server']['properties'].keys()
    assert 'locked' not in fields(8) and 'locked' in fields(9)
    create = [openapi.document(ROWS, minor)['paths']['/servers']['post']['requestBody']['content'][openapi.JSON]
              ['schema']['properties']['server'] for minor in (36, 37, 57)]
    assert ['networks' in each['required'] for each in create] == [False, True, True]
    assert ['personality' in each['properties'] for each in create] == [True, True, False]


def test_an_action_has_its_own_body_and_answers():
    action = openapi.document(ROWS, 104)['paths']['/servers/{id}/action']['post']
    titles = [form['title'] for form in action['requestBody']['content'][openapi.JSON]['schema']['oneOf']]
    assert len(titles) == len(set(titles)) and {'reboot', 'rebuild', 'os-start'} <= set(titles)
    answers = action['x-openstack-actions']['createImage']['responses']
    assert answers['202']['properties'].keys() == {'image_id'} and '409' in answers


def test_faults_have_the_key_of_their_code():
    document = openapi.document(ROWS, 104)
    schema = document['components']['responses']['404']['content'][openapi.JSON]['schema']
    assert schema['required'] == ['itemNotFound']


@pytest.mark.parametrize('operation', sorted(response_types.responses()))
def test_every_schema_of_an_answer_is_one(operation):
    for minor in VERSIONS:
        schema = response_types.body(operation, minor)
        if schema is not None:
            validators.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize('text, schema', [
    ('string|null maxLength=255 required', {'type': ['string', 'null'], 'maxLength': 255}),
    ('integer|null one of 0,1,None required', {'type': ['integer', 'null'], 'enum': [0, 1, None]}),
    ('string one of UP,DOWN,', {'type': 'string', 'enum': ['UP', 'DOWN', '']}),
    ('boolean|string one of True,True', {'type': ['boolean', 'string'], 'enum': [True, 'True']}),
    ('string oneOf(format=ipv4 / const=) required', {'type': 'string', 'anyOf': [{'format': 'ipv4'}, {'const': ''}]}),
    ('allOf(string minLength=1 / string pattern ^[_\\@ a]+$ maxLength=2) required',
     {'allOf': [{'type': 'string', 'minLength': 1}, {'type': 'string', 'pattern': '^[_@ a]+$', 'maxLength': 2}]}),
    ('const=IRONIC MANAGED required', {'const': 'IRONIC MANAGED'}),
])
def test_documented_type_becomes_a_schema(text, schema):
    assert json_types.typed(text) == schema


# ---- over HTTP ---------------------------------------------------------------

def _get(api, query='', headers=None, method='GET'):
    return api.client(project=None, prefix='').request(method, '/openapi.json' + query, headers=headers)


def test_openapi_document_needs_no_token(api):
    answer = _get(api, '?microversion=2.53')
    assert answer.status == 200 and answer.headers['content-type'] == 'application/json'
    assert answer.json == json.loads(json.dumps(openapi.document(ROWS, 53)))
    assert _get(api).json['info']['version'] == '2.104' == _get(api, '?microversion=latest').json['info']['version']


def test_openapi_document_is_served_below_a_version(api):
    """At the microversion of the request, as everything else there."""
    client = api.client(project=None)
    assert client.get('/openapi.json').json['info']['version'] == '2.1'
    for version in ('2.53', '2.104'):
        answer = client.request('GET', '/openapi.json', headers={'OpenStack-API-Version': f'compute {version}'})
        assert answer.status == 200 and answer.json['info']['version'] == version
    assert client.get('/openapi.json?microversion=2.60').json['info']['version'] == '2.60'
    assert 'OpenStack-API-Version' in answer.headers['vary']


def test_unchanged_openapi_document_returns_304(api):
    first = _get(api, '?microversion=2.53')
    tag = first.headers['etag']
    again = _get(api, '?microversion=2.53', {'If-None-Match': f'"other", {tag}'})
    assert (again.status, again.body, again.headers['etag']) == (304, b'', tag)
    assert _get(api, '?microversion=2.54', {'If-None-Match': tag}).status == 200


def test_openapi_document_is_compressed_on_request(api):
    answer = _get(api, '', {'Accept-Encoding': 'br, gzip'})
    assert answer.headers['content-encoding'] == 'gzip' and 'Accept-Encoding' in answer.headers['vary']
    assert gzip.decompress(answer.body) == _get(api).body


@pytest.mark.parametrize('query, status', [
    ('?microversion=2.999', 406), ('?microversion=x', 400), ('?version=2.1', 400),
    ('?microversion=2.1&microversion=2.2', 400), ('?microversion=', 400)])
def test_invalid_version_parameter_is_refused(api, query, status):
    assert _get(api, query).status == status


def test_head_returns_no_body(api):
    assert (_get(api, method='HEAD').status, _get(api, method='HEAD').body) == (200, b'')


def test_openapi_command_prints_the_served_document(capsys, tmp_path):
    assert manage.main(['api', 'openapi', '--microversion', '2.26', '--state-path', str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(openapi.document(ROWS, 26)))
    assert manage.main(['api', 'openapi', '--microversion', '2.x', '--state-path', str(tmp_path)]) == 1
    assert 'invalid format' in capsys.readouterr().err
