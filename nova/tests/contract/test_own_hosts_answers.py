"""What the additions about processes and cells answer, at two versions."""
import pytest

from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import cloud_rows

OPERATIONS = ['GET /os-metrics', 'GET /os-cell-mappings', 'GET /os-permissions', 'GET /os-hypervisors/{}/os-metrics']


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = base.ApiFixture(tmp_path_factory.mktemp('hosts'))
    with fixture.cell_db.writer() as conn:
        cloud_rows.service(conn, 'host1')
        fixture.node_id = cloud_rows.node(conn, 'host1', uptime='up')
    yield fixture
    fixture.close()


@pytest.mark.parametrize('version', (1, facts.MAX))
@pytest.mark.parametrize('operation', OPERATIONS)
def test_responses_have_the_documented_fields(api, operation, version):
    path = operation.partition(' ')[2].format(api.node_id if version >= 53 else 1)
    answer = api.admin().get(path, version=f'2.{version}')
    assert answer.status == 200, answer.body
    assert facts.differences(operation, version, answer.json) == []
    refused = 200 if operation == 'GET /os-permissions' else 403
    assert api.client().get(path, version=f'2.{version}').status == refused
