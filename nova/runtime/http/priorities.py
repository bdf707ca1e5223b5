"""How many requests of which kind are worked on at once.

A priority has threads of its own, and a bound of shared threads. So a flood of one kind leaves room for the others, and
an idle server gives all threads to what comes. Within a priority clients take turns, one request each.

The project of a request is known after its token was checked. From then on projects share the threads of a priority by
cost (nova/runtime/turns.py): a request whose project has its share gives its place in the count to others and waits. A
long request asks between its parts whether others wait.
"""
from __future__ import annotations

import collections
import re
import threading
import time
import typing
from typing import Any

from nova import exception
from nova.runtime import turns

MAX_WAITING = 512               # requests of known projects that hold a thread while they wait for a place
MAX_WAITING_OF_ONE = 256        # of one project: as many as one client has connections (limits.per_address)
RETRY_S = 5                     # Retry-After of one more

# In the environ of a request: functions of its connection.
JOIN, REST = 'nova.join', 'nova.rest'

UPLOADS = 'uploads'             # the priority of bodies that are larger than is gathered


def join(environ: dict[str, Any], project_id: str | None) -> None:
    """The caller of a request is known: wait until his project may have the thread.

    :param project_id: or the id of a user without a project; None: the request is on behalf of many projects
    :raises ServiceBusy: too many requests of the project, or of all, wait so
    """
    if project_id and JOIN in environ:
        environ[JOIN](project_id)


def rest(environ: dict[str, Any]) -> None:
    """Let requests of other projects that wait for a thread go first, between two parts of a long request."""
    if REST in environ:
        environ[REST]()


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
        self._shares = {name: turns.Shares() for name in plan.priorities}
        self._projects: dict[Any, str] = {}                 # of the jobs that run, where it is known
        # {priority: {project: jobs that hold a thread without a place, and what wakes them}}
        self._parked: dict[str, dict[str, collections.deque[tuple[Any, threading.Event]]]] = {
            name: {} for name in plan.priorities}
        self.parked = 0
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
            self._leave(priority, job)
            if priority.each:
                self._each[name, job.client] -= 1
                if not self._each[name, job.client]:
                    del self._each[name, job.client]
            self._moved = time.monotonic()
            self._start_others(priority)

    def join(self, name: str, job: Any, project_id: str) -> None:
        """The project of a job that runs is known: wait until the project may have its thread.

        :raises ServiceBusy: too many jobs of this project, or of all, wait so
        """
        with self._lock:
            if job in self._projects:
                return
            priority, parked = self._plan.priorities[name], self._parked[name]
            if project_id not in parked and self._shares[name].has_room(project_id, self._free(priority) + 1):
                self._shares[name].start(project_id)
                self._projects[job] = project_id
                return
            if self.parked >= MAX_WAITING or len(parked.get(project_id, ())) >= MAX_WAITING_OF_ONE:
                raise exception.ServiceBusy(retry_after=RETRY_S)
            woken = self._park(priority, job, project_id)
            self._start_others(priority)
        woken.wait()

    def rest(self, name: str, job: Any) -> None:
        """Between two parts of a long job: let others begin that wait for a place in its priority."""
        if not self.waiting and not self.parked:
            return
        with self._lock:
            project_id = self._projects.get(job)
            if project_id is None or not (self._waiting[name] or self._parked[name].keys() - {project_id}):
                return
            woken = self._park(self._plan.priorities[name], job, project_id)
            self._start_waiting(self._plan.priorities[name])      # else its own project might have the place again
            self._start_others(self._plan.priorities[name])
        woken.wait()

    def progress(self) -> None:
        """Something moves, though nothing has ended."""
        self._moved = time.monotonic()

    def state(self) -> tuple[Any, Any, Any]:
        """(requests that wait, requests that are worked on, seconds since one began, ended or moved)."""
        with self._lock:
            return self.waiting, self.running, time.monotonic() - self._moved

    @property
    def threads(self) -> int:
        """Threads that jobs have, with and without a place."""
        return self.running + self.parked

    def _free(self, priority: Any) -> int:
        """Jobs that may begin in a priority."""
        running = self._running[priority.name]
        own = max(0, priority.least - running)
        return min(priority.most - running, own + self._plan.shared - self._shared)

    def _may(self, priority: Any) -> bool:
        return self._free(priority) > 0

    def _take(self, priority: Any) -> None:
        """One more has a place."""
        self._running[priority.name] += 1
        self.running += 1
        self._shared += self._running[priority.name] > priority.least

    def _leave(self, priority: Any, job: Any) -> None:
        """A job gives its place back."""
        self._shared -= self._running[priority.name] > priority.least
        self._running[priority.name] -= 1
        self.running -= 1
        project_id = self._projects.pop(job, None)
        if project_id is not None:
            self._shares[priority.name].stop(project_id)

    def _park(self, priority: Any, job: Any, project_id: str) -> threading.Event:
        """A job waits behind others of its project, without a place; what is set when it has one again."""
        woken = threading.Event()
        self._leave(priority, job)
        self._parked[priority.name].setdefault(project_id, collections.deque()).append((job, woken))
        self.parked += 1
        return woken

    def _may_have(self, priority: Any, job: Any) -> bool:
        return (not priority.each or self._each[priority.name, job.client] < priority.each
                or job.address in self._trusted)

    def _start(self, priority: Any, job: Any) -> None:
        self._take(priority)
        if priority.each:
            self._each[priority.name, job.client] += 1
        self._moved = time.monotonic()
        self._begin(job)

    def _start_others(self, priority: Any) -> None:
        """Begin what may begin now, in this priority first."""
        if self.parked or self.waiting:
            for other in (priority, *self._plan.priorities.values()):
                self._wake(other)
                self._start_waiting(other)

    def _wake(self, priority: Any) -> None:
        """Give places to jobs that wait for one with their thread: to the project of least cost first."""
        parked, shares = self._parked[priority.name], self._shares[priority.name]
        while parked and (project_id := shares.next(parked, self._free(priority))) is not None:
            jobs = parked[project_id]
            job, woken = jobs.popleft()
            if not jobs:
                del parked[project_id]
            self.parked -= 1
            self._take(priority)
            shares.start(project_id)
            self._projects[job] = project_id
            self._moved = time.monotonic()
            woken.set()

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
