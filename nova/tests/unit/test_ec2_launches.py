"""Launches of the EC2 API: the wait of a request, its volumes, and the cleanup after an error."""
import time
import types

import pytest

from nova.ec2 import errors
from nova.ec2 import waits
from nova.ec2.instances import block_devices
from nova.ec2.instances import launches
from nova.ec2.networks import public_addresses
from nova.ec2.volumes import types as volume_types
from nova.runtime import fairness
from nova.runtime import queues


def test_a_project_without_a_free_wait_gets_a_retryable_error_and_returns_its_own():
    req = types.SimpleNamespace(waits=fairness.ConcurrencyLimit(queues.EC2_WAITS, 2), project_id='p1')
    with waits.slot(req):
        with pytest.raises(errors.Ec2Error) as refused, waits.slot(req):
            raise AssertionError('a second wait')
        assert (refused.value.code, refused.value.status) == ('RequestLimitExceeded', 503)
    with waits.slot(req):
        assert not req.waits.acquire('p1')


def test_only_devices_that_become_volumes_are_counted():
    local = {'destination_type': 'local', 'boot_index': 0}
    volume = {'destination_type': 'volume', 'boot_index': -1}
    assert block_devices.count_volumes({'imageRef': 'x'}) == 0
    assert block_devices.count_volumes({'block_device_mapping_v2': [local]}) == 0
    assert block_devices.count_volumes({'block_device_mapping_v2': [local, volume, volume]}) == 2


def test_each_step_of_a_cleanup_is_tried_and_the_error_is_no_server_error():
    done = []

    def call(service, method, path, body=None, query=None):
        if method == 'GET' and service == 'compute':
            return {'server': {'id': path[-1], 'status': 'ACTIVE'}}
        if (method, path) == ('GET', '/ports'):
            return {'ports': [{'id': 'port-' + query['device_id']}]}
        if (method, path) == ('GET', '/floatingips'):
            return {'floatingips': [{'id': f'{name}-{query["port_id"]}', 'description': public_addresses.DESCRIPTION}
                                    for name in 'xy']}
        done.append((method, path))
        if method == 'POST' or path in ('/servers/a', '/floatingips/x-port-a', '/floatingips/x-port-b'):
            raise errors.ServiceRefused(503, 'refused')
        return None
    req = types.SimpleNamespace(call=call, began=time.monotonic())
    with pytest.raises(errors.Ec2Error) as refused:
        launches._finish(req, ['a', 'b'], False, 'outside', {}, 0)
    assert (refused.value.code, refused.value.status) == ('IncorrectInstanceState', 400)
    assert done == [('POST', '/floatingips')]              # servers of an earlier request stay
    done.clear()
    with pytest.raises(errors.Ec2Error) as refused:
        launches._finish(req, ['a', 'b'], True, 'outside', {}, 0)
    assert (refused.value.code, refused.value.status) == ('IncorrectInstanceState', 400)
    assert done == [('POST', '/floatingips')] + [
        ('DELETE', path) for name in 'ab' for path in (
            f'/servers/{name}', f'/floatingips/x-port-{name}', f'/floatingips/y-port-{name}')]


@pytest.mark.parametrize(('answer', 'expected'), [
    ({'server': {'id': 'a', 'links': []}}, ('a', ['a'], False)),
    ({'reservation_id': 'r-1'}, ('r-1', ['b', 'c'], False)),
    ({'server': {'id': 'd', 'status': 'BUILD'}}, ('d', ['d'], True))])
def test_a_repeated_launch_is_completed_although_its_response_does_not_show_the_servers(answer, expected):
    def call(service, method, path, body=None, query=None, headers=None):
        if method == 'POST':
            return answer
        return {'/servers/detail': {'servers': [{'id': uuid, 'name': uuid} for uuid in 'cb']},
                '/servers/a': {'server': {'id': 'a', 'status': 'ACTIVE'}}}[path]
    finished = []

    def finish(uuids, new):
        finished.append((uuids, new))
    req = types.SimpleNamespace(call=call, caller=types.SimpleNamespace(dry=False, writes=lambda *_given: None))
    made, servers = launches._made(req, {}, {}, {'server': {'networks': 'auto'}}, finish)
    assert (made, *finished[0]) == expected and [server['id'] for server in servers] == expected[1]


def test_a_launch_whose_servers_are_invisible_does_not_succeed_without_their_addresses():
    launches._finish(None, [], False, None, {}, 0)
    for outside, volume_tags in (('outside', {}), (None, {'key': 'value'})):
        with pytest.raises(errors.Ec2Error) as refused:
            launches._finish(None, [], False, outside, volume_tags, 0)
        assert (refused.value.code, refused.value.status) == ('IncorrectInstanceState', 400)


@pytest.mark.parametrize('descriptions', [[public_addresses.DESCRIPTION], ['of a user'], []])
def test_a_repeated_launch_keeps_the_address_that_its_port_has(descriptions):
    def call(service, method, path, body=None, query=None):
        if method == 'POST':
            raise errors.ServiceRefused(409, 'the port has an address')
        return {'ports': [{'id': 'p'}], 'floatingips': [
            {'id': 'f', 'description': description} for description in descriptions]}
    req = types.SimpleNamespace(call=call)
    if descriptions:
        public_addresses.assign(req, 'server', 'outside')
    else:
        with pytest.raises(errors.ServiceRefused):
            public_addresses.assign(req, 'server', 'outside')


def test_alias_of_a_shared_volume_is_found_at_any_of_its_instances():
    """The volume was created with the second one, which has the alias."""
    servers = [{'id': 's1', 'metadata': {}}, {'id': 's2', 'metadata': {volume_types.DEVICES: '/dev/vda=gp3'}}]
    req = types.SimpleNamespace(pages=lambda *_args: servers)
    parts = [{'server_id': 's1', 'device': '/dev/vdb'}, {'server_id': 's2', 'device': '/dev/vda'}]
    assert volume_types.aliases(req, [{'id': 'v', 'metadata': {}, 'attachments': parts}]) == {'v': 'gp3'}
