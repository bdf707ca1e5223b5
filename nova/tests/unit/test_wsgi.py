"""The HTTP server of either thread model, over real sockets."""
import contextlib
import http.client
import json
import logging
import socket
import threading
import time

import pytest

from nova import exception
from nova.runtime import concurrency
from nova.runtime import wsgi
from nova.runtime.http import limits
from nova.tests.support import waiting


def echo(environ, start_response):
    """Answers with the length of the body, read in pieces as it arrives."""
    length = 0
    while chunk := environ['wsgi.input'].read(65536):
        length += len(chunk)
    body = json.dumps({'script': environ.get('SCRIPT_NAME', ''), 'path': environ['PATH_INFO'], 'length': length,
                       'terminated': bool(environ.get('wsgi.input_terminated'))}).encode()
    start_response('200 OK', [('Content-Type', 'application/json'), ('Content-Length', str(len(body)))])
    return [body]


class Slow:
    def __init__(self):
        self.begun = threading.Event()

    def __call__(self, environ, start_response):
        self.begun.set()
        time.sleep(0.4)
        start_response('200 OK', [('Content-Length', '4')])
        return [b'done']


def broken(environ, start_response):
    raise RuntimeError('secret-canary')


def stream(environ, start_response):
    start_response('200 OK', [('Content-Type', 'application/octet-stream')])
    for _ in range(64):
        yield b'x' * 65536


@pytest.fixture
def served():
    """start(application) -> server; all are stopped at the end."""
    servers = []

    def start(application):
        server = wsgi.Server(application, '127.0.0.1', 0, threads=4)
        servers.append(server)
        server.start()
        return server
    yield start
    for server in servers:
        server.stop(1)


def ask(server, method='GET', path='/', body=None, connection=None, **more):
    connection = connection or http.client.HTTPConnection('127.0.0.1', server.port, timeout=10)
    connection.request(method, path, body, **more)
    response = connection.getresponse()
    return response.status, response.read(), response


def test_a_connection_is_kept(served):
    server = served(echo)
    connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=10)
    connection.connect()
    mine = connection.sock.getsockname()
    for _ in range(3):
        status, _body, response = ask(server, connection=connection)
        assert status == 200 and response.version == 11
        assert connection.sock is not None and connection.sock.getsockname() == mine


def test_uploads_of_unknown_length_arrive(served):
    status, body, _response = ask(served(echo), 'PUT', '/image', (b'y' * 100_000 for _ in range(30)),
                                  encode_chunked=True, headers={'Transfer-Encoding': 'chunked'})
    assert (status, json.loads(body)['length'], json.loads(body)['terminated']) == (200, 3_000_000, True)


def test_an_upload_is_seen_while_it_is_sent(served):
    """Nothing collects a large body before the application gets it."""
    first, length = threading.Event(), limits.LIMITS.body + 20

    def application(environ, start_response):
        assert environ['wsgi.input'].read(length - 10) == b'a' * (length - 10)
        first.set()
        rest = environ['wsgi.input'].read(10)
        start_response('200 OK', [('Content-Length', str(len(rest)))])
        return [rest]
    server = served(application)
    with socket.create_connection(('127.0.0.1', server.port), timeout=10) as sock:
        sock.sendall(b'PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n' % length
                     + b'a' * (length - 10))
        assert first.wait(20)
        sock.sendall(b'b' * 10)
        answer = b''
        while piece := sock.recv(65536):
            answer += piece
    assert answer.endswith(b'b' * 10)


def test_downloads_are_streamed(served):
    status, body, _response = ask(served(stream))
    assert status == 200 and len(body) == 64 * 65536


# without a Content-Length the connection is closed after the first response
@pytest.mark.parametrize('application, responses', [(echo, 2), (stream, 1)])
def test_a_response_to_head_has_no_body(served, application, responses):
    """The body of an error was read as the beginning of the next response of the connection."""
    server = served(application)
    with socket.create_connection(('127.0.0.1', server.port), timeout=10) as sock:
        sock.sendall(b'HEAD / HTTP/1.1\r\nHost: x\r\n\r\nHEAD /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
        answer = b''
        while piece := sock.recv(65536):
            answer += piece
    *heads, rest = answer.split(b'\r\n\r\n')
    assert [head[:15] for head in heads] == [b'HTTP/1.1 200 OK'] * responses and rest == b''


def test_unhandled_error_returns_500_without_details(served):
    status, body, response = ask(served(broken))
    assert status == 500
    assert b'canary' not in body and b'Traceback' not in body
    assert 'canary' not in str(response.headers)


def test_stop_finishes_the_running_request(served):
    slow = Slow()
    server = served(slow)
    answers = []
    client = threading.Thread(target=lambda: answers.append(ask(server)[:2]))
    client.start()
    assert slow.begun.wait(20)
    assert server.stop(20) is True
    client.join()
    assert answers == [(200, b'done')]
    with pytest.raises(OSError):
        ask(server)


def test_stop_with_an_expired_timeout_raises_no_error(served, monkeypatch):
    """Bug: a little less than no time was left, which cheroot's pool answered with an error in the stopping thread."""
    failures = []
    monkeypatch.setattr(threading, 'excepthook', failures.append)
    slow = Slow()
    server = served(slow)
    client = threading.Thread(target=_ask_in_vain, args=(server,))
    client.start()
    assert slow.begun.wait(20)
    server.stop(0)
    client.join()
    assert failures == []


def _ask_in_vain(server):
    with contextlib.suppress(OSError, http.client.HTTPException):
        ask(server)


def test_requests_during_shutdown_are_answered_or_refused(served):
    """Bug: connections that were made, but had no thread yet, were broken off with their requests."""
    server, found = served(echo), []

    def client():
        while True:
            try:
                found.append(ask(server)[0])
            except ConnectionRefusedError:
                return
            except (OSError, http.client.HTTPException) as error:
                found.append(repr(error))
            time.sleep(0)
    clients = [threading.Thread(target=client) for _ in range(8)]
    for thread in clients:
        thread.start()
    while len(found) < 50:
        time.sleep(0.01)
    assert server.stop(10) is True
    for thread in clients:
        thread.join(20)
    assert set(found) == {200}


def test_an_idle_connection_does_not_delay_stop(served):
    server = served(echo)
    connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=10)
    ask(server, connection=connection)
    begun = time.monotonic()
    assert server.stop(60) is True
    assert time.monotonic() - begun < 30


def test_stop_without_connections_waits_for_nothing(served, monkeypatch):
    if concurrency.model() != 'native':
        pytest.skip('the loop is that of native threads')
    from nova.runtime.http import native
    turns, turn = [], native.Native._turn
    monkeypatch.setattr(native.Native, '_turn', lambda self: (turns.append((self, self._ending)), turn(self)))
    server = served(echo)
    own = server._server

    def endings():
        return {ending for loop, ending in turns if loop is own}
    waiting.wait_for(endings, 20, 'a turn of the loop')
    assert server.stop(60) is True and endings() == {None}


def test_a_taken_port_is_a_sentence(served):
    server = served(echo)
    with pytest.raises(exception.InvalidInput, match=f'Cannot listen on 127.0.0.1:{server.port}'):
        wsgi.Server(echo, '127.0.0.1', server.port).start()


def test_huge_headers_are_refused(served):
    server = served(echo)
    with socket.create_connection(('127.0.0.1', server.port), timeout=10) as sock:
        try:
            sock.sendall(b'GET / HTTP/1.1\r\nHost: x\r\nX-Big: ' + b'a' * 2_000_000 + b'\r\n\r\n')
            status = sock.recv(100).split(b' ')[1:2]
        except ConnectionError:
            status = []                    # closed before all of it was sent
    assert status in ([], [b'400'], [b'413'], [b'431'])
    assert ask(server)[0] == 200


# ---- mounts

MOUNTS = wsgi.Mounts([wsgi.Mount('/image', echo, max_body=None, api=('image', '/v2')),
                      wsgi.Mount('/compute', echo, max_body=1000), wsgi.Mount('/v2.1', echo, strip=False)])


@pytest.mark.parametrize('path, script, rest', [
    ('/image/v2/images', '/image', '/v2/images'), ('/compute', '/compute', ''), ('/compute/', '/compute', '/'),
    ('/v2.1/servers', '', '/v2.1/servers')])
def test_the_longest_mount_answers(served, path, script, rest):
    _status, body, _response = ask(served(MOUNTS), path=path)
    assert (json.loads(body)['script'], json.loads(body)['path']) == (script, rest)


def test_index_names_mounts_and_unknown_paths_return_404(served):
    server = served(MOUNTS)
    assert json.loads(ask(server)[1]) == {'services': {'image': f'http://127.0.0.1:{server.port}/image/v2'}}
    for path in ('/imagery', '/nothing'):
        status, body, _response = ask(server, path=path)
        assert (status, json.loads(body)['error']['code']) == (404, 404)


def test_a_body_over_the_mount_s_bound_is_refused(served):
    server = served(MOUNTS)
    status, body, _response = ask(server, 'POST', '/compute/v2.1/servers', b'z' * 1001)
    assert (status, json.loads(body)['error']['code']) == (413, 413)
    assert ask(server, 'POST', '/compute/v2.1/servers', b'z' * 1000)[0] == 200
    assert ask(server, 'POST', '/image/x', b'z' * 5_000_000)[0] == 200


def test_an_undeclared_body_over_the_bound_raises(served):
    seen = []

    def reads_all(environ, start_response):
        try:
            environ['wsgi.input'].read()
        except exception.TooLarge as error:
            seen.append(error.code)
        start_response('413 Too Large', [('Content-Length', '0'), ('Connection', 'close')])
        return []
    server = served(wsgi.Mounts([wsgi.Mount('/a', reads_all, max_body=1000)]))
    status, _body, _response = ask(server, 'POST', '/a', (b'q' * 600 for _ in range(3)), encode_chunked=True,
                                   headers={'Transfer-Encoding': 'chunked'})
    assert (status, seen) == (413, [413])


def test_a_server_that_has_stopped_is_forgotten(served):
    server = served(echo)
    assert ask(server)[0] == 200
    assert not logging.statistics            # cheroot's table, by which servers would stay for ever
