"""One connection of a client, and the responses to its requests."""
from __future__ import annotations

import functools
import io
import logging
import socket
import threading
import time
from typing import Protocol

from nova.runtime import log_limits
from nova.runtime.http import addresses
from nova.runtime.http import arrival
from nova.runtime.http import channel as channels
from nova.runtime.http import framing
from nova.runtime.http import limits as http_limits
from nova.runtime.http import priorities

LOG = logging.getLogger(__name__)

Address = tuple[str, int] | tuple[str, int, int, int]            # address of a socket: IPv4 or IPv6

CONTINUE = b'HTTP/1.1 100 Continue\r\n\r\n'

# States of a connection.
NEW, ARRIVING, WORKING, ANSWERING, LINGERING, IDLE = 'new', 'arriving', 'working', 'answering', 'lingering', 'idle'

TOO_LATE = framing.refusal('408 Request Timeout', 'The request did not arrive in time.')
TOO_LONG = framing.refusal('431 Request Header Fields Too Large', 'The headers are too long.')
LINE_TOO_LONG = framing.refusal('414 URI Too Long', 'The address is too long.')
BROKEN = framing.refusal('400 Bad Request', 'The connection was closed before the body had arrived.')


class Successor(Protocol):
    """Handler of the protocol that replaces HTTP on a connection, such as WebSocket."""

    def take(self, channel: channels.Channel, data: bytes) -> None:
        """Take over the connection. ``data``: bytes that the client has already sent after the request."""

    def abandon(self) -> None:
        """Clean up: the response could not be sent, so ``take`` is not called."""


def too_long(conn: Connection) -> bytes:
    """Return the error response to a request with too long headers."""
    return TOO_LONG if 0 <= conn.arrival.data.find(b'\n') <= conn.limits.header else LINE_TOO_LONG


class Connection:
    """A connection of a client.

    :param peer: the address from accept()
    """

    dispatcher: priorities.Dispatcher[Connection]             # dispatcher and rfile belong to the current request
    rfile: channels.InputStream | io.BytesIO
    turn: threading.Event                                     # set when a green thread may process the request

    def __init__(self, channel: channels.Channel, facts: framing.Facts, limits: http_limits.Limits,
                 peer: Address) -> None:
        self.channel, self.server, self.limits = channel, facts, limits
        self.remote_addr, self.remote_port = addresses.plain(peer[0]), peer[1]
        self.address, self.client = self.remote_addr, addresses.client(self.remote_addr)
        self.ssl_env = None
        self.arrival = arrival.Arrival(limits)
        self.wfile = channels.OutputBuffer(channel, limits)
        self.state, self.until = NEW, time.monotonic() + limits.silent_s
        self.begun: float | None = None                # time at which the body began to arrive
        self.priority = ''
        self.streams = False
        self.most: int | None = None
        self.drained = self.keeps = False
        self.discarded = 0
        self._local: str | None = None
        self.successor: Successor | None = None       # see upgrade()
        self.handed_over = False

    def upgrade(self, successor: Successor) -> None:
        """Pass the connection to ``successor`` after the response to this request."""
        self.successor = successor

    def limit_hops(self, most: int) -> None:
        """Set the hop limit of further packets of this connection."""
        sock = self.channel.sock
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, most)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, most)  # an IPv6 socket may send IPv4 packets

    def abandon(self) -> None:
        """Notify the successor that it does not get the connection."""
        successor, self.successor = self.successor, None
        if successor is not None:
            successor.abandon()

    def hand_over(self) -> None:
        """Give the connection to the successor."""
        successor, self.successor, self.handed_over = self.successor, None, True
        assert successor is not None
        successor.take(self.channel, bytes(self.arrival.data))

    @property
    def local_address(self) -> str:
        """The local address, as the host in a URL: an IPv6 address in brackets."""
        if self._local is None:
            try:
                found = addresses.plain(self.channel.sock.getsockname()[0])
            except OSError:
                found = 'localhost'
            self._local = f'[{found}]' if ':' in found else found
        return self._local

    def look(self) -> str:
        """Scan the received bytes, set the deadline ``until``, and return the state of the request (Arrival.look)."""
        now, found = time.monotonic(), self.arrival.look()
        if self.state in (NEW, IDLE) and self.arrival.data:
            self.state, self.until, self.begun = ARRIVING, now + self.limits.headers_s, None
        if found == arrival.BODY:
            if self.begun is None:
                self.begun = now
                if self.arrival.expects:
                    self.wfile.write(CONTINUE)
            self.until = self.begun + self.limits.body_s + self.arrival.body / self.limits.least_rate
        return found

    def join(self, project_id: str) -> None:
        """Assign the request to this project, and wait until the project may use the thread.

        :raises ServiceBusy: too many requests wait for a slot
        """
        self.dispatcher.join(self.priority, self, project_id)

    def rest(self) -> None:
        """Yield to waiting requests of other projects; called between two parts of a long request."""
        self.dispatcher.rest(self.priority, self)

    def take(self, found: str, plan: priorities.Plan, dispatcher: priorities.Dispatcher[Connection]) -> None:
        """Prepare the connection for the thread that processes the request.

        :param found: WHOLE or LARGE of arrival
        :param dispatcher: to be notified of the progress of an upload or a download
        """
        self.dispatcher = dispatcher
        request_class = plan.request_class(self.arrival.line or b'')
        self.state, self.streams, self.most = WORKING, found == arrival.LARGE and request_class.uploads, None
        self.priority = priorities.UPLOADS if self.streams else request_class.priority
        self.wfile.progress = functools.partial(dispatcher.progress, self.priority)
        data, self.arrival.data = self.arrival.data, bytearray()
        if self.streams:
            self.rfile = channels.InputStream(self.channel, self.limits, data, self.wfile.progress)
            return
        self.most = self.limits.body if found == arrival.LARGE else None
        self.rfile = io.BytesIO(data)

    def answer(self) -> None:
        """Parse the request and send the response. Set ``keeps``: whether another request may follow."""
        request = framing.Request(self.server, self)
        self.drained = self.keeps = False
        try:
            request.parse_request()
            if request.ready:
                request.respond()
                self.keeps = not request.close_connection
            self.wfile.finish()
        except channels.Gone:
            self.keeps, self.drained = False, True           # the client has disconnected or is too slow
            self.wfile.drop()
            self.abandon()
        except Exception:
            self.keeps = False
            log_limits.of_connection(self.address)
            LOG.exception('The answer to %s failed', self.address)
            self.abandon()
            self._fail(request)
        rest = self.rfile.rest() if isinstance(self.rfile, channels.InputStream) else self.rfile.read()
        self.arrival = arrival.Arrival(self.limits, rest)
        del self.rfile
        self.wfile.progress = channels.ignore
        if self.successor is not None:
            self.keeps = False                               # no further request

    def _fail(self, request: framing.Request) -> None:
        try:
            if not request.sent_headers:
                request.simple_response('500 Internal Server Error')
            self.wfile.finish()
        except channels.Gone:
            self.wfile.drop()

    def discard(self) -> bool:
        """Discard received data of a refused client. Return False if the data has ended or exceeds the limit."""
        try:
            while (data := self.channel.receive(self.limits.piece)) is not None:
                self.discarded += len(data)
                if not data or self.discarded > self.limits.drain:
                    return False
        except OSError:
            return False
        return True

    def linger(self) -> None:
        """Close only the sending side, so that a client that still sends can read the response."""
        self.state, self.until = LINGERING, time.monotonic() + self.limits.linger_s
        self.channel.shut(socket.SHUT_WR)

    def close(self) -> None:
        self.abandon()
        self.wfile.drop()
        self.channel.sock.close()
