"""HTTP server with native threads: an event loop reads requests and sends unsent data; workers process requests.

A connection belongs to one thread at a time: to the loop until a request is complete, to a worker until the response is
written, then to the loop again. epoll reports a connection once after each arming (EPOLLONESHOT), so that the loop gets
no events of the workers' connections.
"""
import collections
from collections.abc import Callable, Container
import errno
import logging
import os
import queue
import select
import socket
import threading
import time
from typing import TypeVarTuple

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

Arguments = TypeVarTuple('Arguments')

READ, WRITE = select.EPOLLIN | select.EPOLLONESHOT, select.EPOLLOUT | select.EPOLLONESHOT
ACCEPTED = 64                   # maximum connections accepted before other events are handled
BACKLOG = 1024                  # maximum pending connections of the listening socket
NO_DESCRIPTORS_S = 0.1          # pause of the listener when the process has no descriptors left


class Native:
    """Server with native threads."""

    def __init__(self, listener: socket.socket, facts: framing.Facts, limits: http_limits.Limits,
                 plan: priorities.Plan, capacity: capacities.Capacity[exchange.Connection],
                 trusted: Container[str]) -> None:
        self._listener, self._facts, self._limits, self._plan, self._capacity = listener, facts, limits, plan, capacity
        self.dispatcher = priorities.Dispatcher(plan, self._begin, trusted)
        self.turned = time.monotonic()
        self._epoll = select.epoll()
        self._conns: dict[int, exchange.Connection] = {}             # {descriptor: connection}; only the loop uses it
        self._ready: queue.SimpleQueue[exchange.Connection | None] = queue.SimpleQueue()  # connections for workers
        self._back: collections.deque[exchange.Connection] = collections.deque()  # connections from workers
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._handing = threading.Lock()             # held while a connection is closed or returned to the loop
        self._workers: list[threading.Thread] = []
        self._ending: tuple[float, float] | None = None         # (begin, deadline) of a requested stop
        self._swept: float = 0
        self._accepts_at: float | None = None        # end of a pause of the listener; None: it accepts connections
        self._thread: threading.Thread | None = None
        self.finished = threading.Event()            # set if all requests ended before the deadline

    def start(self) -> None:
        self._listener.setblocking(False)
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._epoll.register(self._wakeup, select.EPOLLIN)
        self._thread = concurrency.spawn('http', self._run)

    def stop(self, timeout: float) -> bool:
        """Take no new connections, finish open requests; return whether they ended within ``timeout`` s."""
        if self._thread is None:
            self._listener.close()
            self._epoll.close()
            os.close(self._wakeup)
            return True
        now = time.monotonic()
        self._ending = now, now + timeout
        self._wake_loop()
        concurrency.join(self._thread, timeout + 1)
        return self.finished.is_set()

    # ---- the loop

    def _run(self) -> None:
        while not self._ended():
            try:
                self._turn()
            except Exception:                        # continue, because this loop serves all requests
                LOG.exception('The HTTP server continues after an error')
                time.sleep(NO_DESCRIPTORS_S)
        self._close_all()

    def _turn(self) -> None:
        wait_s = self._limits.sweep_s if self._ending is None else 0.05
        events = self._epoll.poll(wait_s if self._accepts_at is None else min(wait_s, NO_DESCRIPTORS_S))
        self.turned = time.monotonic()
        if self._accepts_at is not None and self.turned >= self._accepts_at and self._listener.fileno() >= 0:
            self._accepts_at = None
            self._epoll.modify(self._listener.fileno(), select.EPOLLIN)
        for number, what in events:
            if number == self._listener.fileno():
                self._accept()
            elif number == self._wakeup:
                self._take_back()
            elif (conn := self._conns.get(number)) is not None:
                self._call_isolated(self._happens, conn, what)
        if self.turned - self._swept > self._limits.sweep_s:
            self._swept = self.turned
            self._sweep()
            self._add_workers()

    def _call_isolated(self, function: Callable[[exchange.Connection, *Arguments], None], conn: exchange.Connection,
                       *args: *Arguments) -> None:
        """Run a function for one connection; its errors must not affect other connections."""
        try:
            function(conn, *args)
        except (OSError, ValueError):
            self._close(conn)
        except Exception:
            log_limits.of_connection(conn.address)
            LOG.exception('The connection of %s failed', conn.address)
            self._close(conn)

    def _accept(self, most: int = ACCEPTED) -> None:
        for _ in range(most):
            try:
                sock, peer = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    LOG.warning('Cannot accept a connection: %s', error.strerror)
                    self._accepts_at = time.monotonic() + NO_DESCRIPTORS_S
                    self._epoll.modify(self._listener.fileno(), 0)
                    return
                continue                             # an error of this connection only
            conn = exchange.Connection(channels.Channel(sock, self._facts.tls), self._facts, self._limits, peer)
            with self._handing:
                refusal, victim = self._capacity.enter(conn)
                if victim is not None:
                    self._drop(victim)
            if refusal is not None:
                self._call_isolated(self._reject, conn, framing.refusal('503 Service Unavailable', refusal))
                conn.close()
                continue
            self._conns[sock.fileno()] = conn
            self._epoll.register(sock.fileno(), READ)

    @staticmethod
    def _reject(conn: exchange.Connection, answer: bytes) -> None:
        conn.channel.receive(conn.limits.piece)      # a close with unread bytes would discard the response
        conn.channel.send(answer)

    def _happens(self, conn: exchange.Connection, what: int) -> None:
        if conn.state == exchange.ANSWERING:
            self._send(conn)
        elif conn.state == exchange.LINGERING:
            if conn.discard():
                self._epoll.modify(conn.channel.sock.fileno(), READ)
            else:
                self._close(conn)
        else:
            self._receive(conn)

    def _receive(self, conn: exchange.Connection) -> None:
        data = conn.channel.receive(self._limits.piece)
        if data:
            conn.arrival.data += data
            self._consider(conn)
        elif data is None:
            self._epoll.modify(conn.channel.sock.fileno(), READ)
        elif conn.arrival.line is not None:
            self._refuse(conn, exchange.BROKEN)
        else:
            self._close(conn)

    def _consider(self, conn: exchange.Connection) -> None:
        found = conn.look()
        if found == arrival.ENDLESS:
            self._refuse(conn, exchange.too_long(conn))
            return
        whole = found in (arrival.WHOLE, arrival.LARGE)
        if not whole or len(conn.arrival.data) > self._limits.free:
            with self._handing:
                refusal, victim = self._capacity.arrives(conn, len(conn.arrival.data))
                if victim is not None:
                    self._drop(victim)
            if refusal is not None:
                self._refuse(conn, framing.refusal('503 Service Unavailable', refusal))
                return
        if not whole:
            self._epoll.modify(conn.channel.sock.fileno(), READ)
            return
        conn.take(found, self._plan, self.dispatcher)
        self._capacity.begins(conn)
        self.dispatcher.ask(conn.priority, conn)

    def _refuse(self, conn: exchange.Connection, answer: bytes) -> None:
        conn.wfile.write(answer)
        conn.keeps = conn.drained = False
        self._answered(conn)

    def _answered(self, conn: exchange.Connection) -> None:
        """Continue in the loop after a worker has written the response; the loop sends the unsent rest."""
        if self._ending is not None:
            conn.keeps = False
        if conn.wfile.size and not conn.wfile.flush():
            conn.state = exchange.ANSWERING
            conn.wfile.restart()
            with self._handing:
                for victim in self._capacity.answers(conn, conn.wfile.size):
                    self._drop(victim)
            self._epoll.modify(conn.channel.sock.fileno(), WRITE)
        elif conn.successor is not None:
            self._hand_over(conn)
        elif conn.keeps:
            conn.state, conn.until = exchange.IDLE, time.monotonic() + self._limits.idle_s
            if not self._capacity.rests(conn):
                self._close(conn)
            elif conn.arrival.data:
                self._consider(conn)
            else:
                self._epoll.modify(conn.channel.sock.fileno(), READ)
        elif conn.drained:
            self._close(conn)
        else:
            self._capacity.rests(conn)
            conn.linger()
            self._epoll.modify(conn.channel.sock.fileno(), READ)

    def _send(self, conn: exchange.Connection) -> None:
        if conn.wfile.flush():
            self._answered(conn)
        else:
            self._epoll.modify(conn.channel.sock.fileno(), WRITE)

    def _sweep(self) -> None:
        for conn in list(self._conns.values()):
            if conn.state == exchange.WORKING:
                continue
            if conn.state == exchange.ANSWERING:
                if not conn.wfile.keeps_pace():
                    self._close(conn)
            elif conn.until < self.turned:
                if conn.state == exchange.ARRIVING:
                    self._call_isolated(self._refuse, conn, exchange.TOO_LATE)
                    continue
                with self._handing:                  # a worker may concurrently return the connection
                    if conn.until < self.turned:
                        self._drop(conn)

    def _take_back(self) -> None:
        os.eventfd_read(self._wakeup)
        while self._back:
            self._call_isolated(self._answered, self._back.popleft())

    def _hand_over(self, conn: exchange.Connection) -> None:
        number = conn.channel.sock.fileno()
        with self._handing:
            if self._conns.pop(number, None) is not conn:
                return                               # the connection is closed
            self._epoll.unregister(number)
            self._capacity.leave(conn)
        conn.hand_over()

    def _close(self, conn: exchange.Connection) -> None:
        with self._handing:
            self._drop(conn)

    def _drop(self, conn: exchange.Connection) -> None:
        """Close a connection. The caller holds ``_handing``."""
        number = conn.channel.sock.fileno()
        if self._conns.get(number) is conn:
            del self._conns[number]
        self._capacity.leave(conn)
        conn.close()

    # ---- the workers

    def _begin(self, conn: exchange.Connection) -> None:
        """Start a job. The caller, a priorities.Dispatcher, holds the dispatcher's lock."""
        self._ready.put(conn)
        self._add_workers()

    def _add_workers(self) -> None:
        """Start threads for all jobs. During a shortage of threads, jobs wait for a worker or the next sweep."""
        try:
            while self.dispatcher.threads > len(self._workers):
                self._workers.append(concurrency.spawn(f'http-{len(self._workers)}', self._work))
        except RuntimeError as error:
            LOG.debug('Cannot start a thread of the HTTP server: %s', error)

    def _work(self) -> None:
        while (conn := self._ready.get()) is not None:
            try:
                conn.answer()
            except Exception:                        # continue, because no thread would replace this one
                log_limits.of_connection(conn.address)
                LOG.exception('The connection of %s failed', conn.address)
                conn.keeps, conn.drained = False, True
            self.dispatcher.done(conn.priority, conn)
            self._hand_back(conn)

    def _hand_back(self, conn: exchange.Connection) -> None:
        if conn.keeps and not conn.wfile.size and not conn.arrival.data and self._ending is None:
            with self._handing:
                conn.state, conn.until = exchange.IDLE, time.monotonic() + self._limits.idle_s
                if self._capacity.rests(conn):
                    self._epoll.modify(conn.channel.sock.fileno(), READ)
                    return
        self._back.append(conn)
        self._wake_loop()

    def _wake_loop(self) -> None:
        with self._handing:                          # the loop's end closes the descriptor under this lock
            try:
                os.eventfd_write(self._wakeup, 1)
            except (OSError, ValueError):            # the loop has ended
                while self._back:
                    self._back.popleft().close()

    # ---- the end

    def _ended(self) -> bool:
        """Return whether a stop was requested, and all requests have ended or the deadline has passed."""
        if self._ending is None:
            return False
        begun, until = self._ending
        self._facts.ready = False
        if self._listener.fileno() >= 0:
            self._accept_last()
            if self._conns:
                return False                         # not yet: first read the requests of the accepted connections
        now = time.monotonic()
        silent = False
        for conn in list(self._conns.values()):
            if conn.state == exchange.IDLE:
                self._close(conn)
            elif conn.state == exchange.NEW:
                silent = True
            elif conn.state == exchange.LINGERING and now > begun + self._limits.last_s:
                self._close(conn)
        patient = silent and now < begun + self._limits.last_s
        if not patient and all(conn.state == exchange.NEW for conn in self._conns.values()):
            self.finished.set()
            return True
        return now > until

    def _accept_last(self) -> None:
        """Accept all queued connections, then close the listening socket: the kernel would reset queued connections."""
        self._accept(2 * BACKLOG)
        self._epoll.unregister(self._listener.fileno())
        self._listener.close()

    def _close_all(self) -> None:
        for conn in list(self._conns.values()):
            if conn.state == exchange.WORKING:
                conn.channel.shut()                  # the worker closes the connection
            else:
                self._close(conn)
        for _ in self._workers:
            self._ready.put(None)
        self._epoll.close()
        with self._handing:
            wakeup, self._wakeup = self._wakeup, -1
            os.close(wakeup)
            while self._back:                        # handed back after the loop's last look
                self._back.popleft().close()
