"""What GET /os-audit answers, at two versions: records of every kind."""
import pytest

from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

OPERATION = 'GET /os-audit'
OPERATIONS = [OPERATION]


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('audit'))
    fixture.client().post('/os-keypairs', {'keypair': {'name': 'k'}})
    fixture.client().post('/os-keypairs', {'keypair': {'name': ''}})
    fixture.client().post('/os-aggregates', {'aggregate': {'name': 'a'}})
    fixture.client().post('/servers', fixture.body())
    yield fixture
    fixture.close()


@pytest.mark.parametrize('version', (1, facts.MAX))
def test_responses_have_the_documented_fields(api, version):
    for query, count in (('', 4), ('?limit=2', 2), ('?outcome=denied', 1)):
        answer = api.admin(project=base.PROJECT).get('/os-audit' + query, version=f'2.{version}')
        assert answer.status == 200, answer.body
        assert facts.differences(OPERATION, version, answer.json) == []
        assert len(answer.json['audit_records']) == count
        assert ('audit_records_links' in answer.json) == (query == '?limit=2')
