"""How many servers may wait to be built: more are refused with 503 and Retry-After instead of piling up.

A cloud builds so many servers a second. Requests beyond that wait, and what waits for too long is begun again
and again by who looks after lost tasks. A bound on the servers that wait keeps all of them younger than that.

One project may have three quarters of the bound. What a single request has beyond that does not count against others.
"""
import collections
import logging
import threading
import time
from collections.abc import Callable

from nova import exception
from nova.db.cells import cells as db_cells
from nova.db.servers import instances

LOG = logging.getLogger(__name__)

COUNT_EVERY = 64             # servers that a process accepts between two counts while few wait
LOOK_S = 0.5                 # between two counts while many wait
RETRY_S = 2, 30              # shortest and longest wait in Retry-After


class Builds:
    """
    :param limit: servers that wait at most; 0: no bound
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._lock = threading.Lock()
        self._share = max(1, limit - limit // 4)             # of one project
        # Servers of each project: of the last count, and accepted since.
        self._waiting: collections.Counter[str] = collections.Counter()
        self._accepted: collections.Counter[str] = collections.Counter()
        self._counted_at: float | None = None
        self._counting = False
        self._rate = 0.0             # servers a second that were built between the last two counts

    def admit(self, cells: db_cells.Cells, project_id: str, servers: int) -> None:
        """Let a request of a project for so many servers pass.

        :param cells: db.cells.Cells: new servers wait in the default one, placed ones in that of their host
        :raises TooManyBuilds: there are too many that wait already, of all projects or of this one
        """
        if not self._limit:
            return
        with self._lock:
            count = not self._counting and self._stale(project_id)
            self._counting |= count
        if count:                    # the others go by what is known meanwhile: a cell may take its time to answer
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
        LOG.warning('A request for %d servers is refused: about %d wait to be built, %d of them of its project.',
                    servers, waiting.total(), waiting[project_id])
        low, high = RETRY_S
        wait = (excess + self._limit * 0.1) / self._rate if self._rate > 0 else high
        raise exception.TooManyBuilds(retry_after=round(min(max(wait, low), high)))

    def _excess(self, project_id: str) -> int:
        """Servers that wait beyond what may, of all projects or of this one; negative: so many more may."""
        waiting = self._waiting + self._accepted
        counted = sum(min(number, self._share) for number in waiting.values())
        return max(counted - self._limit, waiting[project_id] - self._share)

    def _stale(self, project_id: str) -> bool:
        if self._accepted.total() >= min(COUNT_EVERY, self._limit):
            return True
        return self._excess(project_id) >= 0 and (
            self._counted_at is None or self._clock() - self._counted_at > LOOK_S)

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
            self._accepted -= before                         # without projects that have none left

    def _building(self, cell: db_cells.Cell) -> dict[str, int]:
        with cell.db.reader() as conn:
            return instances.count_building(conn, self._limit * 2)
