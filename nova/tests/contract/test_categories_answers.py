"""Real answers about instance categories, and about servers of them, against the facts, at every version."""
import itertools

import pytest

from nova.api.servers import category as server_category
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

_COUNTER = itertools.count()
KEY = server_category.KEY


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('categories'), quota__instances=-1, quota__cores=-1,
                              quota__ram=-1)
    admin = fixture.admin()
    admin.post('/os-instance-categories', {'instance_category': {
        'name': 'storage', 'description': 'd', 'default_image': fixture.image_id, 'default_flavor': '1',
        'requirements': {'local_ssd': 'true'}}})
    gone = admin.post('/os-instance-categories', {'instance_category': {'name': 'gone'}}).json['instance_category']
    admin.delete('/os-instance-categories/' + gone['id'])
    yield fixture
    fixture.close()


def _new(api, version):
    return {'instance_category': {'name': f'n{next(_COUNTER)}'}}


# operation, path, body or what makes it
OPERATIONS = [
    ('GET /os-instance-categories', '/os-instance-categories?deleted=true&limit=1', None),
    ('POST /os-instance-categories', '/os-instance-categories', _new),
    ('GET /os-instance-categories/{}', '/os-instance-categories/gone?deleted=1', None),
    ('PUT /os-instance-categories/{}', '/os-instance-categories/storage',
     lambda api, version: {'instance_category': {'description': None}}),
]
CASES = [pytest.param(*row, version, id=f'{row[0]} 2.{version}')
         for row in OPERATIONS for version in (1, facts.MAX)]


@pytest.mark.parametrize(('operation', 'path', 'body', 'version'), CASES)
def test_responses_have_the_documented_fields(api, operation, path, body, version):
    answer = api.admin().request(operation.split(' ')[0], path, body and body(api, version), version=f'2.{version}')
    assert answer.status == (201 if operation.startswith('POST') else 200), answer.body
    assert facts.differences(operation, version, answer.json) == []


SHOWN = [(operation, version) for operation in ('GET /servers/detail', 'GET /servers/{}', 'PUT /servers/{}')
         for version in facts.boundaries(operation, 'response')]


@pytest.mark.parametrize(('operation', 'version'), SHOWN)
def test_an_administrative_server_shows_its_category(api, operation, version):
    server_id = api.add_server(1000 + next(_COUNTER), category='storage')
    method, path = operation.replace('{}', server_id).split(' ')
    body = {'server': {'name': 'n'}} if method == 'PUT' else None
    answer = api.admin(project=base.PROJECT).request(method, path, body, version=f'2.{version}')
    assert answer.status == 200, answer.body
    shown = answer.json['server'] if 'server' in answer.json else answer.json['servers'][0]
    assert shown[KEY] == 'storage'
    known = facts.fields_at(operation, 'response', version)
    assert ('server.' if 'server' in answer.json else 'servers[].') + KEY in known
    assert not [problem for problem in facts.differences(operation, version, answer.json) if KEY in problem]
