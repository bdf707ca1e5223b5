"""The answers of what is added to server groups, and of the added policies, at every version that changes them."""
import pytest

from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

_GROUP, _METADATA = '/os-server-groups/{group}', '/os-server-groups/{group}/metadata'


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('groups'), quota__server_groups=-1)
    yield fixture
    fixture.close()


def _update(version):
    return {'server_group': {'name': 'n', **({'policy': 'network-proximity'} if version >= 64 else
                                             {'policies': ['host-capabilities']})}}


def _items(version):
    return {'metadata': {'a': '1', 'capabilities:x': '>= 2'}}


def _item(version):
    return {'meta': {'a': '2'}}


# operation, path (the group's id filled in), what makes the body
OPERATIONS = [
    ('PUT /os-server-groups/{}', _GROUP, _update),
    ('GET /os-server-groups/{}', _GROUP, None),
    ('GET /os-server-groups', '/os-server-groups', None),
    ('POST /os-server-groups/{}/metadata', _METADATA, _items),
    ('PUT /os-server-groups/{}/metadata', _METADATA, _items),
    ('GET /os-server-groups/{}/metadata', _METADATA, None),
    ('GET /os-server-groups/{}/metadata/{}', _METADATA + '/a', None),
    ('PUT /os-server-groups/{}/metadata/{}', _METADATA + '/a', _item),
    ('DELETE /os-server-groups/{}/metadata/{}', _METADATA + '/a', None),
]


def _cases():
    for operation, path, body in OPERATIONS:
        # an addition is there at every version, whatever the facts of its answer say of them
        for version in sorted({*facts.boundaries(operation, 'response'), 1, 14, 15, 63, 64, facts.MAX}):
            yield pytest.param(operation, path, body, version, id=f'{operation} 2.{version}')


@pytest.mark.parametrize('policies', [['anti-affinity'], [], ['affinity', 'network-proximity', 'host-capabilities']],
                         ids=lambda policies: ','.join(policies) or 'none')
@pytest.mark.parametrize(('operation', 'path', 'body', 'version'), _cases())
def test_responses_have_the_documented_fields(api, operation, path, body, version, policies):
    made = api.client(prefix='/v3.0/' + base.PROJECT).post('/groups', {'group': {
        'name': 'g', 'policies': policies, 'metadata': {'a': '1'}}})
    group = made.json['group']['id']
    method = operation.split(' ')[0]
    answer = api.client().request(method, path.format(group=group), body and body(version), version=f'2.{version}')
    assert answer.status == (204 if method == 'DELETE' else 200), answer.body
    assert facts.differences(operation, version, answer.json if answer.body else {}) == []


@pytest.mark.parametrize('version', [1, 14, 15, 63, 64, 104])
@pytest.mark.parametrize('policy', ['network-proximity', 'host-capabilities'])
def test_added_policies_are_there_at_every_version(api, version, policy):
    given = {'policy': policy} if version >= 64 else {'policies': [policy]}
    answer = api.client().post('/os-server-groups', {'server_group': {'name': 'g', **given}}, version=f'2.{version}')
    assert answer.status == 200, answer.body
    assert facts.differences('POST /os-server-groups', version, answer.json) == []
    shown = api.client().get('/os-server-groups/' + answer.json['server_group']['id'], version=f'2.{version}').json[
        'server_group']
    assert {name: shown[name] for name in given} == given and 'nova:policies' not in shown
