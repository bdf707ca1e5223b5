"""POST /servers/action: one action for many servers."""
import time

import pytest

from nova import states
from nova.api import rate_limits
from nova.api.server_actions import bulk as server_bulk
from nova.tests.functional import servers


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    fixture.ids = [fixture.add_server(number, host=servers.HOST, node=servers.NODE, vm_state=state,
                                      power_state=states.RUNNING, tags=tags)
                   for number, (state, tags) in enumerate((
                       (states.ACTIVE, ',web,'), (states.STOPPED, ',web,'), (states.ACTIVE, '')))]
    yield fixture
    fixture.close()


def bulk(cloud, action, ids=None, query='', client=None, **more):
    wanted = {'action': action, **({'ids': ids} if ids is not None else {})}
    answer = (client or cloud.client()).post('/servers/action' + query, {'os-bulk-action': wanted}, **more)
    return answer, answer.status == 200 and answer.json['os-bulk-action']


def test_each_server_has_its_result(cloud):
    missing = '00000000-0000-4000-8000-000000000000'
    answer, body = bulk(cloud, {'os-stop': None}, [*cloud.ids, missing])
    assert answer.status == 200
    assert (body['accepted'], body['refused'], body['more']) == (2, 2, False)
    assert [(result['id'], result['code']) for result in body['results']] == [
        (cloud.ids[0], 202), (cloud.ids[1], 409), (cloud.ids[2], 202), (missing, 404)]
    assert 'while it is in vm_state stopped' in body['results'][1]['fault']['conflictingRequest']['message']
    assert 'fault' not in body['results'][0]
    assert [cloud.row(uuid)['task_state'] for uuid in cloud.ids] == ['powering-off', None, 'powering-off']
    assert [name for name, _host, _arguments in cloud.compute.sent] == ['stop_instance'] * 2


def test_bulk_action_selects_servers_by_filters(cloud):
    answer, body = bulk(cloud, {'os-stop': None}, query='?tags=web&sort_key=display_name&sort_dir=asc', version='2.26')
    assert answer.status == 200
    assert [result['code'] for result in body['results']] == [202, 409]
    _answer, body = bulk(cloud, {'lock': None}, query='?status=ACTIVE&limit=1')
    assert body['accepted'] == 1 and body['more'] is True


def test_bulk_delete_deletes_the_named_servers(cloud):
    _answer, body = bulk(cloud, {'delete': None}, cloud.ids[:1])
    assert body['results'] == [{'id': cloud.ids[0], 'code': 204}]
    assert cloud.row(cloud.ids[0])['task_state'] == 'deleting'


def test_bulk_action_returns_the_answer_of_each_server(cloud):
    _answer, body = bulk(cloud, {'os-getConsoleOutput': {}}, cloud.ids[:1])
    assert body['results'][0]['answer'] == {'output': 'line 1\nline 2\n'}


@pytest.mark.parametrize('action,ids,query', [
    ({'os-stop': None}, None, ''),                               # nobody's servers are all meant by default
    ({'os-stop': None}, None, '?limit=5'),
    ({'os-stop': None}, ['x'], ''),
    ({'os-stop': None}, [], ''),
    ({'dance': None}, None, '?status=ACTIVE'),
    ({}, None, '?status=ACTIVE'),
    ({'os-stop': None, 'os-start': None}, None, '?status=ACTIVE'),
    ({'os-stop': None}, ['00000000-0000-4000-8000-000000000000'] * 2, ''),
    ({'os-stop': None}, ['00000000-0000-4000-8000-000000000000'], '?status=ACTIVE'),
    ({'os-stop': None}, None, '?tags=web&limit=-1'),
    ({'os-stop': None}, None, '?name=a(('),
])
def test_invalid_bulk_action_is_refused(cloud, action, ids, query):
    answer, _body = bulk(cloud, action, ids, query, version='2.26')
    assert answer.status == 400 and answer.fault[0] == 'badRequest'
    assert cloud.compute.sent == []


@pytest.mark.parametrize('query', ['host=host1', 'host=nowhere', 'project_id=x', 'deleted=true', 'nmae=x', 'tags=web',
                                   'status=ACTIVE&host=nowhere', 'status=ACTIVE&nmae=web', 'uuid=x', 'name='])
def test_a_filter_that_is_left_out_does_not_mean_all(cloud, query):
    """A member asked for the servers of a host, and all of the project's were meant."""
    assert bulk(cloud, {'delete': None}, query='?' + query)[0].status == 400
    assert {cloud.row(uuid)['task_state'] for uuid in cloud.ids} == {None}


def test_an_administrator_may_use_more_filters(cloud):
    admin = cloud.admin(project=cloud.row(cloud.ids[0])['project_id'])
    for query, found in (('host=nowhere', 0), ('host=host1', 3), ('all_tenants=1&project_id=x', 0)):
        assert bulk(cloud, {'lock': None}, query='?' + query, client=admin)[1]['accepted'] == found


def test_an_action_of_a_later_version_is_none(cloud):
    assert bulk(cloud, {'trigger_crash_dump': None}, cloud.ids[:1], version='2.16')[0].status == 400


def test_bulk_action_on_too_many_servers_returns_400(cloud):
    many = [f'00000000-0000-4000-8000-{number:012}' for number in range(server_bulk.MAX_SERVERS + 1)]
    assert bulk(cloud, {'os-stop': None}, many)[0].status == 400


def test_rules_are_asked_for_each(cloud):
    reader = cloud.client(roles=('reader',))
    assert bulk(cloud, {'os-stop': None}, cloud.ids, client=reader)[0].status == 403
    other = cloud.client(project='c' * 32)
    _answer, body = bulk(cloud, {'os-stop': None}, cloud.ids, client=other)
    assert {result['code'] for result in body['results']} == {404}
    _answer, body = bulk(cloud, {'os-resetState': {'state': 'active'}}, cloud.ids[:1])
    assert body['results'][0]['code'] == 403


def test_a_server_may_be_called_action(cloud):
    assert cloud.client().get('/servers/action').status == 404
    assert cloud.client().put('/servers/action', {'server': {'name': 'x'}}).status == 404


def test_it_never_waits_for_the_end(cloud):
    """With Prefer: wait each server held a thread of the API for 30 seconds, one after the other."""
    began = time.monotonic()
    answer, body = bulk(cloud, {'os-stop': None}, cloud.ids, headers={'Prefer': 'wait=30'})
    assert time.monotonic() - began < 20 and body['accepted'] == 2
    assert 'preference-applied' not in answer.headers


def test_each_server_counts_as_a_request(cloud):
    """One request with a thousand servers counted as one."""
    cloud.services.rates = rate_limits.RateLimits(['POST */action ^/servers/.+/action 2 HOUR'], cloud.api_db)
    stopped = [cloud.add_server(number, host=servers.HOST, node=servers.NODE, vm_state=states.ACTIVE)
               for number in range(10, 14)]
    _answer, body = bulk(cloud, {'os-stop': None}, stopped, version='2.90')
    assert [result['code'] for result in body['results']] == [202, 202, 429, 429]
    assert 'retryAfter' in body['results'][2]['fault']['overLimit']
    assert bulk(cloud, {'os-stop': None}, cloud.ids, client=cloud.admin())[1]['results'][0]['code'] != 429


def test_bulk_action_does_not_start_after_its_time_limit(cloud, monkeypatch):
    monkeypatch.setattr(server_bulk, 'MAX_S', -1)
    _answer, body = bulk(cloud, {'os-stop': None}, cloud.ids)
    assert [result['code'] for result in body['results']] == [503] * 3 and not cloud.compute.sent
    assert 'the action was not started' in body['results'][0]['fault']['serviceUnavailable']['message']
