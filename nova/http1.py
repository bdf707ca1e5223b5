"""HTTP/1.1 of the native threads: cheroot, with framing that leaves no room for a second reading.

Where a proxy and this server disagree about the end of a request, one client's bytes become another one's request.
So what is not exactly HTTP is refused, a body is read in pieces and never gathered, and a connection on which a body
was not read to its end is not used again.
"""
import logging
import re
import selectors
import time

from cheroot import connections
from cheroot import server
from cheroot import wsgi

from nova import exception

PIECE = 65536                       # bytes taken from the socket at once
DRAIN = 64 * 1024 * 1024            # bytes of a refused body that are read, so that the client sees the answer
HEADERS_S = 20                      # a request line and its headers have come by then
LAST_S = 0.5                        # who has just connected when the server stops may say what it wants
MAX_LINE = 4096                     # bytes of a line between chunks
_NAME = re.compile(rb"[!#$%&'*+.^`|~0-9A-Za-z_-]+")
_VALUE = re.compile(rb'[^\0-\x08\x0a-\x1f\x7f]*')
_LENGTH = re.compile(rb'[0-9]{1,18}')
_HOST = re.compile(rb'[A-Za-z0-9._~%:\[\]-]{0,255}')
_CHUNK = re.compile(rb'([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n')
# Two of these are two requests in one.
_ONCE = frozenset((b'Content-Length', b'Transfer-Encoding', b'Host', b'Content-Type', b'X-Auth-Token',
                   b'X-Service-Token', b'X-Subject-Token'))


def read_headers(rfile, headers=None):
    """The headers as {b'Title-Case': value}; cheroot's reader, stricter.

    A name with an underscore is left out: in the environment of WSGI it would pass for the one with a dash.

    :raises ValueError: the message has no clear meaning; the text is for the client
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

    :param rfile: the connection's file
    :param length: bytes; None: it comes in chunks
    """

    def __init__(self, rfile, length):
        self._rfile, self._chunked, self._left = rfile, length is None, length or 0
        self._first, self._ended = True, length == 0

    def read(self, size=-1):
        """
        :raises BadRequest: the body broke off, or its chunks have no form
        """
        pieces, wanted = [], float('inf') if size is None or size < 0 else size
        while wanted > 0 and self._more():
            piece = self._received(self._rfile.read, int(min(wanted, self._left, PIECE)))
            self._left -= len(piece)
            wanted -= len(piece)
            pieces.append(piece)
        return b''.join(pieces)

    def readline(self, size=-1):
        line = bytearray()
        while len(line) != size and (byte := self.read(1)):
            line += byte
            if byte == b'\n':
                break
        return bytes(line)

    def __iter__(self):
        return iter(self.readline, b'')

    def drain(self):
        """Read what the application left; False when there is too much of it or it breaks off."""
        try:
            left = DRAIN
            while left > 0 and (piece := self.read(PIECE)):
                left -= len(piece)
            return left > 0
        except exception.BadRequest:
            return False

    def _more(self):
        """Whether bytes are to come; begins a chunk where one has ended."""
        if not self._left and not self._ended:
            if self._chunked:
                self._next_chunk()
            self._ended = not self._left
        return not self._ended

    def _next_chunk(self):
        if not self._first and self._line() != b'\r\n':
            self._refuse()
        self._first = False
        head = _CHUNK.fullmatch(self._line())
        if not head:
            self._refuse()
        self._left = int(head[1], 16)
        trailers = 0
        while not self._left and self._line() != b'\r\n':
            trailers += 1
            if trailers > 100:
                self._refuse()

    def _line(self):
        return self._received(self._rfile.readline, MAX_LINE)

    def _refuse(self):
        self._ended, self._left, self._chunked = False, 1, False      # whatever is read from now on fails as well
        self._rfile = _Nothing
        raise exception.BadRequest('The body of the request is not in the chunks that HTTP knows.')

    def _received(self, read, size):
        try:
            data = read(size)
        except OSError:
            data = b''
        if not data:
            self._rfile = _Nothing
            raise exception.BadRequest('The connection broke off before the body had come.')
        return data


class _Nothing:
    """Stands for a connection of which nothing more can be understood."""

    @staticmethod
    def read(size):
        return b''

    readline = read


class _Request(server.HTTPRequest):
    header_reader = staticmethod(read_headers)

    def parse_request(self):
        self.conn.timed.until = time.monotonic() + HEADERS_S
        try:
            super().parse_request()
        finally:
            self.conn.timed.until = None

    def read_request_line(self):
        try:
            return super().read_request_line()
        except ValueError:
            self.simple_response('400 Bad Request', 'Malformed Request-URI')
            return False

    def read_request_headers(self):
        if not super().read_request_headers():
            return False
        if self.response_protocol != 'HTTP/1.1' and b'Transfer-Encoding' in self.inheaders:
            self.simple_response('400 Bad Request', 'HTTP/1.0 has no chunks.')
            return False
        return True

    def respond(self):
        length = None if self.chunked_read else int(self.inheaders.get(b'Content-Length', 0))
        self.rfile = Body(self.conn.rfile, length)
        self.server.gateway(self).respond()
        if self.ready:
            self.ensure_headers_sent()
        if self.chunked_write:
            self.conn.wfile.write(b'0\r\n\r\n')

    def send_headers(self):
        if not self.server.ready or not self.close_connection and not self.rfile.drain():
            self.close_connection = True             # a stopping server answers no further request
        super().send_headers()


class _Timed:
    """A socket from which reading ends at a moment, however slowly the bytes come."""

    def __init__(self, sock):
        self._sock, self.until = sock, None

    def __getattr__(self, name):
        return getattr(self._sock, name)

    def recv_into(self, buffer):
        if self.until is None:
            return self._sock.recv_into(buffer)
        usual = self._sock.gettimeout()
        self._sock.settimeout(max(0.001, self.until - time.monotonic()))
        try:
            return self._sock.recv_into(buffer)
        finally:
            self._sock.settimeout(usual)


class _Connection(server.HTTPConnection):
    RequestHandlerClass = _Request

    def __init__(self, served_by, sock, makefile):
        self.timed, self.waited, self.spoke = _Timed(sock), False, False
        super().__init__(served_by, sock, lambda sock, mode, size: makefile(
            self.timed if 'r' in mode else sock, mode, size))


class _Connections(connections.ConnectionManager):
    """Whose request has come, or is on its way, when the server stops, gets its answer."""

    def _run(self, expiration_interval):
        super()._run(expiration_interval)
        self._accept_last()
        begun = time.monotonic()
        while ready := list(self._selector.select(self._patience(begun))):
            for number, conn in ready:
                self._selector.unregister(number)
                self.server.process_conn(conn)

    def _accept_last(self):
        """Those in the queue of the listening socket, which is closed: the system would break them off."""
        listener, self.server.socket = self.server.socket, None
        if listener is None:             # it was stopped before it had begun
            return
        self._selector.unregister(listener.fileno())
        listener.settimeout(0)
        while (conn := self._from_server_socket(listener)) is not None:
            self._selector.register(conn.socket.fileno(), selectors.EVENT_READ, data=conn)
        listener.close()

    def _patience(self, begun):
        """Seconds for which more may come: from those that have said nothing yet."""
        silent = any(not conn.spoke for _number, conn in self._selector.connections)
        return max(0, begun + LAST_S - time.monotonic()) if silent else 0


class _Server(wsgi.Server):
    ConnectionClass = _Connection

    def clear_stats(self):
        """Nobody reads what cheroot counts; its table of all servers would keep this one for ever."""
        super().clear_stats()
        logging.statistics.clear()

    def prepare(self):
        super().prepare()
        self._connections.close()
        self._connections = _Connections(self)

    def process_conn(self, conn):
        """A thread is for who says something: a new connection waits where the idle ones do."""
        if not conn.waited and self.can_add_keepalive_connection:
            conn.waited = True
            self.put_conn(conn)
        else:
            conn.spoke = True
            super().process_conn(conn)


def make(application, host, port, **options):
    """A cheroot WSGI server of this framing."""
    return _Server((host, port), application, **options)
