"""Relay of console sessions: one non-blocking thread for all sessions of a process.

If much data for one side is buffered, the relay stops reading from the other side. A side that takes no data for
STALL_S seconds is disconnected. The library ``websockets`` implements the protocol without I/O.
"""
from __future__ import annotations

from collections.abc import Callable, Generator
import collections
import contextlib
import logging
import selectors
import socket
import struct
import threading
import time
from typing import NamedTuple, TYPE_CHECKING, TypeVarTuple

from websockets import exceptions as websocket_errors
from websockets import frames
from websockets import protocol as websocket_protocol

from nova.console import streams
from nova.runtime import concurrency

if TYPE_CHECKING:
    from websockets.server import ServerProtocol

    from nova.runtime.http.channel import Channel

LOG = logging.getLogger(__name__)

Arguments = TypeVarTuple('Arguments')

FRAME = 256 * 1024              # maximum bytes of a client's message, such as pasted text; larger ones end the session
MAX_BUFFERED = 256 * 1024       # if one side has this many buffered bytes, reading from the other side stops
STALL_S = 60                    # seconds without progress after which a side is disconnected
CHECK_INTERVAL_S = 1            # interval of timeout checks
CLOSE_TIMEOUT_S = 2             # seconds for a client to take the last frame
MAX_REASON = 123                # maximum bytes of the reason in a close frame: 125 (RFC 6455, 5.5) minus 2 of the code
GOING_AWAY, POLICY, INTERNAL = 1001, 1008, 1011
WRONG = (1002, 1007, 1009)      # close codes that the library sends after protocol violations


class Step(NamedTuple):
    """Next step of a handshake: send to both sides, then read bytes from one of them."""

    to_client: bytes = b''
    to_host: bytes = b''
    of_client: int = 0
    of_host: int = 0


# Generator of the handshake before relaying. It yields steps, receives the bytes that each step requested, and returns
# the last step, which requests none.
Greeting = Generator[Step, bytes, Step]
_DATA = (frames.Opcode.TEXT, frames.Opcode.BINARY, frames.Opcode.CONT)


class Session:
    """Console session of one client.

    :param protocol: WebSocket protocol in the state OPEN
    :param stream: connection to the hypervisor, already authenticated
    :param greeting: handshake with the client, or None if there is none
    :param ended: function(session, reason), called once
    :ivar until: time.monotonic() at which the session ends; None: unlimited
    """

    channel: Channel                             # after ``begin``

    def __init__(self, protocol: ServerProtocol, stream: streams.Stream, greeting: Greeting | None,
                 idle_s: float, ended: Callable[[Session, str], None], until: float | None = None) -> None:
        self.protocol, self.stream, self.until = protocol, stream, until
        self.begun = self.moved = time.monotonic()
        self.received = self.sent = 0            # bytes received from and sent to the client
        self._greeting, self._step = greeting, Step()
        self._said, self._host_said = b'', b''   # unprocessed bytes of client and hypervisor in the handshake
        self._idle_s, self._ended = idle_s, ended
        self._to_client: collections.deque[memoryview] = collections.deque()
        self._to_host = b''
        self._client_size = 0
        self._client_took = self._host_took = self.begun
        self.over = self._reported = False
        self.closing: float | None = None        # deadline for the last frame

    # ---- interface for the relay

    def begin(self, channel: Channel, data: bytes) -> None:
        """Start the session.

        :param data: bytes that the client has already sent
        """
        self.channel = channel
        self.stream.flow()
        self._advance()
        if data:
            self._heard(data)
        self.pump()
        if self.stream.has_more:
            self.host_can(selectors.EVENT_READ)

    def interest(self) -> tuple[int, int]:
        """Return (events to wait for on the client's socket, events to wait for on the hypervisor's socket)."""
        read, write = selectors.EVENT_READ, selectors.EVENT_WRITE
        # Do not read from a client that does not read, because responses to its pings would accumulate.
        client = (read if len(self._to_host) + len(self._said) < MAX_BUFFERED and self._client_size < MAX_BUFFERED
                  and self.closing is None else 0) | (write if self._client_size else 0)
        host = 0
        if self.closing is None:
            host = (read if self._client_size < MAX_BUFFERED and len(self._host_said) < MAX_BUFFERED else 0) | (
                write if self._to_host or self.stream.pending else 0)
        return client, host

    def client_can(self, events: int) -> None:
        if events & selectors.EVENT_READ and self.closing is None:
            data = self.channel.receive(streams.PIECE)
            if data == b'':
                self.end('the client ended the connection')
                return
            if data:
                self._heard(data)
        self.pump()

    def host_can(self, events: int) -> None:
        if events & selectors.EVENT_READ and self.closing is None:
            try:
                data = self.stream.receive()
            except OSError as error:
                self.finish(INTERNAL, f'the hypervisor broke the connection ({error})')
                return
            if data == b'':
                self.finish(GOING_AWAY, 'the guest ended the connection')
                return
            if data:
                self.moved = time.monotonic()
                self.sent += len(data)
                if self._greeting is None:
                    self.protocol.send_binary(data)
                else:
                    self._host_said += data
                    self._advance()
        self.pump()

    def look(self, now: float) -> None:
        """End the session if a timeout has expired."""
        if self.closing is not None:
            if now > self.closing or not self._client_size:
                self.end('')
        elif self.until is not None and now > self.until:
            self.finish(POLICY, 'session timeout')
        elif now > self.moved + self._idle_s:
            self.finish(POLICY, 'idle timeout')
        elif self._client_size and now > self._client_took + STALL_S:
            self.end('the client does not read')
        elif self._to_host and now > self._host_took + STALL_S:
            self.finish(INTERNAL, 'the guest does not read')

    def finish(self, code: int, reason: str) -> None:
        """Send the client a close frame with the reason, and end the session."""
        if self.closing is None and not self.over:
            self.closing = time.monotonic() + CLOSE_TIMEOUT_S
            self._report(reason)
            with contextlib.suppress(websocket_errors.InvalidState):
                self.protocol.send_close(code, reason.encode()[:MAX_REASON].decode(errors='ignore'))
            self.pump()

    def end(self, reason: str) -> None:
        """Close both sides."""
        if not self.over:
            self.over = True
            self.stream.close()
            self.channel.shut()
            self.channel.sock.close()
            self._report(reason)

    def pump(self) -> None:
        """Send buffered data without blocking."""
        for data in self.protocol.data_to_send():
            if data:
                self._to_client.append(memoryview(data))
                self._client_size += len(data)
            elif self.closing is None:           # empty data: the protocol sends nothing more
                self.closing = time.monotonic() + CLOSE_TIMEOUT_S
        now = time.monotonic()
        while self._to_client:
            piece = self._to_client[0]
            taken = self.channel.send(piece)
            if taken:
                self._client_took = now
                self._client_size -= taken
            if taken < len(piece):
                self._to_client[0] = piece[taken:]
                break
            self._to_client.popleft()
        if not self._to_client:
            self._client_took = now
            if self.closing is not None:
                self.end('the client closed it')
                return
        if self.closing is None:
            self._pump_host(now)

    def _pump_host(self, now: float) -> None:
        try:
            taken = self.stream.send(self._to_host) if self._to_host else 0
            self.stream.flush()
        except OSError as error:
            self.finish(INTERNAL, f'the hypervisor broke the connection ({error})')
            return
        if taken or not self._to_host:
            self._host_took = now
            self._to_host = self._to_host[taken:]

    # ---- implementation

    def _report(self, reason: str) -> None:
        if not self._reported:
            self._reported = True
            self._ended(self, reason)

    def _heard(self, data: bytes) -> None:
        """Process bytes of the client."""
        self.protocol.receive_data(data)
        for frame in self.protocol.events_received():
            if isinstance(frame, frames.Frame) and frame.opcode in _DATA and frame.data:
                self.moved = time.monotonic()
                self.received += len(frame.data)
                if self._greeting is None:
                    self._to_host += frame.data
                else:
                    self._said += frame.data
        is_open = self.protocol.state is websocket_protocol.OPEN
        if self._greeting is not None and is_open:
            self._advance()
        if not is_open:
            self._pump_host(self.moved)          # forward data that the client sent before it closed
        if not is_open and self.closing is None:
            self.closing = time.monotonic() + CLOSE_TIMEOUT_S
            sent = self.protocol.close_sent
            self._report('the client closed it' if sent is None or sent.code not in WRONG else
                         f'the client violated the protocol ({sent.code})')

    def _advance(self) -> None:
        """Continue the handshake; relay the data that follows."""
        try:
            while self._greeting is not None and len(self._said) >= self._step.of_client and len(
                    self._host_said) >= self._step.of_host:
                client, host = self._step.of_client, self._step.of_host
                said = self._said[:client] or self._host_said[:host]
                self._said, self._host_said = self._said[client:], self._host_said[host:]
                self._step = self._greeting.send(said) if client or host else next(self._greeting)
                self._say(self._step)
        except StopIteration as last:
            self._greeting = None
            self._say(last.value)
            self._say(Step(self._host_said, self._said))
            self._said = self._host_said = b''
        except (ValueError, struct.error) as error:
            self.finish(POLICY, f'unexpected handshake: {error}')

    def _say(self, step: Step) -> None:
        if step.to_client:
            self.protocol.send_binary(step.to_client)
        self._to_host += step.to_host


class Relay:
    """All sessions of a process; implements nova.runtime.service.Part."""

    def __init__(self) -> None:
        self._selector: selectors.BaseSelector
        self._new: collections.deque[tuple[Session, Channel, bytes]] = collections.deque()
        self._orders: collections.deque[tuple[Session, int, str]] = collections.deque()
        self._sessions: set[Session] = set()
        self._watched: dict[tuple[Session, bool], tuple[int, int]] = {}      # (session, is_host): (descriptor, events)
        self._bell, self._ringer = socket.socketpair()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.turned = time.monotonic()

    def start(self) -> None:
        self._bell.setblocking(False)
        self._selector = selectors.DefaultSelector()     # epoll, or the selector of eventlet
        self._selector.register(self._bell.fileno(), selectors.EVENT_READ, None)
        self._thread = concurrency.spawn('consoles', self._run)

    def stop(self, timeout: float = 0) -> None:
        """End all sessions; clients reconnect to another process."""
        self._stopping.set()
        if self._thread is not None:
            self._ring()
            concurrency.join(self._thread, max(timeout, CLOSE_TIMEOUT_S + CHECK_INTERVAL_S))

    def take(self, session: Session, channel: Channel, data: bytes) -> None:
        """Start a session."""
        self._new.append((session, channel, data))
        self._ring()

    def end(self, session: Session, reason: str, code: int = POLICY) -> None:
        """End a session, and send its client the reason.

        :param code: GOING_AWAY: the client may reconnect
        """
        self._orders.append((session, code, reason))
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            self._ringer.send(b'.')

    # ---- relay thread

    def _run(self) -> None:
        looked = 0.0
        while not self._stopping.is_set():
            try:
                self._turn()
                now = time.monotonic()
                if now > looked + CHECK_INTERVAL_S:
                    looked = now
                    for session in list(self._sessions):
                        self._safely(session, session.look, now)
            except Exception:                            # without this thread no console would work
                LOG.exception('Error in the console relay; continuing')
                time.sleep(0.1)
        for session in list(self._sessions):
            self._safely(session, session.finish, GOING_AWAY, 'the proxy stops')
            self._safely(session, session.end, 'the proxy stops')
        for session, channel, _data in self._new:
            session.channel = channel
            session.end('the proxy stops')
        self._selector.close()
        self._bell.close()
        self._ringer.close()

    def _turn(self) -> None:
        self.turned = time.monotonic()
        for key, events in self._selector.select(CHECK_INTERVAL_S):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._bell.recv(4096)
                continue
            session, of_host = key.data
            if not session.over:
                self._safely(session, session.host_can if of_host else session.client_can, events)
        while self._new:
            session, channel, data = self._new.popleft()
            self._sessions.add(session)
            self._safely(session, session.begin, channel, data)
        while self._orders:
            session, code, reason = self._orders.popleft()
            if session in self._sessions:
                self._safely(session, session.finish, code, reason)

    def _safely(self, session: Session, function: Callable[[*Arguments], None], *args: *Arguments) -> None:
        """Call a function of a session; an error ends only this session."""
        try:
            function(*args)
        except OSError as error:
            session.end(f'the connection broke ({error.strerror or error})')
        except Exception:
            LOG.exception('A console session failed')
            session.end('internal error of the proxy')
        self._watch(session)

    def _watch(self, session: Session) -> None:
        if session.over:
            self._sessions.discard(session)
            for of_host in (False, True):
                known = self._watched.pop((session, of_host), None)
                if known is not None:
                    with contextlib.suppress(KeyError, ValueError, OSError):
                        self._selector.unregister(known[0])
            return
        for side, events in enumerate(session.interest()):
            of_host = bool(side)
            place, sock = (session, of_host), session.stream.sock if of_host else session.channel.sock
            known = self._watched.get(place)
            if known is None and events:
                self._watched[place] = sock.fileno(), events
                self._selector.register(sock.fileno(), events, place)
            elif known is not None and not events:
                del self._watched[place]
                self._selector.unregister(known[0])
            elif known is not None and known[1] != events:
                self._watched[place] = known[0], events
                self._selector.modify(known[0], events, place)
