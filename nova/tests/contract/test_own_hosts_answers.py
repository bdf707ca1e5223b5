"""What the additions about processes and cells answer, at two versions."""
import pytest

from nova.tests.contract import facts
from nova.tests.functional import base

OPERATIONS = ['GET /os-metrics', 'GET /os-cell-mappings', 'GET /os-permissions']


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = base.ApiFixture(tmp_path_factory.mktemp('hosts'))
    yield fixture
    fixture.close()


@pytest.mark.parametrize('version', (1, facts.MAX))
@pytest.mark.parametrize('operation', OPERATIONS)
def test_responses_have_the_documented_fields(api, operation, version):
    answer = api.admin().get(operation.partition(' ')[2], version=f'2.{version}')
    assert answer.status == 200, answer.body
    assert facts.differences(operation, version, answer.json) == []
    refused = 200 if operation == 'GET /os-permissions' else 403
    assert api.client().get(operation.partition(' ')[2]).status == refused
