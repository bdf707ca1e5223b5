"""Answers that are part of a file: the kernel sends them, over real sockets and either thread model."""
import contextlib
import dataclasses
import http.client
import os
import random
import socket
import ssl
import subprocess
import time

import pytest

from nova.runtime import wsgi
from nova.runtime.http import channel
from nova.runtime.http import limits as http_limits
from nova.tests.support import waiting
from nova.web.request import Stream

SIZE = 9 << 20
LIMITS = dataclasses.replace(http_limits.LIMITS, sweep_s=0.1)


class Files:
    """Answers with bytes of a file: of /FIRST-END those of this range. /short says that there are more."""

    def __init__(self, path):
        self.path, self.closed, self.pieces = path, 0, 0

    def _close(self, file):
        file.close()
        self.closed += 1

    def _read(self, file, left):
        while left and (piece := file.read(min(left, 1 << 20))):
            left -= len(piece)
            self.pieces += 1
            yield piece

    def __call__(self, environ, start_response):
        first, end = 0, SIZE
        if '-' in environ['PATH_INFO']:
            first, end = (int(part) for part in environ['PATH_INFO'][1:].split('-'))
        file = open(self.path, 'rb')
        file.seek(first)
        size = end - first + (10 if environ['PATH_INFO'] == '/short' else 0)
        body = Stream(self._read(file, size), '', lambda: self._close(file), size, (file, first, size))
        start_response('200 OK', [('Content-Length', str(size))])
        if environ['REQUEST_METHOD'] == 'HEAD':
            body.close()
            return []
        return body


@pytest.fixture(scope='module')
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp('files') / 'file'
    path.write_bytes(random.Random(1).randbytes(SIZE))
    return path


@pytest.fixture
def sent(monkeypatch):
    """[bytes that the kernel took at once]"""
    found, real = [], os.sendfile

    def sendfile(*args):
        found.append(real(*args))
        return found[-1]
    monkeypatch.setattr(channel.os, 'sendfile', sendfile)
    return found


@contextlib.contextmanager
def serving(content, tls=None, limits=LIMITS):
    application = Files(content)
    server = wsgi.Server(application, '127.0.0.1', 0, threads=2, limits=limits, tls=tls)
    server.start()
    try:
        yield server, application
    finally:
        server.stop(1)


@contextlib.contextmanager
def reached(server, context=None):
    kind = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
    more = {} if context is None else {'context': context}
    with contextlib.closing(kind('127.0.0.1', server.port, timeout=20, **more)) as connection:
        yield connection


def ask(connection, path='/', method='GET'):
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def test_the_bytes_are_those_of_the_file(content, sent):
    whole = content.read_bytes()
    with serving(content) as (server, application), reached(server) as connection:
        for first, end in ((0, SIZE), (1, SIZE - 1), (SIZE - (300 << 10), SIZE), (5 << 20, 8 << 20), (0, 1 << 20)):
            before = sum(sent)
            least = before + end - first - LIMITS.ahead
            status, body, headers = ask(connection, f'/{first}-{end}')          # all of them on one connection
            assert status == 200 and body == whole[first:end] and headers['Content-Length'] == str(end - first)
            waiting.wait_for(lambda least=least: sum(sent) >= least, 5, 'the kernel to have sent them')
        assert application.pieces == 0
        waiting.wait_for(lambda: application.closed == 5, 5, 'the files to be closed')


def test_small_parts_come_with_their_heads_and_heads_alone(content, sent):
    whole = content.read_bytes()
    with serving(content) as (server, application), reached(server) as connection:
        assert ask(connection, '/7-1000')[1] == whole[7:1000]
        assert ask(connection, '/7-7')[:2] == (200, b'')
        status, body, headers = ask(connection, method='HEAD')
        assert (status, body, headers['Content-Length']) == (200, b'', str(SIZE)) and not sent
        assert ask(connection)[1] == whole                                      # the connection goes on
        waiting.wait_for(lambda: application.closed == 4, 5, 'the files to be closed')


def test_over_tls_the_bytes_are_read(content, sent, tmp_path):
    key, certificate = tmp_path / 'key.pem', tmp_path / 'certificate.pem'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
                    '-keyout', key, '-out', certificate, '-subj', '/CN=localhost', '-days', '2', '-addext',
                    'subjectAltName=IP:127.0.0.1'], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=certificate)
    with serving(content, tls=context) as (server, application), reached(server, trusting) as connection:
        assert ask(connection)[1] == content.read_bytes() and not sent and application.pieces


def test_disconnected_client_frees_its_worker_and_file(content, sent):
    with serving(content) as (server, application):
        for _client in range(5):                             # of two workers
            with socket.create_connection(('127.0.0.1', server.port), timeout=20) as sock:
                sock.sendall(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
                assert sock.recv(1000)
        waiting.wait_for(lambda: application.closed == 5, 10, 'the files to be closed')
        with reached(server) as connection:
            assert ask(connection, '/0-5')[1] == content.read_bytes()[:5]


def test_stalled_client_is_disconnected_and_slow_client_is_served(content, sent):
    """Whose least rate is that of the limits."""
    slow = dataclasses.replace(LIMITS, least_rate=10_000, window_s=2)
    with serving(content, limits=slow) as (server, application), contextlib.ExitStack() as stack:
        stuck, little = (stack.enter_context(socket.socket()) for _ in range(2))
        for sock in (stuck, little):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            sock.settimeout(20)
            sock.connect(('127.0.0.1', server.port))
            sock.sendall(b'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
        received = 0
        while piece := little.recv(256 << 10):
            received += len(piece)
            time.sleep(0.005)
        assert received > SIZE
        waiting.wait_for(lambda: application.closed == 2, 10, 'both to end')
        left = 0
        with contextlib.suppress(ConnectionError):
            while piece := stuck.recv(1 << 20):
                left += len(piece)
        assert left < SIZE


def test_a_file_that_is_shorter_than_its_answer_ends_the_connection(content, sent):
    """A client that waited for the rest would wait for long. What the kernel has not taken by then is not sent."""
    with serving(content) as (server, application), reached(server) as connection:
        connection.request('GET', '/short')
        with pytest.raises(http.client.IncompleteRead) as error:
            connection.getresponse().read()
        assert SIZE - LIMITS.ahead <= len(error.value.partial) <= SIZE


def test_file_is_sent_where_sendfile_is_not_supported(content, monkeypatch):
    def sendfile(*_args):
        raise OSError(22, 'Invalid argument')
    monkeypatch.setattr(channel.os, 'sendfile', sendfile)
    with serving(content) as (server, application), reached(server) as connection:
        assert ask(connection, '/3-5000000')[1] == content.read_bytes()[3:5000000]
