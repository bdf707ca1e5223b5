"""Real answers about aggregates and server groups against the public facts, at every version that changes them."""
import itertools

import pytest

from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import cloud_rows
from nova.tests.functional import servers

_COUNTER = itertools.count()


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('placement'), quota__server_groups=-1)
    with fixture.cell_db.writer() as conn:
        cloud_rows.service(conn, 'spare')
        cloud_rows.service(conn, 'other')
    admin = fixture.admin(project=base.PROJECT)
    admin.post('/os-aggregates', {'aggregate': {'name': 'a', 'availability_zone': 'z'}})
    admin.post('/os-aggregates/1/action', {'add_host': {'host': 'spare'}})
    admin.post('/os-aggregates/1/action', {'set_metadata': {'metadata': {'ssd': 'true'}}})
    fixture.group_id = admin.post('/os-server-groups', {'server_group': {
        'name': 'g', 'policy': 'anti-affinity', 'rules': {'max_server_per_host': 3}}}, version='2.64').json[
            'server_group']['id']
    admin.post('/servers', {**fixture.body(), 'os:scheduler_hints': {'group': fixture.group_id}})
    yield fixture
    fixture.close()


def _group(api, version):
    policy = {'policy': 'affinity'} if version >= 64 else {'policies': ['affinity']}
    return {'server_group': {'name': 'g', **policy}}


def _other(action):
    def body(api, version):
        # once out and once in, so that either can be done at the next version
        opposite = {'add_host': 'remove_host', 'remove_host': 'add_host'}[action]
        api.admin().post('/os-aggregates/1/action', {opposite: {'host': 'other'}})
        return {action: {'host': 'other'}}
    return body


# operation, path (a part of the fixture filled in), body or what makes it
OPERATIONS = [
    ('GET /os-aggregates', '/os-aggregates', None),
    ('POST /os-aggregates', '/os-aggregates',
     lambda api, version: {'aggregate': {'name': f'n{next(_COUNTER)}', 'availability_zone': 'zone'}}),
    ('GET /os-aggregates/{}', '/os-aggregates/1', None),
    ('PUT /os-aggregates/{}', '/os-aggregates/1', lambda api, version: {'aggregate': {'name': 'b'}}),
    ('POST /os-aggregates/{}/action add_host', '/os-aggregates/1/action', _other('add_host')),
    ('POST /os-aggregates/{}/action remove_host', '/os-aggregates/1/action', _other('remove_host')),
    ('POST /os-aggregates/{}/action set_metadata', '/os-aggregates/1/action',
     lambda api, version: {'set_metadata': {'metadata': {'k': 'v'}}}),
    ('GET /os-server-groups', '/os-server-groups', None),
    ('GET /os-server-groups/{}', '/os-server-groups/{group}', None),
    ('POST /os-server-groups', '/os-server-groups', _group),
]


def _cases():
    for operation, path, body in OPERATIONS:
        method, pattern, *action = operation.split(' ')
        row = facts.routes()[method, pattern, ''.join(action)]
        since, until = max(facts.minor(row['min']), 1), facts.minor(row['max'])
        for version in facts.boundaries(operation, 'response', since, until):
            yield pytest.param(operation, path, body, version, id=f'{operation} 2.{version}')


@pytest.mark.parametrize(('operation', 'path', 'body', 'version'), _cases())
def test_responses_have_the_documented_fields(api, operation, path, body, version):
    answer = api.admin(project=base.PROJECT).request(
        operation.split(' ')[0], path.format(group=api.group_id), body and body(api, version), version=f'2.{version}')
    assert answer.status == 200, answer.body
    assert facts.differences(operation, version, answer.json) == []


def test_fixture_returns_nonempty_answers(api):
    admin = api.admin(project=base.PROJECT, version='2.64')
    group = admin.get(f'/os-server-groups/{api.group_id}').json['server_group']
    assert group['members'] and group['rules'] == {'max_server_per_host': 3}
    assert admin.get('/os-aggregates/1').json['aggregate']['hosts']
