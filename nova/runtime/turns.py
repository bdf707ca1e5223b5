"""Whose work comes next: projects take turns, so that one with much slow work does not hold up the others."""
from __future__ import annotations

import collections
import threading
from typing import Generic, TypeVar

Work = TypeVar('Work')

OF_FREE = 3          # a project has at most so many times what is free: three quarters of all where it is alone


class Turns(Generic[Work]):
    """Shares of a bounded number of threads.

    A project that has nothing running may take the last free thread. Another one leaves a thread free, and has at most
    ``OF_FREE`` times as many as are free: the more projects are busy, the less each of them has, and the next project
    finds a thread while fewer are busy than there are threads.

    :param most: works at once
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._running: collections.Counter[str] = collections.Counter()
        self._waiting: dict[str, collections.deque[Work]] = {}       # in the order of turns

    def take(self, project_id: str, work: Work) -> bool:
        """Whether a work may begin now; else it waits, and ``ended`` gives it."""
        with self._lock:
            if project_id not in self._waiting and self._has_room(project_id):
                self._running[project_id] += 1
                return True
            self._waiting.setdefault(project_id, collections.deque()).append(work)
            return False

    def ended(self, project_id: str) -> list[Work]:
        """A work of a project has ended; those that begin now instead."""
        with self._lock:
            self._running[project_id] -= 1
            if not self._running[project_id]:
                del self._running[project_id]
            found = []
            while (following := next((each for each in self._waiting if self._has_room(each)), None)) is not None:
                works = self._waiting.pop(following)
                found.append(works.popleft())
                if works:
                    self._waiting[following] = works                 # behind those of others
                self._running[following] += 1
            return found

    def forget(self) -> list[Work]:
        """Drop all that waits, and return it."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        return [work for works in waiting.values() for work in works]

    def _has_room(self, project_id: str) -> bool:
        running, free = self._running[project_id], self._most - self._running.total()
        return free >= 1 if not running else free >= 2 and running < OF_FREE * free
