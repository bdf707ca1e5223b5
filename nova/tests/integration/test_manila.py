"""Shares of servers with a real Manila and a real Keystone. What mounts them is in test_libvirt_shares.py."""
import types

import pytest

from nova.tests import long_runs
from nova.tests.functional import callers
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.integration import keystone
from nova.tests.integration import manila
from nova.tests.integration import servers
from nova.tests.support.waiting import wait_for

pytestmark = long_runs.only             # functional/test_manila.py has what the reference of its API says
ADDRESS = '127.0.0.1'                    # of the host, as its conductor knows it


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    """A cloud and a Manila behind one Keystone: ``admin``, ``owner`` and ``other`` of two projects, ``shares(caller)``.
    """
    manila.programs()
    port = servers.free_port()
    with keystone.running() as (url, password), servers.rabbitmq() as broker, \
            keystone.trusted(url, password, ('KEYSTONE_AUTHTOKEN', 'MANILA')), \
            manila.running(f'rabbit://guest:guest@127.0.0.1:{broker.port}/', url, password, port) as address, \
            cloud_fixture.running(tmp_path_factory.mktemp('cloud'), identity__backend='keystone',
                                  manila__endpoint_override=address) as cloud:
        admin = callers.Caller(cloud.url, callers.by_password(keystone.ADMIN, password, {'project': {
            'name': 'admin', 'domain': callers.DOMAIN}}), '2.97', identity=url)
        identity = callers.Identity(admin, '2.97')
        identity.grant(f'/projects/{admin.project_id}', admin.user_id, 'service')      # of service tokens
        manila.Manila(address, admin).type('plain')
        image = admin.upload_image(name='everybodys', visibility='public')
        yield types.SimpleNamespace(
            admin=admin, image=image, owner=identity.in_project('one', 'member'),
            other=identity.in_project('two', 'member'), shares=lambda caller: manila.Manila(address, caller))


def stopped(place):
    server_id = place.owner.boot(place.image, networks='none')['id']
    place.owner.wait_for(server_id)
    place.owner.post(f'/servers/{server_id}/action', {'os-stop': None})
    return place.owner.wait_for(server_id, 'SHUTOFF')['id']


def attached(place, server_id, share_id):
    """The path of a share that a server has."""
    path = f'/servers/{server_id}/shares'
    answer = place.owner.post(path, {'share': {'share_id': share_id, 'tag': 'data'}})
    assert answer.status_code == 201, answer.text
    wait_for(lambda: place.owner.get(f'{path}/{share_id}').json()['share']['status'] == 'inactive', 60, 'the share')
    return f'{path}/{share_id}'


def test_a_share_is_opened_to_the_host_alone_and_closed_again(place):
    mine, every = place.shares(place.owner), place.shares(place.admin)
    share_id, server_id = mine.share('data'), stopped(place)
    path = attached(place, server_id, share_id)
    rule, = every.rules(share_id)
    assert (rule['access_type'], rule['access_to'], rule['access_level'], rule['state']) == (
        'ip', ADDRESS, 'rw', 'active')
    masked, = mine.rules(share_id)
    assert masked['access_to'] != ADDRESS                            # addresses of hosts are not for users
    with pytest.raises(AssertionError, match='lock'):                # taken from under the guest
        mine.ask('POST', f'/shares/{share_id}/action', {'deny_access': {'access_id': rule['id']}})
    assert place.owner.delete(path).status_code == 200
    wait_for(lambda: place.owner.get(path).status_code == 404, 60, 'the share to go')
    wait_for(lambda: every.rules(share_id) == [], 60, 'its rule to go')
    attached(place, server_id, share_id)
    assert place.owner.delete(f'/servers/{server_id}').status_code == 204
    wait_for(lambda: every.rules(share_id) == [], 60, 'the rule of a deleted server to go')


def test_a_share_of_others_is_unknown(place):
    theirs = place.shares(place.other).share('theirs')
    server_id = stopped(place)
    answer = place.owner.post(f'/servers/{server_id}/shares', {'share': {'share_id': theirs}})
    assert answer.status_code == 409 and theirs in answer.text
    assert place.shares(place.admin).rules(theirs) == []
