"""Answers about the shares of servers against the public facts, and their refusals."""
import pytest

from nova.db.servers import shares
from nova.tests import races
from nova.tests.contract import facts
from nova.tests.functional import base
from nova.tests.functional import servers

OPERATIONS = [
    ('GET /servers/{}/shares', '/servers/{server}/shares', None),
    ('POST /servers/{}/shares', '/servers/{server}/shares',
     lambda cloud: {'share': {'share_id': cloud.services.shares.add(), 'tag': 'data'}}),
    ('GET /servers/{}/shares/{}', '/servers/{server}/shares/{share}', None),
    ('DELETE /servers/{}/shares/{}', '/servers/{server}/shares/{share}', None),
]


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('shares'))
    yield fixture
    fixture.close()


@pytest.fixture
def server_id(cloud):
    return cloud.add_server(host=servers.HOST, node=servers.NODE, vm_state='stopped')


@pytest.mark.parametrize('admin', [True, False])
@pytest.mark.parametrize('operation, path, body', OPERATIONS)
@pytest.mark.parametrize('version', ['2.97', '2.104'])
def test_responses_have_the_documented_fields(cloud, server_id, operation, path, body, version, admin):
    share_id = cloud.add_share(server_id)
    client = cloud.admin(project=base.PROJECT) if admin else cloud.client()
    path, method = path.format(server=server_id, share=share_id), operation.split(' ')[0]
    assert client.request(method, path, body and body(cloud), version='2.96').status == 404
    answer = client.request(method, path, body and body(cloud), version=version)
    if method == 'DELETE':
        assert (answer.status, answer.body) == (200, b'')
        return
    assert answer.status == (201 if method == 'POST' else 200), answer.body
    assert facts.differences(operation, int(version[2:]), answer.json) == []
    if 'share' in answer.json:
        assert ('export_location' in answer.json['share']) is admin


def test_a_share_is_known_by_its_id_unless_it_has_a_tag(cloud, server_id):
    client = cloud.client(version='2.97')
    share_id = cloud.services.shares.add()
    answer = client.post(f'/servers/{server_id}/shares', {'share': {'share_id': share_id}})
    assert answer.json['share'] == {'share_id': share_id, 'status': 'attaching', 'tag': share_id}
    (method, host, arguments), = cloud.compute.sent[-1:]
    assert (method, host, arguments['share_id']) == ('attach_share', servers.HOST, share_id)
    assert client.delete(f'/servers/{server_id}/shares/{share_id}').status == 409        # not there yet
    with cloud.cell_db.writer() as conn:
        shares.update(conn, shares.get(conn, server_id, share_id)['uuid'], {'status': 'attached'})
    assert client.get(f'/servers/{server_id}/shares/{share_id}').json['share']['status'] == 'inactive'


def test_a_public_share_of_another_project_is_seen_and_not_mounted(cloud, server_id):
    share_id = cloud.services.shares.add()
    cloud.services.shares.shares[share_id]['project_id'] = 'b' * 32
    body, path = {'share': {'share_id': share_id}}, f'/servers/{server_id}/shares'
    answer = cloud.client(version='2.97').post(path, body)
    assert answer.status == 409 and b'a different project' in answer.body
    assert cloud.admin(project=base.PROJECT, version='2.97').post(path, body).status == 201


def test_invalid_share_requests_are_refused(cloud, server_id):
    client, path = cloud.client(version='2.97'), f'/servers/{server_id}/shares'
    share_id, other = cloud.services.shares.add(), cloud.services.shares.add()

    def post(share_id, **values):
        return client.post(path, {'share': {'share_id': share_id, **values}}).status
    assert post(server_id) == 409 and post('x') == 400 and post(share_id, tag='a b') == 400
    assert post(cloud.services.shares.add('creating')) == 409
    assert post(share_id, tag='one') == 201 and post(share_id, tag='two') == 409 and post(other, tag='one') == 409
    assert client.get(path + '/' + other).status == client.delete(path + '/' + other).status == 404
    assert client.get(path + '?x=1').status == 400
    assert post(other, tag='x' * 37) == 400              # no guest would find it
    cloud.services.shares.shares[other]['protocol'] = 'CIFS'
    assert post(other) == 409
    assert cloud.client(version='2.97', project='c' * 32).get(path).status == 404
    assert cloud.client(version='2.97', roles=('reader',)).post(path, {'share': {'share_id': other}}).status == 403
    cloud.services.shares.shares.clear()


def test_a_server_gets_a_share_once(cloud, server_id):
    share_id = cloud.services.shares.add()
    answers = races.at_once(*[lambda: cloud.client(version='2.97').post(
        f'/servers/{server_id}/shares', {'share': {'share_id': share_id}})] * 5)
    assert sorted(answer.status for answer in answers) == [201] + [409] * 4
