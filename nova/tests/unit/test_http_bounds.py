"""Each bound of the HTTP server by itself, over real sockets and either thread model."""
import contextlib
import dataclasses
import http.client
import socket
import threading
import time

import pytest

from nova.runtime import health
from nova.runtime import wsgi
from nova.runtime.http import addresses
from nova.runtime.http import limits as http_limits
from nova.runtime.http import priorities
from nova.tests.support import waiting

QUICK = http_limits.Limits(silent_s=0.6, headers_s=0.6, body_s=0.6, idle_s=30, linger_s=0.5, window_s=0.6, sweep_s=0.1,
                           spare_s=0.3)
BIG = 16 << 20


class Application:
    """/wait waits for ``gate``; /big answers with BIG bytes; the rest says how long the body is."""

    def __init__(self):
        self.gate, self.seen = threading.Event(), []

    def __call__(self, environ, start_response):
        path = environ['PATH_INFO']
        self.seen.append(path)
        if path.startswith('/wait'):
            self.gate.wait(20)
        if path == '/big':
            start_response('200 OK', [('Content-Length', str(BIG))])
            return [b'x' * BIG]
        length = 0
        while piece := environ['wsgi.input'].read(65536):
            length += len(piece)
        body = str(length).encode()
        start_response('200 OK', [('Content-Length', str(len(body)))])
        return [body]


@pytest.fixture
def served():
    """start(**options) -> (server, application); all are stopped at the end."""
    made = []

    def start(limits=QUICK, **options):
        application = Application()
        server = wsgi.Server(application, '127.0.0.1', 0, limits=limits, **options)
        made.append((server, application))
        server.start()
        return server, application
    yield start
    for server, application in made:
        application.gate.set()
        server.stop(1)


@contextlib.contextmanager
def connected(server, said=b'', source='127.0.0.1'):
    with socket.create_connection(('127.0.0.1', server.port), timeout=10, source_address=(source, 0)) as sock:
        sock.sendall(said)
        yield sock


def everything(sock):
    answer = b''
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65536):
            answer += piece
    return answer


def ask(server, path='/', body=None, source='127.0.0.1', timeout=10):
    connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=timeout, source_address=(source, 0))
    with contextlib.closing(connection):
        connection.request('POST' if body is not None else 'GET', path, body)
        response = connection.getresponse()
        return response.status, response.read()


HEAD = b'POST / HTTP/1.1\r\nHost: x\r\n'


@pytest.mark.parametrize('said, more, status', [
    (b'', b'', b''), (b'GET / HTTP/1.1\r\nX: ', b'a', b'408'), (HEAD + b'Content-Length: 1000\r\n\r\n', b'a', b'408'),
    (HEAD + b'Transfer-Encoding: chunked\r\n\r\nff\r\n', b'a', b'408')])
def test_a_request_has_a_time_however_its_bytes_come(served, said, more, status):
    """Bug: each byte began the time anew, and a thread was held meanwhile."""
    server, application = served()
    with connected(server, said) as sock:
        sock.settimeout(0.2)
        begun, answer = time.monotonic(), None
        while answer is None and time.monotonic() - begun < 60:
            try:
                sock.sendall(more)
                answer = sock.recv(1000)
            except TimeoutError:
                pass
            except ConnectionError:
                answer = b''
        assert answer is not None and answer[9:12] == status
    assert application.seen == []


def test_an_upload_that_stalls_ends(served):
    server, application = served()
    with connected(server, HEAD + b'Content-Length: 5000000\r\n\r\n' + b'a' * 2_000_000) as sock:
        sock.settimeout(60)
        assert sock.recv(1000)[9:12] in (b'400', b'500')


def test_uploads_take_no_thread_of_others(served):
    server, _application = served(dataclasses.replace(QUICK, window_s=20), threads=2)
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(connected(server, HEAD + b'Content-Length: 5000000\r\n\r\n' + b'a' * 100_000))
        assert ask(server) == (200, b'0')


def test_an_upload_that_goes_on_may_last(served):
    """Longer than any time but at the least rate."""
    server, _application = served(dataclasses.replace(QUICK, body=1000, least_rate=1000))
    with connected(server, HEAD + b'Connection: close\r\nContent-Length: 20000\r\n\r\n') as sock:
        for _ in range(20):
            sock.sendall(b'a' * 1000)
            time.sleep(0.15)
        assert everything(sock).endswith(b'20000')


def test_an_answer_that_is_not_taken_ends_and_holds_no_thread(served):
    server, _application = served(threads=2)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(server, b'GET /big HTTP/1.1\r\nHost: x\r\n\r\n')) for _ in range(3)]
        for sock in slow:
            assert sock.recv(100)                            # the answer has begun
        assert ask(server) == (200, b'0')
        time.sleep(2.5)
        for sock in slow:
            assert len(everything(sock)) < BIG - 1000        # it ends before its end


def test_large_response_is_sent_completely(served):
    server, _application = served()
    assert len(ask(server, '/big')[1]) == BIG


def test_connections_of_one_address_are_limited(served):
    server, _application = served(dataclasses.replace(QUICK, silent_s=20, per_address=5))
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(connected(server, source='127.0.0.2'))
        with connected(server, b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', source='127.0.0.2') as refused:
            answer = everything(refused)
            assert not answer or b'too many connections from this address' in answer
        assert ask(server, source='127.0.0.3') == (200, b'0')


def test_a_trusted_proxy_brings_many_clients(served):
    server, _application = served(dataclasses.replace(QUICK, silent_s=20, per_address=5), trusted=['127.0.0.2/32'])
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(server, source='127.0.0.2'))
        assert ask(server, source='127.0.0.2') == (200, b'0')


def test_an_idle_connection_makes_room(served):
    """Of all, and of one client."""
    for bound in ({'connections': 5}, {'per_address': 5}):
        server, _application = served(dataclasses.replace(QUICK, **bound))
        kept = []
        for _ in range(5):
            connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=10)
            connection.request('GET', '/')
            assert connection.getresponse().read() == b'0'
            kept.append(connection)
        time.sleep(0.1)
        assert ask(server) == (200, b'0')
        for connection in kept:
            connection.close()


def test_the_oldest_unfinished_request_makes_room(served):
    server, _application = served(dataclasses.replace(QUICK, silent_s=20, headers_s=20, connections=5))
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(connected(server, b'GET / HTT'))
        time.sleep(0.5)
        assert ask(server) == (200, b'0')


def test_bytes_of_bodies_that_wait_are_bounded(served):
    """One client's oldest goes; another client's body has room."""
    server, _application = served(dataclasses.replace(
        QUICK, body_s=20, body=400_000, bodies=2_000_000, bodies_per_address=800_000))
    part = HEAD + b'Content-Length: 399000\r\n\r\n' + b'a' * 300_000
    with contextlib.ExitStack() as stack:
        waiting = []
        for _ in range(4):
            waiting.append(stack.enter_context(connected(server, part, source='127.0.0.2')))
            time.sleep(0.2)
        waiting[0].settimeout(5)
        assert b' 200 ' not in everything(waiting[0])
        waiting[3].sendall(b'a' * 99_000)
        assert waiting[3].recv(100)[9:12] == b'200'
        assert ask(server, body=b'b' * 300_000) == (200, b'300000')


PLAN = priorities.Plan(4, 1, [priorities.Priority('login', 1, 2)],
                       [priorities.RequestClass(b'[A-Z]+ /wait/login', 'login')])


def test_a_face_has_threads_of_its_own(served):
    server, application = served(plan=PLAN)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(server, b'GET /wait/login HTTP/1.1\r\nHost: x\r\n\r\n'))
        assert ask(server) == (200, b'0')
        waiting.wait_for(lambda: application.seen.count('/wait/login') == 2, 20, 'two logins to begin')
        assert ask(server) == (200, b'0') and application.seen.count('/wait/login') == 2
        found = server.alive()
        assert health.well(found) and found[f'http {server.port} workers'][1]['waiting'] == 18


def test_other_apis_leave_reserved_threads_of_an_api_free(served):
    server, application = served(plan=PLAN)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(server, b'GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'))
        with connected(server, b'GET /wait/login HTTP/1.1\r\nHost: x\r\n\r\n'):
            deadline = time.monotonic() + 120
            while '/wait/login' not in application.seen:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert application.seen.count('/wait') == 3


def test_clients_of_one_face_take_turns(served):
    """Twenty requests of one client are not before one of another."""
    server, application = served(threads=1)
    with contextlib.ExitStack() as stack:
        for number in range(20):
            stack.enter_context(connected(server, b'GET /wait/%d HTTP/1.1\r\nHost: x\r\n\r\n' % number, '127.0.0.2'))
        time.sleep(0.3)
        stack.enter_context(connected(server, b'GET /other HTTP/1.1\r\nHost: x\r\n\r\n', '127.0.0.3'))
        time.sleep(0.3)
        application.gate.set()
        deadline = time.monotonic() + 120
        while len(application.seen) < 21:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert application.seen.index('/other') < 5


def test_a_busy_pool_is_alive_and_a_stuck_one_is_not(served, monkeypatch):
    """All threads busy is no fault; that requests wait and none moves for long is one."""
    monkeypatch.setattr(health, 'STUCK_S', 0.5)
    server, application = served(threads=2)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connected(server, b'GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'))
        time.sleep(1)
        assert health.well(server.alive())                   # busy, and nobody waits
        stack.enter_context(connected(server, b'GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'))
        time.sleep(0.2)
        assert health.well(server.alive())
        time.sleep(1)
        found = server.alive()
        assert not found[f'http {server.port} workers'][0] and found[f'http {server.port} loop'][0]
        application.gate.set()
        time.sleep(0.5)
        assert health.well(server.alive())


@pytest.mark.parametrize('address, plain, client', [
    ('192.0.2.1', '192.0.2.1', '192.0.2.1'), ('::ffff:192.0.2.1', '192.0.2.1', '192.0.2.1'),
    ('2001:db8:1:2:3::4', '2001:db8:1:2:3::4', '2001:db8:1:2::/64'), ('fe80::1%eth0', 'fe80::1', 'fe80::/64'),
    ('', '', '')])
def test_client_of_an_address_is_the_ipv4_address_or_ipv6_network(address, plain, client):
    assert addresses.plain(address) == plain and addresses.client(plain) == client


def test_an_expected_body_is_asked_for_once(served):
    server, _application = served()
    with connected(server, HEAD + b'Expect: 100-continue\r\nConnection: close\r\nContent-Length: 4\r\n\r\n') as sock:
        assert sock.recv(1000) == b'HTTP/1.1 100 Continue\r\n\r\n'
        sock.sendall(b'body')
        answer = everything(sock)
    assert answer.startswith(b'HTTP/1.1 200 ') and answer.endswith(b'4') and b'100 Continue' not in answer
