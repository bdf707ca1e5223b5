"""Shares of servers on a whole cloud, with a Shared File Systems service beside it, and without one."""
import pytest

from nova.api import app
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.functional import servers
from nova.tests.support.volumes import drivers
from nova.tests.support.volumes import gone
from nova.tests.support.waiting import wait_for
from nova.web import paste_registry


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud')) as made:
        yield made


def stopped(user):
    server_id = user.boot(user.upload_image(), networks='none')['id']
    user.wait_for(server_id)
    user.post(f'/servers/{server_id}/action', {'os-stop': None})
    return user.wait_for(server_id, 'SHUTOFF')['id']


BODIES = {'resize': {'flavorRef': '2'}, 'os-migrateLive': {'host': None, 'block_migration': 'auto'}}


def refused(user, server_id, *names):
    """What would leave the share behind is a 409 that says so."""
    for name in names:
        body = BODIES.get(name)
        if name == 'rebuild':
            body = {'imageRef': user.get(f'/servers/{server_id}').json()['server']['image']['id']}
        answer = user.post(f'/servers/{server_id}/action', {name: body})
        assert answer.status_code == 409 and 'has shares' in answer.text, (name, answer.text)


def test_without_a_service_every_share_is_unknown(cloud):
    user = cloud.client(version='2.97')
    server_id = stopped(user)
    assert user.get(f'/servers/{server_id}/shares').json() == {'shares': []}
    answer = user.post(f'/servers/{server_id}/shares', {'share': {'share_id': server_id}})
    assert answer.status_code == 409 and 'Share' in answer.json()['conflictingRequest']['message']


def test_attach_use_and_detach(cloud, monkeypatch):
    user, service = cloud.client(version='2.97'), servers.Shares()
    service.project_id = user.project_id
    conductor = next(part.manager for part in cloud.services if part.binary == 'nova-conductor')
    for name in ('allow', 'deny'):
        monkeypatch.setattr(conductor.services.shares, name, getattr(service, name))
    offered = next(each for each in paste_registry.instances_of(app.Services) if each.conf is cloud.conf)
    monkeypatch.setattr(offered, 'shares', service)
    server_id, (share_id, other) = stopped(user), (service.add(), service.add(protocol='CEPHFS'))
    path, (driver,) = f'/servers/{server_id}/shares', drivers(cloud).values()

    def status(share_id):
        return {each['share_id']: each['status'] for each in user.get(path).json()['shares']}.get(share_id)
    assert user.post(path, {'share': {'share_id': share_id, 'tag': 'data'}}).status_code == 201
    wait_for(lambda: status(share_id) == 'inactive')
    neighbour = stopped(user)                            # on the same host, with the same share
    user.post(f'/servers/{neighbour}/shares', {'share': {'share_id': share_id}})
    wait_for(lambda: driver.machine.guests[neighbour].get('shares', {}) == {share_id: share_id})
    gone(user, neighbour)
    refused(cloud.admin('2.97'), server_id, 'resize', 'migrate', 'rebuild', 'shelve')
    assert driver.machine.guests[server_id]['shares'] == {share_id: 'data'}
    assert service.allowed == {(share_id, '127.0.0.1')}
    user.post(f'/servers/{server_id}/action', {'os-start': None})
    user.wait_for(server_id)
    assert status(share_id) == 'active'
    assert user.delete(f'{path}/{share_id}').status_code == 409          # it runs
    refused(cloud.admin('2.97'), server_id, 'os-migrateLive', 'suspend')
    user.post(f'/servers/{server_id}/action', {'os-stop': None})
    user.wait_for(server_id, 'SHUTOFF')
    assert user.delete(f'{path}/{share_id}').status_code == 200
    wait_for(lambda: status(share_id) is None)
    assert driver.machine.guests[server_id].get('shares', {}) == {} and service.allowed == set()
    driver.failures['attach_share'] = 1.0
    try:
        user.post(path, {'share': {'share_id': other}})
        wait_for(lambda: status(other) == 'error')
    finally:
        driver.failures.clear()
    wait_for(lambda: 'Error' in [row['message'] for row in
                              user.get(f'/servers/{server_id}/os-instance-actions').json()['instanceActions']])
    assert user.delete(f'{path}/{other}').status_code == 200
    wait_for(lambda: status(other) is None)
    user.post(path, {'share': {'share_id': other}})
    wait_for(lambda: status(other) == 'inactive')           # with a key of Ceph, which no answer and no table has
    assert driver.machine.guests[server_id]['shares'] == {other: other}
    assert servers.KEY not in user.get(f'{path}/{other}').text
    gone(user, server_id)
    assert service.allowed == set()
