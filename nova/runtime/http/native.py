"""Native threads: one loop reads requests and sends the rests of answers for all connections; workers do the rest.

A connection belongs to one thread at a time. The loop has it until a request is whole, then a worker until the answer
is written, then the loop again. The kernel reports a connection once, and again only after it is armed again, so that
the loop hears nothing of those that workers have.
"""
from __future__ import annotations

import collections
from collections.abc import Callable
import errno
import logging
import os
import queue
import select
import threading
import time
from typing import Any

from nova.runtime import concurrency
from nova.runtime import log_limits
from nova.runtime.http import arrival
from nova.runtime.http import channel as channels
from nova.runtime.http import exchange
from nova.runtime.http import framing
from nova.runtime.http import priorities

LOG = logging.getLogger(__name__)

READ, WRITE = select.EPOLLIN | select.EPOLLONESHOT, select.EPOLLOUT | select.EPOLLONESHOT
ACCEPTED = 64                   # connections that are taken in before the others are looked after again
BACKLOG = 1024                  # connections that the system holds until they are taken in
NO_DESCRIPTORS_S = 0.1          # the listener is left alone so long when the process has no more


class Native:
    """
    :param listener: a listening socket
    :param facts: framing.Facts
    """

    def __init__(self, listener: Any, facts: Any, limits: Any, plan: Any, room: Any, trusted: Any) -> None:
        self._listener, self._facts, self._limits, self._plan, self._room = listener, facts, limits, plan, room
        self.dispatcher = priorities.Dispatcher(plan, self._begin, trusted)
        self.turned = time.monotonic()
        self._epoll = select.epoll()
        self._conns: dict[Any, Any] = {}                             # {descriptor: connection}; the loop's alone
        self._ready: queue.SimpleQueue[Any] = queue.SimpleQueue()            # for the workers
        self._back: collections.deque[Any] = collections.deque()             # from the workers
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._handing = threading.Lock()             # a kept connection goes back to the loop, or is closed by it
        self._workers: list[Any] = []
        self._ending = None                          # (when it began, until when); a stop was requested
        self._swept: float = 0
        self._thread = None
        self.finished = threading.Event()            # everything had ended in time

    def start(self) -> None:
        self._listener.setblocking(False)
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._epoll.register(self._bell, select.EPOLLIN)
        self._thread = concurrency.spawn('http', self._run)

    def stop(self, timeout: Any) -> Any:
        """Take no new connection, finish open requests; whether that ended within ``timeout`` s."""
        if self._thread is None:
            self._listener.close()
            self._epoll.close()
            os.close(self._bell)
            return True
        now = time.monotonic()
        self._ending = now, now + timeout
        self._ring()
        concurrency.join(self._thread, timeout + 1)
        return self.finished.is_set()

    # ---- the loop

    def _run(self) -> None:
        while not self._ended():
            try:
                self._turn()
            except Exception:                        # without the loop no request would be answered
                LOG.exception('The HTTP server goes on after an error')
                time.sleep(NO_DESCRIPTORS_S)
        self._close_all()

    def _turn(self) -> None:
        events = self._epoll.poll(self._limits.sweep_s if self._ending is None else 0.05)
        self.turned = time.monotonic()
        for number, what in events:
            if self._listener is not None and number == self._listener.fileno():
                self._accept()
            elif number == self._bell:
                self._hear()
            elif (conn := self._conns.get(number)) is not None:
                self._safely(self._happens, conn, what)
        if self.turned - self._swept > self._limits.sweep_s:
            self._swept = self.turned
            self._sweep()

    def _safely(self, function: Callable[..., Any], conn: Any, *args: Any) -> None:
        """What goes wrong with one connection is no other one's matter."""
        try:
            function(conn, *args)
        except (OSError, ValueError):
            self._close(conn)
        except Exception:
            log_limits.of_connection(conn.address)
            LOG.exception('The connection of %s failed', conn.address)
            self._close(conn)

    def _accept(self, most: Any = ACCEPTED) -> None:
        for _ in range(most):
            try:
                sock, peer = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    LOG.warning('A connection cannot be taken: %s', error.strerror)
                    time.sleep(NO_DESCRIPTORS_S)
                    return
                continue                             # of this connection alone
            conn = exchange.Connection(channels.Channel(sock, self._facts.tls), self._facts, self._limits, peer)
            with self._handing:
                refusal, victim = self._room.enter(conn)
                if victim is not None:
                    self._drop(victim)
            if refusal is not None:
                self._safely(self._turn_away, conn, framing.refusal('503 Service Unavailable', refusal))
                conn.close()
                continue
            self._conns[sock.fileno()] = conn
            self._epoll.register(sock.fileno(), READ)

    @staticmethod
    def _turn_away(conn: Any, answer: Any) -> None:
        conn.channel.receive(conn.limits.piece)      # unread bytes would reset the connection, and lose the answer
        conn.channel.send(answer)

    def _happens(self, conn: Any, what: Any) -> None:
        if conn.state == exchange.ANSWERING:
            self._send(conn)
        elif conn.state == exchange.LINGERING:
            if conn.discard():
                self._epoll.modify(conn.channel.sock.fileno(), READ)
            else:
                self._close(conn)
        else:
            self._receive(conn)

    def _receive(self, conn: Any) -> None:
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

    def _consider(self, conn: Any) -> None:
        found = conn.look()
        if found == arrival.ENDLESS:
            self._refuse(conn, exchange.too_long(conn))
            return
        whole = found in (arrival.WHOLE, arrival.LARGE)
        if not whole or len(conn.arrival.data) > self._limits.free:
            with self._handing:
                refusal, victim = self._room.arrives(conn, len(conn.arrival.data))
                if victim is not None:
                    self._drop(victim)
            if refusal is not None:
                self._refuse(conn, framing.refusal('503 Service Unavailable', refusal))
                return
        if not whole:
            self._epoll.modify(conn.channel.sock.fileno(), READ)
            return
        conn.take(found, self._plan, self.dispatcher)
        self._room.begins(conn)
        self.dispatcher.ask(conn.priority, conn)

    def _refuse(self, conn: Any, answer: Any) -> None:
        conn.wfile.write(answer)
        conn.keeps = conn.drained = False
        self._answered(conn)

    def _answered(self, conn: Any) -> None:
        """The answer is written, though perhaps not sent; in the loop."""
        if self._ending is not None:
            conn.keeps = False
        if conn.wfile.size and not conn.wfile.flush():
            conn.state = exchange.ANSWERING
            conn.wfile.restart()
            with self._handing:
                for victim in self._room.answers(conn, conn.wfile.size):
                    self._drop(victim)
            self._epoll.modify(conn.channel.sock.fileno(), WRITE)
        elif conn.successor is not None:
            self._hand_over(conn)
        elif conn.keeps:
            conn.state, conn.until = exchange.IDLE, time.monotonic() + self._limits.idle_s
            if not self._room.rests(conn):
                self._close(conn)
            elif conn.arrival.data:
                self._consider(conn)
            else:
                self._epoll.modify(conn.channel.sock.fileno(), READ)
        elif conn.drained:
            self._close(conn)
        else:
            self._room.rests(conn)
            conn.linger()
            self._epoll.modify(conn.channel.sock.fileno(), READ)

    def _send(self, conn: Any) -> None:
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
                    self._safely(self._refuse, conn, exchange.TOO_LATE)
                    continue
                with self._handing:                  # a worker may be handing it back in this moment
                    if conn.until < self.turned:
                        self._drop(conn)

    def _hear(self) -> None:
        os.eventfd_read(self._bell)
        while self._back:
            self._safely(self._answered, self._back.popleft())

    def _hand_over(self, conn: Any) -> None:
        number = conn.channel.sock.fileno()
        with self._handing:
            if self._conns.pop(number, None) is not conn:
                return                               # it is closed
            self._epoll.unregister(number)
            self._room.leave(conn)
        conn.hand_over()

    def _close(self, conn: Any) -> None:
        with self._handing:
            self._drop(conn)

    def _drop(self, conn: Any) -> None:
        """Close it; ``_handing`` is held."""
        number = conn.channel.sock.fileno()
        if self._conns.get(number) is conn:
            del self._conns[number]
        self._room.leave(conn)
        conn.close()

    # ---- the workers

    def _begin(self, conn: Any) -> None:
        """See priorities.Dispatcher: under its lock."""
        if self.dispatcher.threads > len(self._workers):
            self._workers.append(concurrency.spawn(f'http-{len(self._workers)}', self._work))
        self._ready.put(conn)

    def _work(self) -> None:
        while (conn := self._ready.get()) is not None:
            try:
                conn.answer()
            except Exception:                        # a thread that ended here would be missed for ever
                log_limits.of_connection(conn.address)
                LOG.exception('The connection of %s failed', conn.address)
                conn.keeps, conn.drained = False, True
            self.dispatcher.done(conn.priority, conn)
            self._hand_back(conn)

    def _hand_back(self, conn: Any) -> None:
        if conn.keeps and not conn.wfile.size and not conn.arrival.data and self._ending is None:
            with self._handing:
                conn.state, conn.until = exchange.IDLE, time.monotonic() + self._limits.idle_s
                if self._room.rests(conn):
                    self._epoll.modify(conn.channel.sock.fileno(), READ)
                    return
        self._back.append(conn)
        self._ring()

    def _ring(self) -> None:
        try:
            os.eventfd_write(self._bell, 1)
        except (OSError, ValueError):                # the loop has ended
            while self._back:
                self._back.popleft().close()

    # ---- the end

    def _ended(self) -> bool:
        """Whether a stop was requested and everything is done, or its time is over."""
        if self._ending is None:
            return False
        begun, until = self._ending
        self._facts.ready = False
        if self._listener is not None:
            self._accept_last()
            return False                             # what they say is read first
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
        """Those in the queue of the listening socket, which is closed: the system would break them off."""
        self._accept(2 * BACKLOG)
        listener, self._listener = self._listener, None
        self._epoll.unregister(listener.fileno())
        listener.close()

    def _close_all(self) -> None:
        for conn in list(self._conns.values()):
            if conn.state == exchange.WORKING:
                conn.channel.shut()                  # its worker closes it
            else:
                self._close(conn)
        for _ in self._workers:
            self._ready.put(None)
        self._epoll.close()
        with self._handing:
            bell, self._bell = self._bell, -1
            os.close(bell)
