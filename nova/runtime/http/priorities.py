"""How many requests of which kind are worked on at once.

A priority has threads of its own, and a bound of shared threads. So a flood of one kind leaves room for the others, and
an idle server gives all threads to what comes. Within a priority clients take turns, one request each.
"""
from __future__ import annotations

import collections
import re
import threading
import time
import typing
from typing import Any

UPLOADS = 'uploads'             # the priority of bodies that are larger than is gathered


class Priority(typing.NamedTuple):
    """
    :param least: threads of its own
    :param most: threads at most
    :param each: of these for one client at most; 0: no bound
    """
    name: str
    least: int
    most: int
    each: int = 0


class Face(typing.NamedTuple):
    """Which priority a request takes.

    :param pattern: what b'METHOD /path?query' begins with, a regular expression; the first face that fits counts
    :param uploads: whether larger bodies than are gathered are wanted
    """
    pattern: bytes
    priority: str
    uploads: bool = False


class Plan:
    """The priorities and faces of one server.

    :param threads: of all priorities, their own ones included
    :param uploads: additional threads for large bodies
    :param priorities: besides the one called '', which takes what fits no face
    :param apart: priorities whose threads are not counted in ``threads``, because a request of theirs lasts
    """

    def __init__(self, threads: int, uploads: int, priorities: Any = (), faces: Any = (), apart: Any = ()) -> None:
        self.faces = [(re.compile(face.pattern), face) for face in faces]
        every = Priority('', 1, threads)
        large = Priority(UPLOADS, uploads, uploads, max(1, uploads // 2))
        self.priorities = {priority.name: priority for priority in (every, *priorities, *apart, large)}
        own = sum(priority.least for priority in (every, *priorities))
        self.shared = max(0, threads - own)
        self.size = self.shared + sum(priority.least for priority in self.priorities.values())

    def face(self, line: bytes) -> Any:
        """The face of a request.

        :param line: b'METHOD /path?query'
        """
        for pattern, face in self.faces:
            if pattern.match(line):
                return face
        return _OTHER


_OTHER = Face(b'', '')


class Dispatcher:
    """Begins what may begin; the rest waits, by priority and client.

    :param begin: function(job) that gives it to a thread; it does not wait
    :param trusted: addresses.Trusted, whose requests are of many clients
    """

    def __init__(self, plan: Any, begin: Any, trusted: Any = ()) -> None:
        self._plan, self._begin, self._trusted = plan, begin, trusted
        self._lock = threading.Lock()
        self._running: collections.Counter[Any] = collections.Counter()
        self.running = 0
        self._shared = 0                                    # shared threads that are taken
        # {(priority, client): running}, where ``each`` is set
        self._each: collections.Counter[Any] = collections.Counter()
        self._waiting: dict[Any, Any] = {name: collections.OrderedDict() for name in plan.priorities}
        self.waiting = 0
        self._moved = time.monotonic()

    def ask(self, name: str, job: Any) -> None:
        """Work on a job now, or as soon as its priority lets it.

        :param job: what ``begin`` takes; has ``client`` and ``address``
        """
        with self._lock:
            priority = self._plan.priorities[name]
            if self._may(priority) and not self._waiting[name] and self._may_have(priority, job):
                self._start(priority, job)
            else:
                self._waiting[name].setdefault(job.client, collections.deque()).append(job)
                if self.waiting == 0:
                    self._moved = time.monotonic()
                self.waiting += 1

    def done(self, name: str, job: Any) -> None:
        """A job has ended: others may begin."""
        with self._lock:
            priority = self._plan.priorities[name]
            self._shared -= self._running[name] > priority.least
            self._running[name] -= 1
            self.running -= 1
            if priority.each:
                self._each[name, job.client] -= 1
                if not self._each[name, job.client]:
                    del self._each[name, job.client]
            self._moved = time.monotonic()
            if self.waiting:
                for other in (priority, *self._plan.priorities.values()):
                    self._start_waiting(other)

    def progress(self) -> None:
        """Something moves, though nothing has ended."""
        self._moved = time.monotonic()

    def state(self) -> tuple[Any, Any, Any]:
        """(requests that wait, requests that are worked on, seconds since one began, ended or moved)."""
        with self._lock:
            return self.waiting, self.running, time.monotonic() - self._moved

    def _may(self, priority: Any) -> bool:
        running = self._running[priority.name]
        if running < priority.least:
            return True
        return running < priority.most and self._shared < self._plan.shared

    def _may_have(self, priority: Any, job: Any) -> bool:
        return (not priority.each or self._each[priority.name, job.client] < priority.each
                or job.address in self._trusted)

    def _start(self, priority: Any, job: Any) -> None:
        self._running[priority.name] += 1
        self.running += 1
        self._shared += self._running[priority.name] > priority.least
        if priority.each:
            self._each[priority.name, job.client] += 1
        self._moved = time.monotonic()
        self._begin(job)

    def _start_waiting(self, priority: Any) -> None:
        waiting = self._waiting[priority.name]
        while waiting and self._may(priority):
            client = next((client for client, jobs in waiting.items() if self._may_have(priority, jobs[0])), None)
            if client is None:
                return
            jobs = waiting[client]
            job = jobs.popleft()
            if jobs:
                waiting.move_to_end(client)
            else:
                del waiting[client]
            self.waiting -= 1
            self._start(priority, job)
