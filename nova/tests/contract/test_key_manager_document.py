"""The OpenAPI document of the Key Manager API: valid, complete, and without encrypted payloads."""
import openapi_spec_validator
import pytest

from nova.keymanager import payloads
from nova.keymanager.rest import handlers
from nova.keymanager.rest import openapi
from nova.keymanager.rest import resources
from nova.web import openapi as web_openapi
from nova.web.resource import Resource

RESOURCES = [value for value in vars(resources).values() if isinstance(value, Resource)]


@pytest.mark.parametrize('version', [0, 1])
def test_an_independent_validator_finds_the_document_valid(version):
    document = openapi.DESCRIBER.document(handlers.ROUTES, version)
    openapi_spec_validator.validate(document, cls=openapi_spec_validator.OpenAPIV31SpecValidator)
    assert {web_openapi.operation_of(row) for row in handlers.ROUTES} == {
        f'{method.upper()} {web_openapi.nameless(path)}'
        for path, item in document['paths'].items() for method in item.keys() - {'parameters'}}


def test_every_field_is_described_and_its_column_exists():
    assert {resource.name for resource in RESOURCES} == {'secret', 'container', 'order'}
    for resource in RESOURCES:
        assert [field.name for field in resource.fields if not field.doc.endswith('.')] == []
        assert {*resource.filters.values(), *resource.sort_keys} <= {*resource.table.c.keys()}


def test_no_field_shows_an_encrypted_payload():
    assert not {field.source for resource in RESOURCES for field in resource.fields} & {
        'encrypted_payload', 'encryption_key_id'}


def test_every_answer_with_a_body_is_described():
    without = {web_openapi.operation_of(row) for row in handlers.ROUTES if row.answer is None and row.status != 204}
    assert without == {'GET /v1/secrets/{}/payload', 'DELETE /v1/secrets/{}/acl', 'DELETE /v1/containers/{}/acl'}


def test_secret_has_the_types_of_payloads_and_deletions_with_a_body_refuse_other_types():
    paths = openapi.DESCRIBER.document(handlers.ROUTES, 1)['paths']
    shown = paths['/v1/secrets/{ident}']['get']['responses']['200']['content']
    assert shown.keys() == {'application/json', *payloads.TYPES}
    refusing = {path for path, item in paths.items() if '415' in item.get('delete', {'responses': ()})['responses']}
    assert refusing == {'/v1/containers/{ident}/secrets', '/v1/secrets/{ident}/consumers',
                        '/v1/containers/{ident}/consumers'}


def test_consumers_are_a_part_of_secrets_since_the_first_microversion():
    shown = [resources.SECRET.view('show').schema(version)['properties'].keys() for version in (0, 1)]
    assert shown[1] - shown[0] == {'consumers'} and not shown[0] - shown[1]
