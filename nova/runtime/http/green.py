"""HTTP server with one green thread for each connection, and the limits of the native server.

A request is processed when it has arrived completely and the limits of its priority permit. A response that waits for
its client to read does not count in these limits.
"""
from collections.abc import Container
import contextlib
import logging
import socket
import ssl
import threading
import time

import eventlet
from eventlet import hubs

from nova.runtime import concurrency
from nova.runtime import log_limits
from nova.runtime.http import arrival
from nova.runtime.http import capacity as capacities
from nova.runtime.http import channel as channels
from nova.runtime.http import exchange
from nova.runtime.http import framing
from nova.runtime.http import limits as http_limits
from nova.runtime.http import priorities

LOG = logging.getLogger(__name__)

ACCEPT_CHECK_INTERVAL_S = 1                      # timeout of accept(), so that the loop regularly updates ``turned``
NO_DESCRIPTORS_S = 0.1


class _Channel(channels.Channel):
    def __init__(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        super().__init__(getattr(sock, 'fd', sock), tls)
        self._green = sock  # keep a reference: garbage collection of the object would close the socket

    def rest(self) -> None:
        eventlet.sleep(0)

    def wait(self, writing: bool, seconds: float) -> bool:
        try:
            hubs.trampoline(self.sock, read=not writing, write=writing, timeout=max(0.001, seconds))
        except eventlet.Timeout:
            return False
        return True


class Green:
    """Server with green threads; see native.Native."""

    def __init__(self, listener: socket.socket, facts: framing.Facts, limits: http_limits.Limits,
                 plan: priorities.Plan, capacity: capacities.Capacity[exchange.Connection],
                 trusted: Container[str]) -> None:
        self._listener, self._facts, self._limits, self._plan, self._capacity = listener, facts, limits, plan, capacity
        self.dispatcher = priorities.Dispatcher[exchange.Connection](plan, lambda conn: conn.turn.set(), trusted)
        self.turned = time.monotonic()
        self._conns: set[exchange.Connection] = set()
        self._ahead = threading.Lock()           # lock that connections with pipelined requests hold in turn
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._listener.settimeout(ACCEPT_CHECK_INTERVAL_S)
        self._thread = concurrency.spawn('http', self._run)

    def stop(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        self._stopping = True
        self._facts.ready = False
        last: list[tuple[socket.socket, exchange.Address]] = []
        self._listener.settimeout(0)
        while self._thread is not None and (found := self._next()) is not None:
            last.append(found)                   # without yielding: during a yield, clients could extend the queue
        self._listener.close()
        for found in last:
            self._take(*found)
        silent_until = min(deadline, time.monotonic() + self._limits.last_s)
        eventlet.sleep(0)                        # first let the threads read requests that have arrived
        while self._conns and time.monotonic() < deadline:
            for conn in list(self._conns):
                if conn.state == exchange.IDLE or (conn.state in (exchange.NEW, exchange.LINGERING)
                                                   and time.monotonic() > silent_until):
                    conn.channel.shut_reading()
            eventlet.sleep(0.01)
        done = not self._conns
        for conn in list(self._conns):
            conn.channel.shut()
        return done

    # ---- connections

    def _run(self) -> None:
        while not self._stopping:
            self.turned = time.monotonic()
            try:
                found = self._next()
                if found is not None:
                    self._take(*found)
            except Exception:
                LOG.exception('Cannot accept a connection')
                eventlet.sleep(NO_DESCRIPTORS_S)

    def _next(self) -> tuple[socket.socket, exchange.Address] | None:
        """Return (socket, address) of a new connection, or None if there is none or accept() failed."""
        try:
            return self._listener.accept()
        except (TimeoutError, BlockingIOError):
            return None
        except OSError as error:
            if not self._stopping:
                LOG.warning('Cannot accept a connection: %s', error.strerror)
                eventlet.sleep(NO_DESCRIPTORS_S)
            return None

    def _take(self, sock: socket.socket, peer: exchange.Address) -> None:
        conn = exchange.Connection(_Channel(sock, self._facts.tls), self._facts, self._limits, peer)
        conn.turn = threading.Event()
        refusal, victim = self._capacity.enter(conn)
        if victim is not None:
            victim.channel.shut()
        if refusal is not None:
            try:
                conn.channel.receive(self._limits.piece)     # a close with unread bytes would discard the response
                conn.channel.send(framing.refusal('503 Service Unavailable', refusal))
            except OSError:
                pass
            conn.close()
            return
        self._conns.add(conn)
        eventlet.spawn_n(self._serve, conn)

    def _serve(self, conn: exchange.Connection) -> None:
        try:
            while self._one(conn):
                self._give_way(conn)
        except (OSError, ValueError):
            pass                                 # the client has disconnected
        except Exception:
            log_limits.of_connection(conn.address)
            LOG.exception('The connection of %s failed', conn.address)
        finally:
            self._conns.discard(conn)
            self._capacity.leave(conn)
            if not conn.handed_over:
                conn.close()

    def _give_way(self, conn: exchange.Connection) -> None:
        """Yield before the connection's next request. Connections with pipelined requests take turns.

        A green thread runs until it waits, so a client that sends requests without a pause would block all others.
        """
        with self._ahead if conn.arrival.data else contextlib.nullcontext():
            eventlet.sleep(0)

    def _one(self, conn: exchange.Connection) -> bool:
        """Read a request and answer it; return whether another request may follow."""
        found, answer = self._whole(conn)
        if answer is not None:
            conn.wfile.write(answer)
            conn.keeps = conn.drained = False
        elif found is None:
            return False
        else:
            self._work(conn, found)
        if conn.wfile.size and not conn.wfile.flush():
            self._send(conn)
        if conn.successor is not None:
            conn.hand_over()
            return False
        if conn.keeps and not self._stopping and self._capacity.rests(conn):
            conn.state, conn.until = exchange.IDLE, time.monotonic() + self._limits.idle_s
            return True
        if not conn.drained:
            self._capacity.rests(conn)
            conn.linger()
            while conn.discard() and conn.channel.wait(False, conn.until - time.monotonic()):
                pass
        return False

    def _whole(self, conn: exchange.Connection) -> tuple[str | None, bytes | None]:
        """Receive a request. Return (WHOLE or LARGE, None), or (None, error response or None) if no request arrived."""
        while True:
            if conn.arrival.data:
                found = conn.look()
                if found == arrival.ENDLESS:
                    return None, exchange.too_long(conn)
                whole = found in (arrival.WHOLE, arrival.LARGE)
                if not whole or len(conn.arrival.data) > self._limits.free:
                    refusal, victim = self._capacity.arrives(conn, len(conn.arrival.data))
                    if victim is not None:
                        victim.channel.shut()
                    if refusal is not None:
                        return None, framing.refusal('503 Service Unavailable', refusal)
                if whole:
                    return found, None
            while (data := conn.channel.receive(self._limits.piece)) is None:
                left = conn.until - time.monotonic()
                if left <= 0:
                    return None, exchange.TOO_LATE if conn.state == exchange.ARRIVING else None
                conn.channel.wait(False, left)
            if not data:
                return None, exchange.BROKEN if conn.arrival.line is not None else None
            conn.arrival.data += data

    def _work(self, conn: exchange.Connection, found: str) -> None:
        conn.take(found, self._plan, self.dispatcher)
        self._capacity.begins(conn)
        conn.turn.clear()
        self.dispatcher.ask(conn.priority, conn)
        conn.turn.wait()
        try:
            conn.answer()
        finally:
            self.dispatcher.done(conn.priority, conn)

    def _send(self, conn: exchange.Connection) -> None:
        conn.state = exchange.ANSWERING
        conn.wfile.restart()
        for victim in self._capacity.answers(conn, conn.wfile.size):
            victim.channel.shut()
        while not conn.wfile.flush():
            conn.channel.wait(True, channels.RATE_CHECK_INTERVAL_S)
            if not conn.wfile.keeps_pace():
                raise channels.Gone('The client did not read the response.')
