"""Limits of connections and bytes, in total and for each client, and eviction at a limit.

Idle connections are closed before any client is refused. Next, the request that has been arriving for the longest time
is evicted, because requests of honest clients arrive quickly. A request that is being processed is never evicted.
"""
import collections
from collections.abc import Container, Iterable
import threading
import time
from typing import Generic, TypeVar

from nova.runtime.http import addresses
from nova.runtime.http import limits as http_limits

Connection = TypeVar('Connection', bound=addresses.Peer)

FULL = 'The server has no room for another connection.'
FULL_OF_YOU = 'There are too many connections from this address.'
BODIES = 'The server has no room for this body now.'


class Capacity(Generic[Connection]):
    """Connections and buffered bytes of the server.

    :param trusted: addresses of trusted proxies, which have many clients
    :param connections: maximum number of connections
    """

    def __init__(self, limits: http_limits.Limits, trusted: Container[str], connections: int) -> None:
        self._limits, self._trusted, self._most = limits, trusted, connections
        self._lock = threading.Lock()
        self._all: set[Connection] = set()
        self._of: dict[str, set[Connection]] = {}                # {client: connections}
        # connections without a request, longest idle first
        self._idle: collections.OrderedDict[Connection, bool] = collections.OrderedDict()
        # {connection: start time} of incomplete requests, oldest first
        self._arriving: collections.OrderedDict[Connection, float] = collections.OrderedDict()
        # {connection: counted bytes of its request}, until the response
        self._bytes: dict[Connection, int] = {}
        # {connection: pending bytes of its response}, oldest first
        self._answers: collections.OrderedDict[Connection, int] = collections.OrderedDict()
        self._bodies = self._answered = 0

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, conn: Connection) -> tuple[str | None, Connection | None]:
        """Register a new connection.

        :returns: (reason of a refusal, or None; a connection to evict, or None)
        """
        with self._lock:
            victim: Connection | None = None
            refusal: str | None = None
            same = self._of.get(conn.client, ())
            if len(same) >= self._limits.per_address and conn.address not in self._trusted:
                victim = next((other for other in same if other in self._idle), None)
                refusal = FULL_OF_YOU if victim is None else None
            elif len(self._all) >= self._most:
                victim = next(iter(self._idle), None) or self._spare()
                refusal = FULL if victim is None else None
            if refusal is None:
                self._all.add(conn)
                self._of.setdefault(conn.client, set()).add(conn)
                self._arriving[conn] = time.monotonic()
            if victim is not None:
                self._forget(victim)
            return refusal, victim

    def leave(self, conn: Connection) -> None:
        """Remove a closed or closing connection."""
        with self._lock:
            self._forget(conn)

    def arrives(self, conn: Connection, size: int) -> tuple[str | None, Connection | None]:
        """Count the bytes of a request that is not being processed.

        :param size: total of its received bytes
        :returns: as ``enter``
        """
        with self._lock:
            self._idle.pop(conn, None)
            self._remove_answer(conn)
            if conn not in self._all:
                return None, None
            self._arriving.setdefault(conn, time.monotonic())
            counted = max(0, size - self._limits.free)
            if not counted:
                return None, None
            self._bodies += counted - self._bytes.get(conn, 0)
            self._bytes[conn] = counted
            among: Iterable[Connection] = self._arriving if self._bodies > self._limits.bodies else ()
            if conn.address not in self._trusted:
                same = [other for other in self._of[conn.client] if other in self._bytes]
                if sum(self._bytes[other] for other in same) > self._limits.bodies_per_address:
                    among = sorted((other for other in same if other in self._arriving), key=self._arriving.__getitem__)
            victim = next((other for other in among if other in self._bytes), None)
            if victim is not None:
                self._forget(victim)
            return (BODIES, None) if victim is conn else (None, victim)

    def begins(self, conn: Connection) -> None:
        """Protect a request from eviction, because its processing begins."""
        with self._lock:
            self._idle.pop(conn, None)
            self._arriving.pop(conn, None)

    def answers(self, conn: Connection, size: int) -> list[Connection]:
        """Count a response that the client has not read completely.

        :param size: its bytes
        :returns: connections to evict
        """
        with self._lock:
            self._remove_answer(conn)
            self._remove_bytes(conn)
            if conn not in self._all:            # evicted: it is closed after this response
                return []
            self._answers[conn] = size
            self._answered += size
            victims = []
            while self._answered > self._limits.answers and len(self._answers) > 1:
                victims.append(next(iter(self._answers)))
                self._forget(victims[-1])
            return victims

    def rests(self, conn: Connection) -> bool:
        """Record that a connection is idle; return False if it was evicted."""
        with self._lock:
            self._remove_answer(conn)
            self._remove_bytes(conn)
            if conn in self._all:
                self._idle[conn] = True
            return conn in self._all

    def unfinished(self) -> int:
        """Return the number of incomplete requests, new connections included."""
        return len(self._arriving)

    def _spare(self) -> Connection | None:
        """Return the connection of the oldest incomplete request if it is older than limits.spare_s."""
        conn, since = next(iter(self._arriving.items()), (None, 0))
        return conn if conn is not None and time.monotonic() - since > self._limits.spare_s else None

    def _forget(self, conn: Connection) -> None:
        if conn not in self._all:
            return
        self._all.discard(conn)
        same = self._of[conn.client]
        same.discard(conn)
        if not same:
            del self._of[conn.client]
        self._idle.pop(conn, None)
        self._arriving.pop(conn, None)
        self._remove_bytes(conn)
        self._remove_answer(conn)

    def _remove_bytes(self, conn: Connection) -> None:
        self._bodies -= self._bytes.pop(conn, 0)

    def _remove_answer(self, conn: Connection) -> None:
        self._answered -= self._answers.pop(conn, 0)
