"""Answers about what belongs to a server, and of the image proxy, against the facts, at every version with a change."""
import pytest

from nova.db.servers import instance_actions
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

NOTHING = '00000000-0000-0000-0000-000000000000'


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('parts'))
    admin = fixture.admin(project=base.PROJECT)
    admin.post(f'/images/{fixture.image_id}/metadata', {'metadata': {'k': 'v'}})
    admin.post('/flavors', {'flavor': {'id': 'p', 'name': 'p', 'ram': 1, 'vcpus': 1, 'disk': 1,
                                       'os-flavor-access:is_public': False}})
    admin.post('/flavors/p/action', {'addTenantAccess': {'tenant': 'u'}})
    yield fixture
    fixture.close()


@pytest.fixture
def server(cloud):
    """A server with addresses, metadata, a tag, and an action that failed."""
    uuid = cloud.add_server(host=servers.HOST, node=servers.NODE, metadata={'k': 'v'}, tags=',t,')
    with cloud.cell_db.writer() as conn:
        instance_actions.insert(conn, cloud.owner, [uuid], 'start')
        instance_actions.finish(conn, uuid, 'compute_start_instance', host=servers.HOST, error='It failed.',
                                traceback='Traceback')
    return uuid


# operation, path below the server (or not), body
OPERATIONS = [
    ('GET /servers/{}/ips', '/servers/{server}/ips', None),
    ('GET /servers/{}/ips/{}', '/servers/{server}/ips/{network}', None),
    ('GET /servers/{}/metadata', '/servers/{server}/metadata', None),
    ('POST /servers/{}/metadata', '/servers/{server}/metadata', {'metadata': {'j': 'w'}}),
    ('PUT /servers/{}/metadata', '/servers/{server}/metadata', {'metadata': {'j': 'w'}}),
    ('GET /servers/{}/metadata/{}', '/servers/{server}/metadata/k', None),
    ('PUT /servers/{}/metadata/{}', '/servers/{server}/metadata/k', {'meta': {'k': 'w'}}),
    ('GET /servers/{}/tags', '/servers/{server}/tags', None),
    ('PUT /servers/{}/tags', '/servers/{server}/tags', {'tags': ['a', 'b']}),
    ('GET /servers/{}/os-instance-actions', '/servers/{server}/os-instance-actions', None),
    ('GET /servers/{}/os-instance-actions/{}', '/servers/{server}/os-instance-actions/{request}', None),
    ('POST /servers/{}/action createImage', '/servers/{server}/action', {'createImage': {'name': 'i'}}),
    ('POST /servers/{}/action os-getConsoleOutput', '/servers/{server}/action', {'os-getConsoleOutput': {}}),
    ('POST /servers/action', '/servers/action',
     {'os-bulk-action': {'action': {'os-stop': None}}}),
    ('GET /images/{}/metadata/{}', '/images/{image}/metadata/k', None),
    ('PUT /images/{}/metadata', '/images/{image}/metadata', {'metadata': {'k': 'w'}}),
    ('PUT /images/{}/metadata/{}', '/images/{image}/metadata/k', {'meta': {'k': 'w'}}),
    ('POST /flavors/{}/action removeTenantAccess', '/flavors/p/action', {'removeTenantAccess': {'tenant': 't'}}),
]


def _cases():
    for operation, path, body in OPERATIONS:
        method, pattern, *action = operation.split(' ')
        row = facts.routes().get((method, pattern, ''.join(action)), {'min': '2.1', 'max': ''})
        for version in facts.boundaries(operation, 'response', facts.minor(row['min']), facts.minor(row['max'])):
            yield pytest.param(operation, path, body, version, id=f'{operation} 2.{version}')


@pytest.mark.parametrize('operation,path,body,version', _cases())
def test_responses_have_the_documented_fields(cloud, server, operation, path, body, version):
    client = cloud.admin(project=base.PROJECT)
    client.post('/flavors/p/action', {'addTenantAccess': {'tenant': 't'}})
    addresses = client.get(f'/servers/{server}/ips').json['addresses']
    names = {'server': server, 'image': cloud.image_id, 'network': next(iter(addresses)),
             'request': cloud.owner.request_id}
    if operation == 'POST /servers/action':
        body = {'os-bulk-action': {**body['os-bulk-action'], 'ids': [server, NOTHING]}}
    answer = client.request(operation.split(' ')[0], path.format(**names), body, version=f'2.{version}')
    assert answer.status in (200, 202), answer.body
    if answer.body:
        assert facts.differences(operation, version, answer.json) == []
    else:
        assert not facts.fields_at(operation, 'response', version)
