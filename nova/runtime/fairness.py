"""Fair scheduling of a limited number of threads among projects, by used time instead of requests."""
from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
import threading
import time
from typing import Generic, TypeVar

Work = TypeVar('Work')

MAX_TIMES_FREE = 3   # a project has at most so many times the free threads: 3/4 of all if it is the only one
HALF_LIFE_S = 10     # half-life of a project's cost, in seconds
MAX_COSTS = 1000     # maximum number of projects with a cost before small ones are dropped
SMALL_COST_S = 0.01  # a small cost, in seconds of a thread


class Shares:
    """Threads of each project, and its cost: the seconds of threads that it has used recently.

    Not locked: the caller holds a lock.

    :param clock: seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.running: collections.Counter[str] = collections.Counter()
        self._costs: dict[str, tuple[float, float]] = {}             # {project: (seconds of threads, when)}

    def start(self, project_id: str) -> None:
        """Record that a project has one more thread."""
        self._settle(project_id)
        self.running[project_id] += 1

    def stop(self, project_id: str) -> None:
        """Record that a project has released a thread."""
        self._settle(project_id)
        self.running[project_id] -= 1
        if not self.running[project_id]:
            del self.running[project_id]
        if len(self._costs) > MAX_COSTS:
            self._costs = {each: self._costs[each] for each in list(self._costs)
                           if each in self.running or self.cost(each) > SMALL_COST_S}

    def cost(self, project_id: str) -> float:
        """Return the seconds of threads that a project has used recently."""
        seconds, at = self._costs.get(project_id, (0.0, 0.0))
        now = self._clock()
        left = 0.5 ** ((now - at) / HALF_LIFE_S) if seconds else 0.0
        return seconds * left + self.running[project_id] * (now - at)

    def has_room(self, project_id: str, free: int, spare: bool = True) -> bool:
        """Return whether a project may have one of the free threads.

        A project without a thread may take the last one. Another one leaves a thread free, and has at most
        ``MAX_TIMES_FREE`` times as many as are free.

        :param spare: False: each project may take the last one
        """
        running = self.running[project_id]
        return free >= 1 if not running or not spare else free >= 2 and running < MAX_TIMES_FREE * free

    def next(self, projects: Iterable[str], free: int, spare: bool = True) -> str | None:
        """Return the project of least cost that may have a free thread; the first one of equals."""
        return min((each for each in projects if self.has_room(each, free, spare)), key=self.cost, default=None)

    def _settle(self, project_id: str) -> None:
        self._costs[project_id] = self.cost(project_id), self._clock()


class FairQueue(Generic[Work]):
    """Queue of work for a limited number of threads, which projects share fairly by ``Shares``.

    With more busy projects, each has fewer threads. A new project finds a free thread as long as there are fewer busy
    projects than threads. Of the waiting projects, the one of least cost is next.

    :param max_running: maximum number of running jobs
    :param spare: whether a project leaves threads free. False, for short jobs: one project may use all threads, and
        others wait for the end of a job
    """

    def __init__(self, max_running: int, spare: bool = True) -> None:
        self._max_running, self._spare = max_running, spare
        self._lock = threading.Lock()
        self._shares = Shares()
        self._waiting: dict[str, collections.deque[Work]] = {}       # the last to arrive or start are at the end

    def take(self, project_id: str, work: Work) -> bool:
        """Return whether a job may start now. Otherwise it waits until ``ended`` returns it."""
        with self._lock:
            if project_id not in self._waiting and self._shares.has_room(project_id, self._free, self._spare):
                self._shares.start(project_id)
                return True
            self._waiting.setdefault(project_id, collections.deque()).append(work)
            return False

    def ended(self, project_id: str) -> list[Work]:
        """Record the end of a project's job; return the jobs to start now."""
        with self._lock:
            self._shares.stop(project_id)
            found = []
            while (following := self._shares.next(self._waiting, self._free, self._spare)) is not None:
                works = self._waiting.pop(following)
                found.append(works.popleft())
                if works:
                    self._waiting[following] = works                 # behind those of others
                self._shares.start(following)
            return found

    def forget(self) -> list[Work]:
        """Remove all waiting jobs, and return them."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        return [work for works in waiting.values() for work in works]

    @property
    def _free(self) -> int:
        return self._max_running - self._shares.running.total()
