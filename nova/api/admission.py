"""How many servers may wait to be built: more are refused with 503 and Retry-After instead of piling up.

A cloud builds so many servers a second. What is asked for beyond that waits, and what waits for too long is begun again
and again by who looks after lost tasks. A bound on the servers that wait keeps all of them younger than that.
"""
import logging
import threading
import time

from nova import exception
from nova.db import instances

LOG = logging.getLogger(__name__)

COUNT_EVERY = 64             # servers that a process accepts between two counts while few wait
LOOK_S = 0.5                 # between two counts while many wait
RETRY_S = 2, 30              # shortest and longest wait that a client is asked for


class Builds:
    """
    :param limit: servers that wait at most; 0: no bound
    """

    def __init__(self, limit, clock=time.monotonic):
        self._limit, self._clock = limit, clock
        self._lock = threading.Lock()
        self._waiting, self._accepted, self._counted_at = 0, 0, None
        self._rate = 0.0             # servers a second that were built between the last two counts

    def admit(self, cell, servers):
        """Let a request for so many servers pass.

        :param cell: db.cells.Cell in which new servers wait
        :raises TooManyBuilds: there are too many that wait already
        """
        if not self._limit:
            return
        with self._lock:
            if self._stale():
                self._count(cell)
            waiting = self._waiting + self._accepted
            if waiting < self._limit:
                self._accepted += servers
                return
        LOG.warning('A request for %d servers is refused: about %d wait to be built.', servers, waiting)
        low, high = RETRY_S
        wait = (waiting - self._limit * 0.9) / self._rate if self._rate > 0 else high
        raise exception.TooManyBuilds(retry_after=round(min(max(wait, low), high)))

    def _stale(self):
        if self._accepted >= min(COUNT_EVERY, self._limit):
            return True
        return self._waiting + self._accepted >= self._limit and (
            self._counted_at is None or self._clock() - self._counted_at > LOOK_S)

    def _count(self, cell):
        with cell.db.reader() as conn:
            waiting = instances.count_building(conn, self._limit * 2)
        now = self._clock()
        if self._counted_at is not None and now > self._counted_at:
            self._rate = max(0.0, self._waiting + self._accepted - waiting) / (now - self._counted_at)
        self._waiting, self._accepted, self._counted_at = waiting, 0, now
