"""The identity API and its OpenAPI document: valid, served, and what every operation answers."""
import gzip
import json

import hypothesis
import openapi_spec_validator
import pytest
import schemathesis

from nova.identity.rest import handlers
from nova.identity.rest import openapi
from nova.identity.rest import resources
from nova.tests import identity_fixture
from nova.tests import identity_walk
from nova.tests import openapi_answers
from nova.web import openapi as web_openapi
from nova.web.resource import Resource

RESOURCES = [value for value in vars(resources).values() if isinstance(value, Resource)]
SECRETS = {'password', 'password_hash', 'secret_hash', 'encrypted_blob', 'blob', 'secret', 'totp_step'}
# operations that the recorded walk does not do with success
NOT_RECORDED = {
    'POST /v3/ec2tokens', 'POST /v3/s3tokens',                                          # they need signed requests
    # functional tests do these, and compare the answers with the document
    'POST /v3/policies', 'GET /v3/policies/{}', 'PATCH /v3/policies/{}', 'DELETE /v3/policies/{}',
    'GET /', 'GET /v3/groups/{}', 'GET /v3/groups/{}/users/{}', 'DELETE /v3/registered_limits/{}',
    'DELETE /v3/users/{}/access_rules/{}', *(
        f'DELETE /v3/{target}/{actor}/{{}}/roles/{{}}{end}' for actor in ('users', 'groups')
        for target, end in (('projects/{}', ''), ('OS-INHERIT/projects/{}', '/inherited_to_projects'),
                            ('OS-INHERIT/domains/{}', '/inherited_to_projects')))}


@pytest.fixture
def cloud(tmp_path):
    return identity_fixture.IdentityCloud(tmp_path)


def document():
    return openapi.DESCRIBER.document(handlers.ROUTES, 1)


def test_an_independent_validator_finds_the_document_valid():
    openapi_spec_validator.validate(document(), cls=openapi_spec_validator.OpenAPIV31SpecValidator)
    assert {web_openapi.operation_of(row) for row in handlers.ROUTES} == {
        f'{method.upper()} {web_openapi.nameless(path)}'
        for path, item in document()['paths'].items() for method in item.keys() - {'parameters'}}


def test_every_field_is_described_and_its_column_exists():
    assert len(RESOURCES) > 15
    for resource in RESOURCES:
        assert [field.name for field in resource.fields if not field.doc.endswith('.')] == []
        if resource.table is not None:
            # Limits have columns of their registered limits.
            assert resource.filters.keys() - {*resource.table.c.keys()} <= (
                {'service_id', 'region_id', 'resource_name'} if resource.name == 'limit' else set())


def test_only_credentials_show_secrets():
    shown = {(resource.name, view, field.name) for resource in RESOURCES for field in resource.fields
             for view in field.views.split() if field.name in SECRETS or field.get in SECRETS}
    assert shown == {('credential', view, name) for view in ('show', 'create')
                     for name in ('blob', 'secret')} | {('application_credential', 'create', 'secret')} | {
                         ('policy', view, 'blob') for view in ('show', 'create')}       # a document, no secret


def test_every_answer_with_a_body_is_described():
    without = {web_openapi.operation_of(row) for row in handlers.ROUTES if row.answer is None and row.status == 200}
    assert without == set()


def test_the_document_is_served_to_anybody(cloud):
    answer = cloud.call('GET', '/openapi.json')
    assert answer.json == json.loads(json.dumps(document()))
    packed = cloud.call('GET', '/openapi.json', check=False, Accept_Encoding='gzip')
    assert json.loads(gzip.decompress(packed.body))['info']['title'] == 'Identity API'
    again = cloud.call('GET', '/openapi.json', If_None_Match=answer.headers['ETag'])
    assert (again.status_int, again.body) == (304, b'')


@pytest.mark.timeout(900)
def test_answers_are_the_recorded_ones(tmp_path):
    """``python -m nova.tests.identity_walk`` records them. Each answer is as documented, too."""
    openapi_answers.IDENTITY.seen.clear()
    made, before = identity_walk.answers(tmp_path), identity_walk.recorded()
    assert [request for request, _answer in made] == [request for request, _answer in before]
    changed = [(request, before, now) for (request, now), (_request, before) in zip(made, before) if now != before]
    assert not changed[:3]
    succeeded = {name for name, status in openapi_answers.IDENTITY.seen if status < 400}
    assert {web_openapi.operation_of(row) for row in handlers.ROUTES} - succeeded == NOT_RECORDED


@pytest.mark.timeout(900)
def test_requests_generated_from_the_document_get_documented_answers(cloud):
    """schemathesis generates a request for each operation; cloud.call validates the answer."""
    found = document()
    found['security'] = []
    sent = []
    for number, operation in enumerate(schemathesis.openapi.from_dict(found).get_all_operations()):
        @hypothesis.seed(number)
        @hypothesis.settings(max_examples=1, deadline=None, database=None, phases=[hypothesis.Phase.generate],
                             suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(operation.ok().as_strategy())
        def send(case):
            body = case.body if isinstance(case.body, dict) else None
            # the tokens of the administrator end with changes of its password
            answer = cloud.call(case.method, case.formatted_path, body, cloud.token())
            assert answer.status_int < 500 or answer.status_int == 503, (case.method, case.formatted_path, body)
            sent.append(case.operation.label)
        send()
    assert len({*sent}) == len(handlers.ROUTES)
