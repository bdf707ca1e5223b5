"""Clients take turns also when one of them does not wait for its answers."""
import contextlib
import socket
import threading
import time

import pytest

from nova.runtime import wsgi

MANY = 200
WORK_S = 0.002                      # of a processor, in which no other thread is let in by the application


class Application:
    """Says the path, once ``go`` is set; ``seen`` are the paths in the order of the requests."""

    def __init__(self):
        self.seen, self.go = [], threading.Event()

    def __call__(self, environ, start_response):
        self.seen.append(environ['PATH_INFO'])
        assert self.go.wait(60)
        end = time.process_time() + WORK_S
        while time.process_time() < end:
            pass
        start_response('200 OK', [('Content-Length', '2')])
        return [b'ok']


@pytest.fixture
def served():
    application = Application()
    server = wsgi.Server(application, '127.0.0.1', 0)
    server.start()
    yield server, application
    server.stop(1)


def request(path):
    return b'GET /%s HTTP/1.1\r\nHost: x\r\n\r\n' % path


@pytest.mark.parametrize('floods', [1, 20])
def test_requests_without_a_pause_let_others_in(served, floods):
    """On green threads all requests that a client had sent at once were answered before any other client's."""
    server, application = served
    with contextlib.ExitStack() as stack:
        def connected(source):
            return stack.enter_context(socket.create_connection(
                ('127.0.0.1', server.port), timeout=60, source_address=(source, 0)))
        honest = connected('127.0.0.3')
        hostile = [connected('127.0.0.2') for _ in range(floods)]
        for sock in hostile:
            sock.sendall(request(b'flood') * (MANY // floods))
        honest.sendall(request(b'honest'))
        application.go.set()
        assert honest.recv(4096).startswith(b'HTTP/1.1 200 ')
        assert application.seen.index('/honest') < MANY // 2
        for sock in hostile:                                 # and nothing is lost
            answers = b''
            while answers.count(b'HTTP/1.1 200 ') < MANY // floods:
                answers += sock.recv(65536)
    assert len(application.seen) == MANY + 1
