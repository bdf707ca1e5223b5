"""Each bound of the HTTP server by itself, over real sockets and either thread model."""
import contextlib
import dataclasses
import errno
import http.client
import socket
import threading
import time

import pytest

from nova import conf as nova_conf
from nova.cloud import http_server
from nova.objectstore import part
from nova.runtime import concurrency
from nova.runtime import health
from nova.runtime import wsgi
from nova.runtime.http import addresses
from nova.runtime.http import capacity
from nova.runtime.http import channel
from nova.runtime.http import limits as http_limits
from nova.runtime.http import priorities
from nova.tests.support import waiting

QUICK = http_limits.Limits(silent_s=0.6, headers_s=0.6, body_s=0.6, idle_s=30, linger_s=0.5, window_s=0.6, sweep_s=0.1,
                           spare_s=0.3)
BIG = 16 << 20


class Application:
    """/wait waits for ``gate``; /big answers with BIG bytes, /long with more; the rest says how long the body is."""

    def __init__(self):
        self.gate, self.seen = threading.Event(), []

    def __call__(self, environ, start_response):
        path = environ['PATH_INFO']
        self.seen.append(path)
        if path.startswith('/wait'):
            self.gate.wait(20)
        if path == '/long':
            start_response('200 OK', [])
            return (b'x' * BIG for _ in range(8))
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


class FullListener:
    """A listening socket of a process without free descriptors, until ``full`` is False."""

    def __init__(self, sock):
        self._sock, self.full = sock, True

    def accept(self):
        if self.full:
            raise OSError(errno.EMFILE, 'Too many open files')
        return self._sock.accept()

    def __getattr__(self, name):
        return getattr(self._sock, name)


def test_open_connections_are_served_while_no_descriptor_is_free(served, monkeypatch):
    """The loop slept after each failed accept(), so all connections waited."""
    if concurrency.model() != 'native':
        pytest.skip('green threads accept connections in a thread of their own')
    from nova.runtime.http import native
    monkeypatch.setattr(native, 'NO_DESCRIPTORS_S', 2)
    server, _application = served()
    connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=60)
    with contextlib.closing(connection):
        connection.request('GET', '/')
        assert connection.getresponse().read() == b'0'
        listener = server._server._listener = FullListener(server._server._listener)
        with connected(server, b'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n') as waits:
            waiting.wait_for(lambda: server._server._accepts_at is not None)
            begun = time.monotonic()
            for _ in range(5):
                connection.request('GET', '/')
                assert connection.getresponse().read() == b'0'
            assert time.monotonic() - begun < 8              # five pauses took 10 s
            listener.full = False
            waits.settimeout(60)
            assert everything(waits).endswith(b'0')


def test_workers_do_not_wake_the_loop_while_it_closes_its_descriptor(served, monkeypatch):
    """A worker could write eight bytes to a file that had got the number of the closed descriptor."""
    if concurrency.model() != 'native':
        pytest.skip('green threads have no such descriptor')
    from nova.runtime.http import native
    server, _application = served()
    loop, written, write = server._server, [], native.os.eventfd_write

    def record(number, value):
        written.append(number)
        write(number, value)
    monkeypatch.setattr(native.os, 'eventfd_write', record)
    worker = threading.Thread(target=loop._wake_loop)
    with loop._handing:
        worker.start()
        worker.join(0.3)
        assert written == []
    worker.join(20)
    assert written == [loop._wakeup]


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
    server, _application = served(dataclasses.replace(QUICK, body=1000, least_rate=200))
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
    server, _application = served(dataclasses.replace(QUICK, window_s=20))
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


class Peer:
    address = client = '192.0.2.1'


def test_the_response_of_an_evicted_connection_is_not_counted():
    """Its entry stayed for ever, and a later eviction of unread responses did not end."""
    limits = dataclasses.replace(http_limits.LIMITS, bodies_per_address=100_000, answers=1000)
    of = capacity.Capacity(limits, (), 100)
    evicted, first, second = Peer(), Peer(), Peer()
    of.enter(evicted)
    assert of.arrives(evicted, 200_000 + limits.free) == (capacity.BODIES, None)
    assert of.answers(evicted, 150) == []
    of.leave(evicted)
    assert of._answers == {} and of._answered == 0
    for peer in (first, second):
        of.enter(peer)
        of.begins(peer)
    assert of.answers(first, 600) == []
    assert of.answers(second, 600) == [first]


PLAN = priorities.Plan(4, 1, [priorities.Priority('login', 1, 2)],
                       [priorities.RequestClass(b'[A-Z]+ /wait/login', 'login')])


def queued(server, count):
    waiting.wait_for(lambda: server.alive()[f'http {server.port} workers'][1]['waiting'] == count,
                     what=f'{count} requests to wait')


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


@pytest.mark.parametrize('target', [
    b' GET /wait/login', b'GET /%77ait/log%69n', b'GET ///wait/login', b'GET /wa\tit/login', b'GET /wait/l\rogin'])
def test_the_routed_path_determines_the_class(served, target):
    """An encoded letter, a tab or further slashes made a login a request of the class with most threads."""
    server, application = served(plan=PLAN)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(server, target + b' HTTP/1.1\r\nHost: x\r\n\r\n'))
        assert ask(server) == (200, b'0')
        waiting.wait_for(lambda: application.seen.count('/wait/login') == 2, 20, 'two logins to begin')
        assert ask(server) == (200, b'0') and application.seen.count('/wait/login') == 2


LOGIN = b'POST /identity/v3/auth/tokens'
DOWNLOAD = b'GET /image/v2/images/x/file'


@pytest.mark.parametrize('line, name', [
    (LOGIN, 'login'), (LOGIN + b'/?nocatalog', 'login'), (b'POST /%69dentity/v3/auth/%74okens', 'login'),
    (b'POST /identity//v3/auth/tokens', 'login'), (b'POST ///identity/v3/auth/tokens', 'login'),
    (b'POST /identity/v3/users/u/password', 'login'), (b'POST /identity/v3/users', 'identity'),
    (DOWNLOAD, 'downloads'), (b'GET /image//v2/images/x/%66ile', 'downloads'),
    (b'GET /im\tage/v2/images/x/file', 'downloads'),
    (b'PUT /image/v2/images/x/file', 'image'),
    (b'GET /objectstore/b/k', 'downloads'), (b'GET /compute/v2.1/os-%65vents', 'streams'),
    (b'GET /v2.1/os-events?x', 'streams'),
    (b'GET /v2.1/servers?name=/os-events', ''), (b'GET /v2.1/%3F%0A/os-events', 'streams'),
    (b'GET /healthcheck?x', 'health'), (b'GET /healthcheck%0A', ''), (b'GET /healthcheck/x', ''),
    (b'GET', ''), (b'', ''), (b'GET //[', ''), (b'GET /\xff', ''), (b'GET /v2.1/servers', '')])
def test_classes_of_the_all_in_one(line, name):
    assert http_server.plan(nova_conf.new(files=[])).request_class(line).priority == name


def test_other_apis_leave_reserved_threads_of_an_api_free(served):
    server, application = served(plan=PLAN)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connected(server, b'GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'))
        with connected(server, b'GET /wait/login HTTP/1.1\r\nHost: x\r\n\r\n'):
            waiting.wait_for(lambda: '/wait/login' in application.seen, what='the login')
        waiting.wait_for(lambda: application.seen.count('/wait') >= 3, what='three others')
        assert application.seen.count('/wait') == 3


def test_clients_of_one_face_take_turns(served):
    """Twenty requests of one client are not before one of another."""
    server, application = served(threads=1)
    with contextlib.ExitStack() as stack:
        for number in range(20):
            stack.enter_context(connected(server, b'GET /wait/%d HTTP/1.1\r\nHost: x\r\n\r\n' % number, '127.0.0.2'))
        queued(server, 19)
        stack.enter_context(connected(server, b'GET /other HTTP/1.1\r\nHost: x\r\n\r\n', '127.0.0.3'))
        queued(server, 20)
        application.gate.set()
        waiting.wait_for(lambda: len(application.seen) == 21, what='all requests')
    assert application.seen.index('/other') < 5


def test_a_busy_pool_is_alive_and_a_stuck_one_is_not(served, monkeypatch):
    """All threads busy is no fault; that requests wait and none moves for long is one."""
    server, application = served(threads=2)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connected(server, b'GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'))
        waiting.wait_for(lambda: len(application.seen) == 2, what='both to begin')
        monkeypatch.setattr(health, 'STUCK_S', 0)
        assert health.well(server.alive())                   # busy, and nobody waits
        monkeypatch.setattr(health, 'STUCK_S', 100)
        stack.enter_context(connected(server, b'GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'))
        queued(server, 1)
        assert health.well(server.alive())
        monkeypatch.setattr(health, 'STUCK_S', 0.5)
        waiting.wait_for(lambda: not health.well(server.alive()), what='it to be stuck')
        found = server.alive()
        assert not found[f'http {server.port} workers'][0] and found[f'http {server.port} loop'][0]
        application.gate.set()
        waiting.wait_for(lambda: health.well(server.alive()), what='it to move')


def test_a_response_that_a_slow_client_reads_is_progress(served, monkeypatch):
    """Five long downloads of a client, of which the fifth waited, made systemd kill the process."""
    monkeypatch.setattr(channel, 'RATE_CHECK_INTERVAL_S', 0.1)
    monkeypatch.setattr(health, 'STUCK_S', 3)
    server, _application = served(dataclasses.replace(QUICK, window_s=20), threads=1)
    with connected(server, b'GET /long HTTP/1.1\r\nHost: x\r\n\r\n') as reads, connected(
            server, b'GET / HTTP/1.1\r\nHost: x\r\n\r\n'):
        queued(server, 1)
        begun = time.monotonic()
        while time.monotonic() - begun < 4:
            assert reads.recv(65536)
            assert health.well(server.alive())
            time.sleep(0.05)


def test_requests_beyond_the_limit_of_a_client_do_not_delay_others(served):
    """While one client waited, free threads took no new request of another client."""
    plan = priorities.Plan(1, 1, classes=[priorities.RequestClass(b'GET /wait', 'long')],
                           apart=[priorities.Priority('long', 2, 2, each=1)])
    server, application = served(plan=plan)
    with contextlib.ExitStack() as stack:
        for path in (b'/wait/1', b'/wait/2'):
            stack.enter_context(connected(server, b'GET ' + path + b' HTTP/1.1\r\nHost: x\r\n\r\n'))
        queued(server, 1)
        stack.enter_context(connected(server, b'GET /wait/3 HTTP/1.1\r\nHost: x\r\n\r\n', '127.0.0.2'))
        waiting.wait_for(lambda: '/wait/3' in application.seen, 10, 'the request of the other client')
        assert len(application.seen) == 2


def test_slow_downloads_leave_threads_of_the_object_store_free():
    application = Application()
    server = part.server(nova_conf.new(files=[], objectstore__listen='127.0.0.1', objectstore__port=0), application, 4,
                         None)
    server.start()
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(connected(server, b'GET /wait/key HTTP/1.1\r\nHost: x\r\n\r\n'))
            waiting.wait_for(lambda: application.seen.count('/wait/key') == 2, 20, 'two downloads of the client')
            assert ask(server, '/bucket/', timeout=20) == (200, b'0')
            assert ask(server, '/bucket/key', b'data') == (200, b'4')
            stack.enter_context(connected(server, b'GET /wait/other HTTP/1.1\r\nHost: x\r\n\r\n', '127.0.0.2'))
            waiting.wait_for(lambda: '/wait/other' in application.seen, 20, 'the download of another client')
        assert application.seen.count('/wait/key') == 2
    finally:
        application.gate.set()
        server.stop(1)


def test_requests_of_other_classes_do_not_hide_a_stuck_one(served, monkeypatch):
    monkeypatch.setattr(health, 'STUCK_S', 0.5)
    server, application = served(plan=PLAN)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(server, b'GET /wait/login HTTP/1.1\r\nHost: x\r\n\r\n'))
        waiting.wait_for(lambda: application.seen.count('/wait/login') == 2, 20, 'two logins to begin')
        queued(server, 1)
        time.sleep(0.7)
        assert ask(server) == (200, b'0') and not health.well(server.alive())


def test_a_shortage_of_threads_costs_no_slots(served, monkeypatch):
    """Each request that got no thread held its slot until the process ended."""
    if concurrency.model() != 'native':
        pytest.skip('green threads are not short')
    server, application = served(threads=2)
    spawn, failures = concurrency.spawn, []

    def fails(name, *arguments):
        if len(failures) < 3:
            failures.append(name)
            raise RuntimeError("can't start new thread")
        return spawn(name, *arguments)
    monkeypatch.setattr(concurrency, 'spawn', fails)
    assert ask(server) == (200, b'0')                        # served as soon as there is a thread
    assert failures == ['http-0'] * 3
    with connected(server, b'GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'):
        assert ask(server) == (200, b'0')
        application.gate.set()
        waiting.wait_for(lambda: server.alive()[f'http {server.port} workers'][1]['working'] == 0, 20, 'the end')


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
