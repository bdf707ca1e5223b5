"""Limit on servers waiting to be built: requests beyond the limit get 503 with Retry-After.

Without a limit, servers could wait so long that the reconciler takes them for lost and repeats their builds. Each
project may use three quarters of the limit. Servers above this share do not count towards the limit of all projects.
"""
import collections
import logging
import threading
import time
from collections.abc import Callable

from nova import exception
from nova.db.cells import cells as db_cells
from nova.db.servers import instances
from nova.runtime import queues

LOG = logging.getLogger(__name__)

COUNT_EVERY = 64             # accepted servers between two counts while the backlog is short
COUNT_INTERVAL_S = 0.5       # seconds between two counts while the backlog is long
RETRY_S = 2, 30              # minimum and maximum of Retry-After in seconds


class BuildAdmission:
    """Admission of new servers in one API process.

    :param limit: maximum number of servers that wait to be built; 0: unlimited
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._lock = threading.Lock()
        self._share = max(1, limit - limit // 4)             # limit of one project
        # Servers by project: waiting at the last count, and accepted since that count.
        self._waiting: collections.Counter[str] = collections.Counter()
        self._accepted: collections.Counter[str] = collections.Counter()
        self._counted_at: float | None = None
        self._counting = False
        self._rate = 0.0             # servers built per second between the last two counts
        queues.watch(queues.BUILDS, self, BuildAdmission._size)

    def admit(self, cells: db_cells.Cells, project_id: str, servers: int) -> None:
        """Admit a request for a number of servers.

        :param cells: all cells; a server waits in the default cell until it is scheduled, then in the cell of its host
        :raises TooManyBuilds: the limit of all projects or of this project is reached
        """
        if not self._limit:
            return
        with self._lock:
            count = not self._counting and self._stale(project_id)
            self._counting |= count
        if count:                    # one thread counts; others use the last count, because a cell may be slow
            try:
                self._count(cells)
            finally:
                self._counting = False
        with self._lock:
            excess = self._excess(project_id)
            if excess < 0:
                self._accepted[project_id] += servers
                return
            waiting = self._waiting + self._accepted
        LOG.warning('Refused a request for %d servers: about %d servers wait to be built, %d of them in its project.',
                    servers, waiting.total(), waiting[project_id])
        low, high = RETRY_S
        wait = (excess + self._limit * 0.1) / self._rate if self._rate > 0 else high
        raise exception.TooManyBuilds(retry_after=round(min(max(wait, low), high)))

    def _size(self) -> queues.Size:
        with self._lock:
            return queues.Size((self._waiting + self._accepted).total(), 0)

    def _excess(self, project_id: str) -> int:
        """Return how many servers exceed the limit of all projects or of this project; negative: there is room."""
        waiting = self._waiting + self._accepted
        counted = sum(min(number, self._share) for number in waiting.values())
        return max(counted - self._limit, waiting[project_id] - self._share)

    def _stale(self, project_id: str) -> bool:
        if self._accepted.total() >= min(COUNT_EVERY, self._limit):
            return True
        return self._excess(project_id) >= 0 and (
            self._counted_at is None or self._clock() - self._counted_at > COUNT_INTERVAL_S)

    def _count(self, cells: db_cells.Cells) -> None:
        with self._lock:
            before = self._accepted.copy()
        found, _down = cells.scatter(self._building)
        waiting: collections.Counter[str] = collections.Counter()
        for _cell, numbers in found:
            waiting.update(numbers)
        now = self._clock()
        with self._lock:
            if self._counted_at is not None and now > self._counted_at:
                fewer = (self._waiting + before).total() - waiting.total()
                self._rate = max(0.0, fewer) / (now - self._counted_at)
            self._waiting, self._counted_at = waiting, now
            self._accepted -= before                         # the subtraction also removes projects without servers

    def _building(self, cell: db_cells.Cell) -> dict[str, int]:
        with cell.db.reader() as conn:
            return instances.count_building(conn, self._limit * 2)
