"""Strict parsing of HTTP/1.1 without ambiguous framing, based on cheroot's request.

If a proxy and this server disagree about the end of a request, one client can inject a request into another client's
connection (request smuggling). Therefore deviations from the standard are refused, and a connection with an unread body
is not reused.
"""
from collections.abc import Callable, Iterator
import email.utils
import functools
import re
import ssl
import threading
import time
from typing import NoReturn, Protocol

from cheroot import server
from cheroot import wsgi
from wsgiref.types import WSGIApplication, WSGIEnvironment

from nova import exception
from nova.runtime.http import priorities

PIECE = 65536                       # bytes of one read from a connection
SMALL = 4096                        # smaller pieces are joined, because each piece has an overhead of some 400 bytes
MAX_LINE = 4096                     # maximum bytes of a line between chunks
_NAME = re.compile(rb"[!#$%&'*+.^`|~0-9A-Za-z_-]+")
_VALUE = re.compile(rb'[^\0-\x08\x0a-\x1f\x7f]*')
_LENGTH = re.compile(rb'[0-9]{1,18}')
_HOST = re.compile(rb'[A-Za-z0-9._~%:\[\]-]{0,255}')
_CHUNK = re.compile(rb'([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n')
_TRAILER = re.compile(rb"[!#$%&'*+.^`|~0-9A-Za-z_-]+:[^\0-\x08\x0a-\x1f\x7f]*\r\n")
# A request that repeats one of these headers is ambiguous.
_ONCE = frozenset((b'Content-Length', b'Transfer-Encoding', b'Host', b'Content-Type', b'X-Auth-Token',
                   b'X-Service-Token', b'X-Subject-Token'))


@functools.lru_cache(2)
def _date(second: int) -> bytes:
    """Return the value of the header Date, cached for a second; cheroot would format it for each response."""
    return email.utils.formatdate(second, usegmt=True).encode()


def refusal(status: str, text: str) -> bytes:
    """Return a complete error response that announces the end of the connection."""
    body = text.encode() + b'\n'
    later = 'Retry-After: 5\r\n' if status.startswith('503') else ''
    return (f'HTTP/1.1 {status}\r\nServer: nova\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n'
            f'Connection: close\r\n{later}\r\n').encode() + body


class Readable(Protocol):
    """Source of a request's bytes: a buffer with the received bytes, or the connection."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int = ..., /) -> bytes: ...


def read_headers(rfile: Readable, headers: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
    """Return the headers as {b'Title-Case': value}; stricter than cheroot's reader.

    A header with an underscore in its name is dropped: in the WSGI environ this name would equal the name with a dash.

    :raises ValueError: the message is ambiguous; the text is for the client
    """
    headers = {} if headers is None else headers
    while (line := rfile.readline()) != b'\r\n':
        name, colon, value = line.partition(b':')
        if not colon or not line.endswith(b'\r\n') or not _NAME.fullmatch(name):
            raise ValueError('Malformed header.')
        name, value = name.title(), value[:-2].strip(b' \t')
        if not _VALUE.fullmatch(value):
            raise ValueError('A header has a control character.')
        if name in headers and name in _ONCE:
            raise ValueError(f'The header {name.decode()} came twice.')
        if b'_' not in name:
            headers[name] = headers[name] + b', ' + value if name in headers else value
    if b'Transfer-Encoding' in headers and (
            b'Content-Length' in headers or headers[b'Transfer-Encoding'].lower() != b'chunked'):
        raise ValueError('Transfer-Encoding must be chunked, without a Content-Length.')
    if not _LENGTH.fullmatch(headers.get(b'Content-Length', b'0')):
        raise ValueError('Content-Length is not a number.')
    if not _HOST.fullmatch(headers.get(b'Host', b'')):
        raise ValueError('Malformed Host.')
    return headers


class Body:
    """A request body as the application reads it.

    :param rfile: buffer with the received bytes, or the connection's stream
    :param length: bytes; None: the body is chunked
    :param gathered: whether reading never waits for the client
    :param most: maximum bytes; None: no limit, because the whole body has arrived or it is an upload
    """

    def __init__(self, rfile: Readable, length: int | None, gathered: bool = True, most: int | None = None) -> None:
        self._rfile, self._chunked, self._left = rfile, length is None, length or 0
        self._gathered, self._most = gathered, most
        self._first, self._ended = True, length == 0

    def read(self, size: int | None = -1) -> bytes:
        """Read bytes.

        :raises BadRequest: the body was interrupted, is too slow, or its chunks are malformed
        :raises TooLarge: the body is too large here
        """
        pieces: list[bytes | bytearray] = []
        wanted = float('inf') if size is None or size < 0 else size
        while wanted > 0 and self._more():
            piece = self._received(self._rfile.read, int(min(wanted, self._left, PIECE)))
            self._left -= len(piece)
            wanted -= len(piece)
            _keep(pieces, piece)
        only = pieces[0] if len(pieces) == 1 else None
        return only if isinstance(only, bytes) else b''.join(pieces)

    def readline(self, size: int = -1) -> bytes:
        if size > 0 and not self._chunked and self._more():               # faster than the loop below
            found = self._received(self._rfile.readline, min(size, self._left))
            self._left -= len(found)
            return found
        line = bytearray()
        while len(line) != size and (byte := self.read(1)):
            line += byte
            if byte == b'\n':
                break
        return bytes(line)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b'')

    def drain(self) -> bool:
        """Read the rest of a buffered body; return whether the body has been read to its end."""
        try:
            while self._gathered and self.read(PIECE):
                pass
        except (exception.BadRequest, exception.TooLarge):
            return False
        return not self._left and (self._ended or not self._chunked)

    def _more(self) -> bool:
        """Return whether the body has more bytes; after the end of a chunk, read the size of the next chunk."""
        if not self._left and not self._ended:
            if self._chunked:
                self._next_chunk()
            self._ended = not self._left
        return not self._ended

    def _next_chunk(self) -> None:
        if not self._first and self._line() != b'\r\n':
            self._refuse()
        self._first = False
        head = _CHUNK.fullmatch(self._line())
        if not head:
            self._refuse()
        self._left = int(head[1], 16)
        trailers = 0
        while not self._left and (line := self._line()) != b'\r\n':
            trailers += 1
            # Refuse overlong lines and bare line feeds: the text after them may look like the end of the trailers.
            if trailers > 100 or not _TRAILER.fullmatch(line):
                self._refuse()

    def _line(self) -> bytes:
        return self._received(self._rfile.readline, MAX_LINE)

    def _refuse(self) -> NoReturn:
        self._ended, self._left, self._chunked = False, 1, False      # makes later reads fail
        self._rfile = _Nothing
        raise exception.BadRequest('The chunks of the request body are malformed.')

    def _received(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            data = read(size)
        except OSError:
            data = b''
        if not data:
            self._rfile = _Nothing
            if self._most is not None:
                raise exception.TooLarge(limit=self._most)
            raise exception.BadRequest('The request body was interrupted, or arrived too slowly.')
        return data


def _keep(pieces: list[bytes | bytearray], piece: bytes) -> None:
    """Append a piece; join small pieces."""
    if len(piece) >= SMALL or not pieces:
        pieces.append(piece)
    elif isinstance(pieces[-1], bytearray):
        pieces[-1] += piece
    else:
        pieces.append(bytearray(piece))


class _Nothing:
    """Empty stream in place of a connection that cannot be parsed further."""

    @staticmethod
    def read(size: int = 0) -> bytes:
        return b''

    readline = read


class Request(server.HTTPRequest):
    """One request; cheroot parses it and writes the response.

    :ivar conn: Connection; ``conn.rfile`` is read, and the response is written to ``conn.wfile``
    """

    def parse_request(self) -> None:
        self.rfile = self.conn.rfile
        self.ready = self.read_request_line() and self.read_request_headers()

    def simple_response(self, status: str, msg: str = '') -> None:
        """Refuse the request and close the connection. cheroot's method would not send
        ``Connection: close``, and the next request of the client would fail.
        """
        self.close_connection = True
        self.conn.wfile.write(refusal(str(status), msg))

    def header_reader(self, rfile: Readable, headers: dict[bytes, bytes]) -> None:
        read_headers(rfile, headers)
        if not self.conn.streams:        # send no 100 Continue: the body has arrived or is not read
            headers.pop(b'Expect', None)

    def read_request_line(self) -> bool:
        try:
            return bool(super().read_request_line())       # type: ignore[no-untyped-call]  # cheroot has no types
        except ValueError:
            self.simple_response('400 Bad Request', 'Malformed Request-URI')
            return False

    def read_request_headers(self) -> bool:
        if not super().read_request_headers():             # type: ignore[no-untyped-call]  # cheroot has no types
            return False
        if self.response_protocol != 'HTTP/1.1' and b'Transfer-Encoding' in self.inheaders:
            self.simple_response('400 Bad Request', 'HTTP/1.0 has no chunks.')
            return False
        return True

    def respond(self) -> None:
        length = None if self.chunked_read else int(self.inheaders.get(b'Content-Length', 0))
        self.rfile = Body(self.conn.rfile, length, not self.conn.streams, self.conn.most)
        self.server.gateway(self).respond()
        if self.ready:
            self.ensure_headers_sent()
        if self.chunked_write:
            self.conn.wfile.write(b'0\r\n\r\n')

    def send_headers(self) -> None:
        self.conn.drained = self.rfile.drain()
        if not self.server.ready or not self.conn.drained:
            self.close_connection = True             # the server stops, or the body is not read completely
        self.conn.wfile.holds = True
        if not any(name.lower() == b'date' for name, _value in self.outheaders):
            self.outheaders.append((b'Date', _date(int(time.time()))))
        super().send_headers()


class Gateway(wsgi.Gateway_10):
    """cheroot's gateway to the WSGI application, with more keys in the environ."""

    def get_environ(self) -> WSGIEnvironment:    # type: ignore[override]  # cheroot declares None
        environ: WSGIEnvironment = super().get_environ()     # type: ignore[no-untyped-call]  # cheroot has no types
        environ['SERVER_NAME'] = self.req.conn.local_address      # not the Host header, which the client chooses
        environ['nova.stopping'] = self.req.server.stopping
        environ['nova.upgrade'] = self.req.conn.upgrade
        environ['nova.hops'] = self._limit_hops
        environ[priorities.JOIN], environ[priorities.REST] = self.req.conn.join, self.req.conn.rest
        return environ

    def _limit_hops(self, most: int) -> None:
        """Set the hop limit (1 to 255) of the response; close the connection afterwards."""
        self.req.conn.limit_hops(most)
        self.req.close_connection = True

    def respond(self) -> None:
        """Send the response as cheroot does, but send files with sendfile, and send no body after HEAD."""
        response = self.req.server.wsgi_app(self.env, self.start_response)
        try:
            if self.req.method == b'HEAD':
                if not self.started_response:                  # a generator calls start_response when it begins
                    next(iter(response), None)
                return
            part = getattr(response, 'part', None)             # see nova.web.request.Stream
            if part is not None and part[2] == self.remaining_bytes_out and self.req.conn.wfile.takes_file(part[2]):
                self.req.ensure_headers_sent()
                self.req.conn.wfile.write_file(*part)
            else:
                for chunk in filter(None, response):
                    self.write(chunk)
        finally:
            self.req.ensure_headers_sent()
            if hasattr(response, 'close'):
                response.close()


class Facts:
    """The attributes of a server that cheroot's request reads.

    :param stopping: set when the server stops, which ends long responses; ``nova.stopping`` in the environ
    :param tls: TLS context of the connections; None: plain HTTP
    """

    protocol = 'HTTP/1.1'
    server_name = software = 'nova'
    gateway = Gateway
    max_request_header_size = max_request_body_size = 0      # 0: no limit here; arrival.py limits both sizes
    can_add_keepalive_connection = True

    def __init__(self, application: WSGIApplication, bind_addr: tuple[str, int], timeout: int,
                 stopping: threading.Event, tls: ssl.SSLContext | None = None) -> None:
        self.wsgi_app, self.bind_addr, self.timeout, self.stopping = application, bind_addr, timeout, stopping
        self.ssl_adapter = self.tls = tls        # cheroot only tests this value, to choose https as the scheme
        self.ready = True
