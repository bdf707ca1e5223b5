"""Whose work comes next: projects take turns, so that one with many large copies does not hold up the others."""
from __future__ import annotations

import collections
import threading
from typing import Generic, TypeVar

Work = TypeVar('Work')


class Turns(Generic[Work]):
    """
    :param most: works at once
    :param of_one: of one project; what is between the two is kept for others
    """

    def __init__(self, most: int, of_one: int) -> None:
        self._most, self._of_one = most, of_one
        self._lock = threading.Lock()
        self._running: collections.Counter[str] = collections.Counter()
        self._waiting: dict[str, collections.deque[Work]] = {}       # in the order of turns

    def take(self, project_id: str, work: Work) -> bool:
        """Whether a work may begin now; else it waits, and ``ended`` gives it."""
        with self._lock:
            if self._has_room(project_id):
                self._running[project_id] += 1
                return True
            self._waiting.setdefault(project_id, collections.deque()).append(work)
            return False

    def ended(self, project_id: str) -> Work | None:
        """A work of a project has ended; one that may begin now instead."""
        with self._lock:
            self._running[project_id] -= 1
            if not self._running[project_id]:
                del self._running[project_id]
            following = next((each for each in self._waiting if self._has_room(each)), None)
            if following is None:
                return None
            works = self._waiting.pop(following)
            found = works.popleft()
            if works:
                self._waiting[following] = works                     # behind those of others
            self._running[following] += 1
            return found

    def _has_room(self, project_id: str) -> bool:
        return self._running.total() < self._most and self._running[project_id] < self._of_one
