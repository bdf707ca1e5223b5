"""What the compute API showed of volumes and snapshots until 2.35: real answers against the public facts."""
import pytest

from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers
from nova.tests.support import waiting

OTHER = 'another-project'


@pytest.fixture(scope='module')
def api(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('proxies'), volume__volumes=-1, volume__gigabytes=-1)
    fixture.server = fixture.add_server(1)
    fixture.held = fixture.add_volume(fixture.server)
    fixture.free = fixture.add_volume()
    yield fixture
    fixture.close()


def _volume(api):
    return {'volume': {'size': '1', 'display_name': 'n', 'display_description': 'd', 'metadata': {'a': 'b'}}}


def _snapshot(api):
    return {'snapshot': {'volume_id': api.free, 'force': 'True', 'display_name': 's'}}


OPERATIONS = [
    ('GET /os-volumes', '/os-volumes', None, 200),
    ('POST /os-volumes', '/os-volumes', _volume, 200),
    ('GET /os-volumes/detail', '/os-volumes/detail?limit=10&offset=0', None, 200),
    ('GET /os-volumes/{}', '/os-volumes/{volume}', None, 200),
    ('DELETE /os-volumes/{}', '/os-volumes/{new}', None, 202),
    ('GET /os-snapshots', '/os-snapshots', None, 200),
    ('POST /os-snapshots', '/os-snapshots', _snapshot, 200),
    ('GET /os-snapshots/detail', '/os-snapshots/detail', None, 200),
    ('GET /os-snapshots/{}', '/os-snapshots/{snapshot}', None, 200),
    ('DELETE /os-snapshots/{}', '/os-snapshots/{snapshot}', None, 202),
]


def _cases():
    for operation, path, body, code in OPERATIONS:
        method, pattern, *action = operation.split(' ')
        until = facts.minor(facts.routes()[method, pattern, ''.join(action)]['max'])
        for version in facts.boundaries(operation, 'response', 1, until):
            yield pytest.param(operation, path, body, code, version, id=f'{operation} 2.{version}')
        yield pytest.param(operation, path, body, 404, until + 1, id=f'{operation} 2.{until + 1}')


def _filled(api, path):
    return path.format(volume=api.held, new=api.add_volume() if '{new}' in path else None,
                       snapshot=api.add_snapshot() if '{snapshot}' in path else None)


@pytest.mark.parametrize('operation, path, body, code, version', _cases())
def test_volume_proxy_responses_have_the_documented_fields(api, operation, path, body, code, version):
    answer = api.client().request(operation.split(' ')[0], _filled(api, path), body and body(api),
                                  version=f'2.{version}')
    assert answer.status == code, answer.body
    if code == 200:
        assert facts.differences(operation, version, answer.json) == []


def available(client, path, key):
    waiting.wait_for(lambda: client.get(path).json[key]['status'] == 'available', 60, key)


def test_volume_can_be_created_listed_and_deleted_through_the_proxy(api):
    client = api.client()
    made = client.post('/os-volumes', _volume(api)).json['volume']
    assert (made['size'], made['displayName'], made['metadata'], made['attachments']) == (1, 'n', {'a': 'b'}, [])
    held = client.get(f'/os-volumes/{api.held}').json['volume']
    assert held['attachments'] == [{'id': api.held, 'volumeId': api.held, 'serverId': api.server,
                                    'device': '/dev/vdx'}]
    listed = client.get('/os-volumes?limit=1').json['volumes']
    assert [row['id'] for row in listed] == [made['id']]
    available(client, f'/os-volumes/{made["id"]}', 'volume')
    assert client.get('/os-volumes?limit=0').json == {'volumes': []}
    snapshot = client.post('/os-snapshots', {'snapshot': {'volume_id': made['id']}}).json['snapshot']
    assert snapshot['volumeId'] == made['id'] and snapshot['id'] in [
        row['id'] for row in client.get('/os-snapshots/detail').json['snapshots']]
    available(client, f'/os-snapshots/{snapshot["id"]}', 'snapshot')
    assert client.delete(f'/os-volumes/{made["id"]}').status == 400             # it has a snapshot
    assert client.delete(f'/os-snapshots/{snapshot["id"]}').status == 202
    assert client.delete(f'/os-volumes/{made["id"]}').status == 202
    assert client.get(f'/os-volumes/{made["id"]}').status == 404


@pytest.mark.parametrize('method, path, body, code', [
    ('POST', '/os-volumes', {'volume': {'size': 0}}, 400), ('POST', '/os-volumes', {'volume': {}}, 400),
    ('POST', '/os-volumes', {'volume': {'size': 1, 'display_name': 'x' * 256}}, 400),
    ('POST', '/os-volumes', {'volume': {'size': 1, 'metadata': {'a': {}}}}, 400),
    ('POST', '/os-volumes', {'volume': {'size': 1, 'snapshot_id': '../x'}}, 404),
    ('GET', '/os-volumes/..', None, 404), ('DELETE', '/os-snapshots/x', None, 404)])
def test_invalid_proxy_requests_are_refused(api, method, path, body, code):
    assert api.client().request(method, path, body, version='2.1').status == code


def test_volumes_and_snapshots_of_another_project_are_not_found(api):
    bob = api.client(project=OTHER)
    snapshot = api.add_snapshot()
    for path in (f'/os-volumes/{api.held}', f'/os-snapshots/{snapshot}'):
        assert bob.get(path).status == 404 and bob.delete(path).status == 404
    answer = bob.post('/os-snapshots', _snapshot(api))           # of a body; its 404 is not documented
    assert answer.status == 400 and 'could not be found' in answer.json['badRequest']['message']
    assert bob.get('/os-volumes').json == {'volumes': []} and bob.get('/os-snapshots').json == {'snapshots': []}
    assert api.client().get(f'/os-snapshots/{snapshot}').json['snapshot']['volumeId'] != base.PROJECT
