"""Concurrency limits by kind of request.

Each priority has reserved threads, and may use shared threads up to its maximum. So a flood of one kind of requests
leaves threads for the other kinds. Within a priority, clients take turns, one request each.

The project of a request is known after the check of its token. From then on, projects share the threads of a priority
by cost (nova/runtime/fairness.py). A request of a project that has used its share keeps its thread, but releases its
slot (the right to run) and waits. A long request yields to waiting requests between its parts.
"""
import collections
from collections.abc import Callable, Container, Iterable, Sequence
import re
import threading
import time
import typing
from typing import Generic, TypeVar
import urllib.parse
from wsgiref.types import WSGIEnvironment

from nova import exception
from nova.runtime import fairness
from nova.runtime import queues
from nova.runtime.http import addresses

MAX_WAITING = 512               # maximum requests that hold a thread while they wait for a slot of their project
MAX_WAITING_OF_ONE = 256        # maximum waiting requests of one project; equals limits.per_address
RETRY_S = 5                     # Retry-After of requests that are refused because of these limits

# Keys of environ; the values are methods of Connection (exchange.py).
JOIN, REST = 'nova.join', 'nova.rest'

UPLOADS = 'uploads'             # priority of requests with a body above the buffer limit

Job = TypeVar('Job', bound=addresses.Peer)


def join(environ: WSGIEnvironment, project_id: str | None) -> None:
    """Assign a request to its caller's project, and wait until the project may use the thread.

    :param project_id: id of the project, or of a user without a project; None: the request is for many projects
    :raises ServiceBusy: too many requests wait for a slot, of this project or in total
    """
    if project_id and JOIN in environ:
        environ[JOIN](project_id)


def rest(environ: WSGIEnvironment) -> None:
    """Yield to waiting requests of other projects; called between two parts of a long request."""
    if REST in environ:
        environ[REST]()


class Priority(typing.NamedTuple):
    """:param least: threads reserved for it
    :param most: maximum number of threads
    :param each: maximum for one client; 0: no limit
    """
    name: str
    least: int
    most: int
    each: int = 0


class RequestClass(typing.NamedTuple):
    """A class of requests with its priority.

    :param pattern: regular expression for the start of b'METHOD /path' with the decoded path; the first match counts
    :param uploads: whether bodies above the buffer limit are allowed
    """
    pattern: bytes
    priority: str
    uploads: bool = False


class Plan:
    """The priorities and request classes of one server.

    :param threads: number of threads of all priorities, including reserved threads
    :param uploads: additional threads for large bodies
    :param priorities: priorities in addition to '', the priority of requests without a class
    :param apart: priorities with separate threads, not counted in ``threads``, as their requests last long
    """

    def __init__(self, threads: int, uploads: int, priorities: Sequence[Priority] = (),
                 classes: Iterable[RequestClass] = (), apart: Sequence[Priority] = ()) -> None:
        self.classes = [(re.compile(request_class.pattern, re.DOTALL), request_class) for request_class in classes]
        every = Priority('', 1, threads)
        large = Priority(UPLOADS, uploads, uploads, max(1, uploads // 2))
        self.priorities = {priority.name: priority for priority in (every, *priorities, *apart, large)}
        own = sum(priority.least for priority in (every, *priorities))
        self.shared = max(0, threads - own)
        self.size = self.shared + sum(priority.least for priority in self.priorities.values())

    def request_class(self, line: bytes) -> RequestClass:
        """Return the class of a request.

        :param line: b'METHOD /path?query' as received
        """
        line = _routed(line)
        for pattern, request_class in self.classes:
            if pattern.match(line):
                return request_class
        return _OTHER


_OTHER = RequestClass(b'', '')
_QUOTED_SLASH = re.compile(b'%2F', re.IGNORECASE)


def _routed(line: bytes) -> bytes:
    """Return b'METHOD /path' with the path by which applications route: decoded, except slashes, as cheroot does it.

    The result for a malformed line does not matter, because such a request is refused.
    """
    method, target = (*line.strip().split(b' ', 2), b'', b'')[:2]
    try:
        path = urllib.parse.urlsplit(target).path
    except ValueError:
        return line
    return method + b' ' + b'%2F'.join(map(urllib.parse.unquote_to_bytes, _QUOTED_SLASH.split(path)))


class Dispatcher(Generic[Job]):
    """Assigns jobs to threads. Jobs wait for a thread in a separate queue for each priority and client.

    :param begin: function(job) that gives the job to a thread; it does not block
    :param trusted: addresses of trusted proxies, which have many clients
    """

    def __init__(self, plan: Plan, begin: Callable[[Job], None], trusted: Container[str] = ()) -> None:
        self._plan, self._begin, self._trusted = plan, begin, trusted
        self._lock = threading.Lock()
        self._running: collections.Counter[str] = collections.Counter()
        self.running = 0
        self._shared = 0                                    # shared threads in use
        # {(priority, client): number of running jobs}, for priorities with ``each``
        self._each: collections.Counter[tuple[str, str]] = collections.Counter()
        self._waiting: dict[str, collections.OrderedDict[str, collections.deque[Job]]] = {
            name: collections.OrderedDict() for name in plan.priorities}
        self.waiting = 0
        self._shares = {name: fairness.Shares() for name in plan.priorities}
        self._projects: dict[Job, str] = {}                 # projects of running jobs, if known
        # {priority: {project: (job, event) of jobs that hold a thread, but no slot}}
        self._parked: dict[str, dict[str, collections.deque[tuple[Job, threading.Event]]]] = {
            name: {} for name in plan.priorities}
        self.parked = 0
        # {priority: time of the last start, end or progress of a job, or of the begin of the waiting}
        self._moved = dict.fromkeys(plan.priorities, time.monotonic())
        queues.watch(queues.HTTP, self, lambda each: queues.Size(each.waiting + each.parked, each.running))

    def ask(self, name: str, job: Job) -> None:
        """Start a job now, or when its priority permits.

        :param job: argument of ``begin``
        """
        with self._lock:
            priority = self._plan.priorities[name]
            if self._may(priority) and not self._waiting[name] and self._may_have(priority, job):
                self._start(priority, job)
            else:
                if not self._waiting[name]:
                    self._moved[name] = time.monotonic()
                self._waiting[name].setdefault(job.client, collections.deque()).append(job)
                self.waiting += 1
                self._start_waiting(priority)        # the jobs before it may wait because of the limit for their client

    def done(self, name: str, job: Job) -> None:
        """Record the end of a job, and start waiting jobs."""
        with self._lock:
            priority = self._plan.priorities[name]
            self._leave(priority, job)
            if priority.each:
                self._each[name, job.client] -= 1
                if not self._each[name, job.client]:
                    del self._each[name, job.client]
            self._moved[name] = time.monotonic()
            self._start_others(priority)

    def join(self, name: str, job: Job, project_id: str) -> None:
        """Assign a running job to its project, and wait until the project may use the thread.

        :raises ServiceBusy: too many jobs wait for a slot, of this project or in total
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

    def rest(self, name: str, job: Job) -> None:
        """Yield to jobs that wait for a slot in the priority of this job; called between two parts of a long job."""
        if not self.waiting and not self.parked:
            return
        with self._lock:
            project_id = self._projects.get(job)
            if project_id is None or not (self._waiting[name] or self._parked[name].keys() - {project_id}):
                return
            woken = self._park(self._plan.priorities[name], job, project_id)
            self._start_waiting(self._plan.priorities[name])  # first: _wake() could return the slot to this project
            self._start_others(self._plan.priorities[name])
        woken.wait()

    def progress(self, name: str) -> None:
        """Record the progress of a running job of a priority."""
        self._moved[name] = time.monotonic()

    def state(self) -> tuple[int, int, float]:
        """Return (waiting requests, running requests, seconds since the last start, end or progress).

        While requests wait, the time is that of the slowest priority with waiting requests.
        """
        with self._lock:
            moved = [self._moved[name] for name, waiting in self._waiting.items() if waiting]
            return self.waiting, self.running, time.monotonic() - min(moved or [max(self._moved.values())])

    @property
    def threads(self) -> int:
        """Return the number of threads that jobs hold, with or without a slot."""
        return self.running + self.parked

    def _free(self, priority: Priority) -> int:
        """Return how many more jobs of a priority may start."""
        running = self._running[priority.name]
        own = max(0, priority.least - running)
        return min(priority.most - running, own + self._plan.shared - self._shared)

    def _may(self, priority: Priority) -> bool:
        return self._free(priority) > 0

    def _take(self, priority: Priority) -> None:
        """Take a slot."""
        self._running[priority.name] += 1
        self.running += 1
        self._shared += self._running[priority.name] > priority.least

    def _leave(self, priority: Priority, job: Job) -> None:
        """Release a job's slot."""
        self._shared -= self._running[priority.name] > priority.least
        self._running[priority.name] -= 1
        self.running -= 1
        project_id = self._projects.pop(job, None)
        if project_id is not None:
            self._shares[priority.name].stop(project_id)

    def _park(self, priority: Priority, job: Job, project_id: str) -> threading.Event:
        """Release a job's slot and queue the job in its project; return an event, set when the job gets a slot."""
        woken = threading.Event()
        self._leave(priority, job)
        self._parked[priority.name].setdefault(project_id, collections.deque()).append((job, woken))
        self.parked += 1
        return woken

    def _may_have(self, priority: Priority, job: Job) -> bool:
        return (not priority.each or self._each[priority.name, job.client] < priority.each
                or job.address in self._trusted)

    def _start(self, priority: Priority, job: Job) -> None:
        self._take(priority)
        if priority.each:
            self._each[priority.name, job.client] += 1
        self._moved[priority.name] = time.monotonic()
        self._begin(job)

    def _start_others(self, priority: Priority) -> None:
        """Start waiting jobs, beginning with jobs of this priority."""
        if self.parked or self.waiting:
            for other in (priority, *self._plan.priorities.values()):
                self._wake(other)
                self._start_waiting(other)

    def _wake(self, priority: Priority) -> None:
        """Give slots to jobs that hold a thread without a slot; the project with the lowest cost comes first."""
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
            self._moved[priority.name] = time.monotonic()
            woken.set()

    def _start_waiting(self, priority: Priority) -> None:
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
