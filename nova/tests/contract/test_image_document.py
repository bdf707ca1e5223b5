"""The Image API and its OpenAPI document: valid, served, and what every operation answers."""
import json
import urllib.parse

import hypothesis
import openapi_spec_validator
import pytest
import schemathesis

from nova.image import resources
from nova.image.rest import app
from nova.image.rest import handlers
from nova.image.rest import openapi
from nova.image.rest import patch
from nova.tests import image_service as service
from nova.tests import openapi_answers
from nova.web import openapi as web_openapi
from nova.web.resource import Resource

schemathesis.serializer.alias([*patch.TYPES], 'application/json')


@pytest.fixture
def application(tmp_path):
    """Every answer to a service.Client is compared with the document."""
    return service.application(tmp_path)


def document():
    return openapi.DESCRIBER.document(handlers.ROUTES, 1)


def test_an_independent_validator_finds_the_document_valid():
    openapi_spec_validator.validate(document(), cls=openapi_spec_validator.OpenAPIV31SpecValidator)
    described = {f'{method.upper()} {web_openapi.nameless(path)}'
                 for path, item in document()['paths'].items() for method in item.keys() - {'parameters'}}
    assert described == {web_openapi.operation_of(row) for row in handlers.ROUTES}


def test_every_field_is_described_and_its_column_exists():
    found = [value for value in vars(resources).values() if isinstance(value, Resource)]
    assert len(found) == 3
    for resource in found:
        assert [field.name for field in resource.fields if not field.doc] == []
        if resource.table is not None:
            assert {*resource.filters.values(), *resource.sort_keys} <= {*resource.table.c.keys()}


def test_every_answer_with_a_body_is_described():
    without = {web_openapi.operation_of(row) for row in handlers.ROUTES
               if row.answer is None and row.status not in (202, 204) and not openapi.DESCRIBER.media_type(row)}
    assert without == set()


def test_the_document_is_served_to_anybody(application):
    answer = service.Client(application, None)('GET', '/openapi.json')
    assert answer.status == 200 and answer.json == json.loads(json.dumps(document()))
    again = service.Client(application, None)('GET', '/openapi.json', headers={'If-None-Match': answer.headers['etag']})
    assert (again.status, again.body, again.headers['vary']) == (304, b'', 'Accept-Encoding')


def test_schemas_and_document_have_the_same_fields(application):
    paths = document()['paths']
    shown = paths['/v2/images/{image_id}']['get']['responses']['200']['content'][web_openapi.JSON]['schema']
    schema = service.Client(application)('GET', '/v2/schemas/image').json['properties']
    assert shown['properties'] == {name: field for name, field in schema.items()
                                   if name not in ('direct_url', 'locations')}
    assert shown['additionalProperties'] == {'type': 'string'}
    member = paths['/v2/images/{image_id}/members/{member}']['get']['responses']['200']['content'][
        web_openapi.JSON]['schema']
    schema = service.Client(application)('GET', '/v2/schemas/member').json['properties']
    assert {**member['properties'], 'schema': schema['schema']} == schema
    assert member['additionalProperties'] is False


def test_every_operation_answers_as_documented(application):
    seen = openapi_answers.IMAGE.seen
    seen.clear()
    owner, member, reader = (service.Client(application, *caller) for caller in (
        (service.ALICE,), (service.BOB,), (service.ALICE, ('reader',))))
    image = owner.create(b'\0' * 1024, name='n', tags=['a'], os_version='1', min_ram=1)
    url = f'/v2/images/{image["id"]}'
    for query in ('', '?limit=1', '?os_version=1', '?sort=name:asc&size_min=1&created_at=gt:2020-01-01', '?size=x'):
        for caller in (owner, member, reader):
            caller('GET', '/v2/images' + query)
    for kind, operation in ((patch.V21, {'op': 'add', 'path': '/kernel_id', 'value': None}),
                            (patch.V20, {'replace': '/name', 'value': 'new'})):
        for caller in (owner, reader, member):
            caller('PATCH', url, [operation], kind=kind)
    owner('PATCH', url, [])                                  # 415
    owner('POST', '/v2/images', {'id': image['id']})         # 409
    for part in ('bytes=0-9', 'bytes=9999-'):
        owner('GET', url + '/file', headers={'Range': part})
    owner('GET', f'/v2/images/{owner.create()["id"]}/file')
    for method in ('PUT', 'DELETE', 'DELETE'):
        owner(method, url + '/tags/b')
    staged = f'/v2/images/{owner.create()["id"]}'
    for caller in (owner, member, reader):
        caller('PUT', staged + '/stage', b'data', kind='application/octet-stream')
        caller('POST', staged + '/import', {'method': {'name': 'glance-direct'}})
    owner('POST', staged + '/import', {'method': {'name': 'web-download', 'uri': 'file:///x'}})
    owner('GET', staged + '/tasks')
    owner('POST', url + '/members', {'member': service.BOB})
    owner('POST', url + '/members', {'member': service.BOB})
    member('PUT', f'{url}/members/{service.BOB}', {'status': 'accepted'})
    for end in ('', '/file', '/tasks', '/members', f'/members/{service.BOB}'):
        for caller in (owner, member, reader):
            caller('GET', url + end)
    owner('DELETE', f'{url}/members/{service.BOB}')
    for name in ('deactivate', 'reactivate'):
        owner('POST', f'{url}/actions/{name}')
    for path in ('schemas/image', 'schemas/images', 'schemas/member', 'schemas/members', 'schemas/task',
                 'info/import', 'info/stores', 'info/usage'):
        for caller in (owner, service.Client(application, None)):
            caller('GET', '/v2/' + path)
    owner('DELETE', url)
    definitions(service.Client(application, service.ADMIN))
    admin = service.Client(application, service.ADMIN)
    made = admin('POST', '/v2/tasks', {'type': 'import', 'input': {
        'import_from': 'http://images.invalid/x', 'import_from_format': 'raw', 'image_properties': {
            'name': 'n', 'disk_format': 'raw', 'container_format': 'bare'}}})
    admin('GET', f'/v2/tasks/{made.json["id"]}')
    admin('GET', '/v2/tasks')
    done = {name for name, status in seen if status < 400}
    assert done == {web_openapi.operation_of(row) for row in handlers.ROUTES}
    assert {status for _name, status in seen} >= {200, 201, 204, 206, 400, 401, 403, 404, 409, 415, 416}


def definitions(admin):
    """Every operation of metadata definitions."""
    admin('GET', '/v2/schemas/metadefs/namespace')
    admin('POST', '/v2/metadefs/namespaces', {'namespace': 'n'})
    admin('PUT', '/v2/metadefs/namespaces/n', {'description': 'd'})
    for plural, fields in (('objects', {}), ('properties', {'title': 'T', 'type': 'string'}), ('resource_types', {})):
        admin('POST', f'/v2/metadefs/namespaces/n/{plural}', {'name': 'i', **fields})
    admin('POST', '/v2/metadefs/namespaces/n/tags', {'tags': []})
    admin('POST', '/v2/metadefs/namespaces/n/tags/i')
    for plural in ('objects', 'properties', 'tags', 'resource_types'):
        path = f'/v2/metadefs/namespaces/n/{plural}'
        for method, end in (('GET', ''), ('GET', '/i'), ('PUT', '/i'), ('DELETE', '/i'), ('DELETE', '')):
            if plural != 'resource_types' or (method, end) in (('GET', ''), ('DELETE', '/i')):
                admin(method, path + end, {'name': 'i'} if method == 'PUT' else None)
    for path in ('resource_types', 'namespaces', 'namespaces/n'):
        admin('GET', f'/v2/metadefs/{path}')
    admin('DELETE', '/v2/metadefs/namespaces/n')


def test_requests_generated_from_the_document_get_documented_answers(application):
    """schemathesis generates requests for each operation; the client compares the answers with the document."""
    made, sent = document(), set()
    made['security'] = []
    for number, found in enumerate(schemathesis.openapi.from_dict(made).get_all_operations()):
        @hypothesis.seed(number)
        @hypothesis.settings(max_examples=3, deadline=None, database=None, phases=[hypothesis.Phase.generate],
                             suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(found.ok().as_strategy())
        def send(case):
            query = urllib.parse.urlencode(case.query or {}, doseq=True)
            body = case.body if isinstance(case.body, (dict, list, bytes)) else None
            answer = service.Client(application, service.ADMIN)(
                case.method, f'{case.formatted_path}?{query}', body, kind=case.media_type or '')
            assert answer.status < 500, (case.method, case.formatted_path, body)
            sent.add(case.operation.label)
        send()
    assert len(sent) == len(handlers.ROUTES)


def test_the_application_serves_the_documented_rows(application):
    assert isinstance(application.api, app.ImageApi) and application.api.routes == handlers.ROUTES
