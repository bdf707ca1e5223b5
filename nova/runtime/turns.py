"""Fair scheduling of a bounded number of threads between projects, by the time that they use and not by requests."""
from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
import threading
import time
from typing import Generic, TypeVar

Work = TypeVar('Work')

OF_FREE = 3          # a project has at most so many times what is free: three quarters of all where it is alone
HALF_S = 10          # seconds after which half of the time that a project has used is forgotten
MANY = 1000          # projects with a cost, from which on those of nearly none are dropped
SMALL_S = 0.01       # a cost of nearly none, in seconds of a thread


class Shares:
    """Threads that each project has, and its cost: the seconds of threads that it has used of late.

    Not locked: the caller holds a lock.

    :param clock: seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.running: collections.Counter[str] = collections.Counter()
        self._costs: dict[str, tuple[float, float]] = {}             # {project: (seconds of threads, when)}

    def start(self, project_id: str) -> None:
        """A project has one more thread."""
        self._settle(project_id)
        self.running[project_id] += 1

    def stop(self, project_id: str) -> None:
        """A project has given a thread back."""
        self._settle(project_id)
        self.running[project_id] -= 1
        if not self.running[project_id]:
            del self.running[project_id]
        if len(self._costs) > MANY:
            self._costs = {each: self._costs[each] for each in list(self._costs)
                           if each in self.running or self.cost(each) > SMALL_S}

    def cost(self, project_id: str) -> float:
        """Seconds of threads that a project has used of late."""
        seconds, at = self._costs.get(project_id, (0.0, 0.0))
        now = self._clock()
        left = 0.5 ** ((now - at) / HALF_S) if seconds else 0.0
        return seconds * left + self.running[project_id] * (now - at)

    def has_room(self, project_id: str, free: int, spare: bool = True) -> bool:
        """Whether a project may have one of the free threads.

        A project without a thread may take the last one. Another one leaves a thread free, and has at most ``OF_FREE``
        times as many as are free.

        :param spare: False: each project may take the last one
        """
        running = self.running[project_id]
        return free >= 1 if not running or not spare else free >= 2 and running < OF_FREE * free

    def next(self, projects: Iterable[str], free: int, spare: bool = True) -> str | None:
        """The project of least cost that may have a free thread; of equals the first one."""
        return min((each for each in projects if self.has_room(each, free, spare)), key=self.cost, default=None)

    def _settle(self, project_id: str) -> None:
        self._costs[project_id] = self.cost(project_id), self._clock()


class Turns(Generic[Work]):
    """Shares of a bounded number of threads.

    A project has room as ``Shares`` says: the more projects are busy, the less each of them has, and the next project
    finds a thread while fewer are busy than there are threads. Of those that wait, the project of least cost begins.

    :param most: works at once
    :param spare: whether a project leaves threads free; without it one project alone has all, and another waits until
        a work has ended: for short works
    """

    def __init__(self, most: int, spare: bool = True) -> None:
        self._most, self._spare = most, spare
        self._lock = threading.Lock()
        self._shares = Shares()
        self._waiting: dict[str, collections.deque[Work]] = {}       # those that came or began last are at the end

    def take(self, project_id: str, work: Work) -> bool:
        """Whether a work may begin now; else it waits, and ``ended`` gives it."""
        with self._lock:
            if project_id not in self._waiting and self._shares.has_room(project_id, self._free, self._spare):
                self._shares.start(project_id)
                return True
            self._waiting.setdefault(project_id, collections.deque()).append(work)
            return False

    def ended(self, project_id: str) -> list[Work]:
        """A work of a project has ended; those that begin now instead."""
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
        """Drop all that waits, and return it."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        return [work for works in waiting.values() for work in works]

    @property
    def _free(self) -> int:
        return self._most - self._shares.running.total()
