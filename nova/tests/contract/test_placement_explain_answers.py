"""What POST /os-scheduler/explain answers, at every version in which a server create differs."""
import uuid

import pytest

from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.support import placement_explain as explain

OPERATION = 'POST /os-scheduler/explain'
OPERATIONS = [OPERATION]
VERSIONS = (1, 2, 19, 36, 37, 52, 57, 63, 74, 90, facts.MAX)


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = explain.Fixture(tmp_path_factory.mktemp('explain'))
    fixture.disable('host1')
    yield fixture
    fixture.close()


def body(api, version):
    return api.body(**({'networks': 'none'} if version >= 37 else {}))


@pytest.mark.parametrize('version', VERSIONS)
def test_responses_have_the_documented_fields(api, version):
    answer = api.admin(project=base.PROJECT).post(explain.PATH, body(api, version), version=f'2.{version}')
    assert answer.status == 200, answer.body
    assert facts.differences(OPERATION, version, answer.json) == []
    found = answer.json['explanation']
    assert found['ranking'] and found['choices'] and found['nearest'] and found['weighers']
    assert any(row['hosts'] for row in found['filters'])


@pytest.mark.parametrize('version', (1, facts.MAX))
def test_explanation_without_a_host_has_the_documented_fields(api, version):
    wanted = body(api, version)
    wanted['server']['availability_zone'] = 'nova:host1'
    api.change_host('host1', memory_mb_used=8192)
    answer = api.admin(project=base.PROJECT).post(explain.PATH, wanted, version=f'2.{version}')
    assert answer.status == 200, answer.body
    assert facts.differences(OPERATION, version, answer.json) == []
    assert answer.json['explanation']['choices'] == [] and answer.json['explanation']['reason']


def test_explanation_of_an_existing_server_has_the_documented_fields(api):
    server, spec = api.create()
    api.scheduler.methods.select_destinations(api.owner, spec, [server])
    answer = api.admin().post(explain.PATH, {'server_id': server, 'seed': str(uuid.uuid4())})
    assert answer.status == 200 and facts.differences(OPERATION, 1, answer.json) == []
