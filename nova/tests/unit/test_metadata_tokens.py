"""Session tokens of the metadata service, and how much of it one guest gets; over HTTP where it is about requests."""
import concurrent.futures
import hashlib
import hmac
import threading

import pytest

from nova import exception
from nova.api.metadata import app
from nova.api.metadata import limits
from nova.api.metadata import tokens
from nova.tests.support import metadata_tokens
from nova.tests.support.metadata_tokens import ID
from nova.tests.support.metadata_tokens import SECRET

start = metadata_tokens.start


def test_a_guest_gets_a_token_and_reads_with_it(start):
    service = start(metadata__tokens='required')
    answer = service.ask(app.TOKEN_PATH, 'PUT', **{tokens.TTL: '21600'})
    assert (answer.status_code, answer.headers[tokens.TTL]) == (200, '21600')
    given = {tokens.TOKEN: answer.text}
    for path in (ID, '/2009-04-04/user-data', '/latest/meta-data/', '/openstack/latest/meta_data.json', '/openstack',
                 '/openstack/latest/user_data', '/openstack/latest/password'):
        assert service.ask(path).status_code == 401, path
        assert service.ask(path, **{tokens.TOKEN: 'x'}).status_code == 401, path
        assert service.ask(path, **given).status_code == 200, path
    assert service.ask('/openstack/content/0000').status_code == 401
    assert service.ask('/openstack/latest/password', 'POST').status_code == 401
    assert service.ask('/').status_code == 200                       # versions: nothing of the guest


def test_an_answer_that_goes_a_few_hops_ends_its_connection(start):
    """How far it goes: ``integration/test_metadata_hops.py``."""
    service = start(rows=({'metadata': {tokens.HOPS: '1'}}, {}))
    for guest, ended in ((0, 'close'), (1, None)):
        answer = service.ask(app.TOKEN_PATH, 'PUT', guest, **{tokens.TTL: '60'})
        assert (answer.status_code, answer.headers.get('Connection')) == (200, ended)
        assert service.ask(guest=guest, **{tokens.TOKEN: answer.text}).headers.get('Connection') is None


def test_a_token_is_of_one_guest_until_it_expires(start):
    service = start()
    code, token = service.token()
    assert code == 200
    assert service.ask(**{tokens.TOKEN: token}).status_code == 200
    assert service.ask(guest=1, **{tokens.TOKEN: token}).status_code == 401
    assert service.ask().status_code == 200                          # older guests do without
    assert len({service.token()[1] for _ in range(5)}) == 5
    for changed in (token[:-1], token[:-2] + token[-2:].swapcase() + 'A', '', 'A' * len(token), 'ä' * 4, 'x' * 4000):
        with pytest.raises(exception.Unauthorized):
            tokens.Tokens(lambda: b'key').check('uuid', changed)
        if changed.isascii():
            assert service.ask(**{tokens.TOKEN: changed}).status_code == 401
    service.serve()                                                  # another host, or after a restart
    assert service.ask(**{tokens.TOKEN: token}).status_code == 200
    assert service.ask(guest=1, **{tokens.TOKEN: token}).status_code == 401
    now = [1000]
    made = tokens.Tokens(lambda: b'key', clock=lambda: now[0])
    token = made.make('uuid', 5)
    made.check('uuid', token)
    now[0] = 1005
    with pytest.raises(exception.Unauthorized):
        made.check('uuid', token)


@pytest.mark.parametrize('ttl', ['0', '21601', '-1', '+5', '1e3', '', '99999999', '٣'.encode().decode('latin-1')])
def test_invalid_token_ttl_is_refused(start, ttl):
    assert start().token(ttl=ttl)[0] == 400


def test_invalid_and_forwarded_token_requests_are_refused(start):
    service = start()
    assert service.ask(app.TOKEN_PATH, 'PUT').status_code == 400
    assert service.ask(app.TOKEN_PATH).status_code == 405
    assert service.ask(app.TOKEN_PATH, 'POST', **{tokens.TTL: '5'}).status_code == 405
    assert service.token(X_Forwarded_For='10.0.0.5')[0] == 403
    assert service.token(X_Forwarded_For='')[0] == 403


def test_guest_behind_a_proxy_gets_a_token(start):
    service = start(metadata__tokens='required')
    row = service.rows[1]

    def signed(**more):
        return {'X-Instance-ID': row['uuid'], 'X-Tenant-ID': row['project_id'], 'X-Forwarded-For': '10.0.0.9',
                'X-Instance-ID-Signature': hmac.new(SECRET.encode(), row['uuid'].encode(), hashlib.sha256).hexdigest(),
                **more}
    code, token = service.token(**signed())
    assert code == 200
    assert service.ask(**signed(**{tokens.TOKEN: token})).status_code == 200
    assert service.ask(guest=1, **{tokens.TOKEN: token}).status_code == 200          # the same guest
    assert service.ask(guest=0, **{tokens.TOKEN: token}).status_code == 401
    assert service.token(**signed(**{'X-Forwarded-For': '10.0.0.7, 10.0.0.9'}))[0] == 403
    assert service.token(**signed(**{'X-Tenant-ID': 'another'}))[0] == 404


def test_tokens_can_be_required_for_one_server(start):
    service = start(rows=({'metadata': {'metadata_tokens': 'required'}},
                          {'image_properties': {'metadata_tokens': 'required'}},
                          {'flavor': {'name': 'm1.tiny', 'extra_specs': {'metadata:tokens': 'required'}}}, {}))
    assert [service.ask(guest=guest).status_code for guest in range(4)] == [401, 401, 401, 200]
    for guest in range(3):
        assert service.ask(guest=guest, **{tokens.TOKEN: service.token(guest)[1]}).status_code == 200


def test_no_server_can_do_without_what_the_operator_requires(start):
    service = start(rows=({'metadata': {'metadata_tokens': 'optional'}},), metadata__tokens='required')
    assert service.ask().status_code == 401


def test_a_guest_that_asks_too_much_leaves_room_for_others(start):
    service = start(metadata__request_rate=1)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        greedy = [pool.submit(service.ask) for _ in range(60)]
        honest = [service.ask(guest=1).status_code for _ in range(8)]
        answers = [each.result() for each in greedy]
    codes = [answer.status_code for answer in answers]
    assert set(codes) == {200, 429} and codes.count(200) <= limits.BURST_S + 10, codes
    assert {answer.headers.get('Retry-After') for answer in answers if answer.status_code == 429} == {'1'}
    assert honest == [200] * 8


def test_request_budget_of_a_guest_is_refilled_over_time():
    now = [0.0]
    made = limits.GuestLimits(2, clock=lambda: now[0])

    def sent(guest, number):
        passed = 0
        for _ in range(number):
            try:
                with made.request(guest):
                    passed += 1
            except exception.TooManyRequests as error:
                assert error.kwargs['retry_after'] == 1
        return passed
    assert sent('a', 50) == 20 and sent('b', 50) == 20
    now[0] = 1.0
    assert sent('a', 50) == 2
    now[0] = 100.0
    assert sent('a', 50) == 20
    for number in range(limits.MAX_GUESTS + 10):
        sent(f'guest {number}', 1)
    assert len(made._full_at) == limits.MAX_GUESTS and not made._running


def test_a_guest_has_few_requests_at_the_same_time():
    made, inside, leave = limits.GuestLimits(1000), threading.Semaphore(0), threading.Event()

    def stay():
        with made.request('a'):
            inside.release()
            leave.wait(20)
    threads = [threading.Thread(target=stay) for _ in range(limits.MAX_CONCURRENT)]
    for thread in threads:
        thread.start()
        assert inside.acquire(timeout=20)
    with pytest.raises(exception.TooManyRequests), made.request('a'):
        pass
    with made.request('b'):
        pass
    leave.set()
    for thread in threads:
        thread.join()
    with made.request('a'):
        pass


def test_a_session_token_has_one_spelling():
    made = tokens.Tokens(lambda: b'k' * 32)
    for _ in range(50):
        token = made.make('guest', 60)
        made.check('guest', token)
        for other in (token + '=', token + '==', token.replace('-', '+').replace('_', '/')):
            if other != token:
                with pytest.raises(exception.Unauthorized):
                    made.check('guest', other)
