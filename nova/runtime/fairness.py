"""Fair scheduling of a limited number of threads among projects, by used thread time instead of requests."""
import collections
from collections.abc import Callable, Iterable
from concurrent import futures
import contextlib
import functools
import threading
import time
from typing import Any, Generic, TypeVar, TypeVarTuple

from nova.runtime import queues

Work = TypeVar('Work')
_Args = TypeVarTuple('_Args')
_Result = TypeVar('_Result')

MAX_TIMES_FREE = 3   # maximum ratio of a project's threads to free threads: one project can get 3/4 of all threads
HALF_LIFE_S = 10     # half-life of a project's cost, in seconds
MAX_COSTS = 1000     # maximum number of stored costs; beyond it, small costs are dropped
SMALL_COST_S = 0.01  # a cost up to this thread time is small


class Shares:
    """Running threads and cost of each project. The cost is the thread time in seconds that the project used recently.

    The methods use no lock: the caller holds a lock.

    :param clock: function that returns a time in seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.running: collections.Counter[str] = collections.Counter()
        self._costs: dict[str, tuple[float, float]] = {}             # {project: (cost in seconds, time of the cost)}

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
        """Return the thread time in seconds that a project has used recently."""
        seconds, at = self._costs.get(project_id, (0.0, 0.0))
        now = self._clock()
        left = 0.5 ** ((now - at) / HALF_LIFE_S) if seconds else 0.0
        return seconds * left + self.running[project_id] * (now - at)

    def has_room(self, project_id: str, free: int, spare: bool = True) -> bool:
        """Return whether a project may have one of the free threads.

        A project without a thread may take the last free thread. A project with threads must leave one free, and may
        have at most ``MAX_TIMES_FREE`` times as many threads as are free.

        :param spare: False: each project may take the last free thread
        """
        running = self.running[project_id]
        return free >= 1 if not running or not spare else free >= 2 and running < MAX_TIMES_FREE * free

    def next(self, projects: Iterable[str], free: int, spare: bool = True) -> str | None:
        """Return the project with the lowest cost that may have a free thread; of equal projects, the first."""
        return min((each for each in projects if self.has_room(each, free, spare)), key=self.cost, default=None)

    def _settle(self, project_id: str) -> None:
        self._costs[project_id] = self.cost(project_id), self._clock()


class FairQueue(Generic[Work]):
    """Queue of jobs for a limited number of threads, which projects share fairly by ``Shares``.

    The more projects are busy, the fewer threads each has. A new project finds a free thread as long as there are fewer
    busy projects than threads. When a thread is free, the waiting project with the lowest cost is next.

    :param max_running: maximum number of running jobs
    :param spare: whether a project leaves threads free. False, for short jobs: one project may use all threads, and
        another project waits until a job ends
    """

    def __init__(self, max_running: int, spare: bool = True) -> None:
        self._max_running, self._spare = max_running, spare
        self._lock = threading.Lock()
        self._shares = Shares()
        self._waiting: dict[str, collections.deque[Work]] = {}  # a project moves to the end when it is added or served

    def take(self, project_id: str, work: Work) -> bool:
        """Return whether a job may start now. If not, the job waits until ``ended`` returns it."""
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
                    self._waiting[following] = works     # append: other projects of equal cost come first
                self._shares.start(following)
            return found

    def forget(self) -> list[Work]:
        """Remove all waiting jobs, and return them."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        return [work for works in waiting.values() for work in works]

    @property
    def waiting(self) -> int:
        """Return how many jobs wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def waiting_of(self, project_id: str) -> int:
        """Return how many jobs of a project wait."""
        with self._lock:
            return len(self._waiting.get(project_id, ()))

    @property
    def running(self) -> int:
        """Return how many jobs run."""
        return self._shares.running.total()

    @property
    def _free(self) -> int:
        return self._max_running - self.running


class ConcurrencyLimit:
    """Limit on concurrent requests of a kind; one project may use half of it. Excess requests are refused.

    :param queue: row of nova.runtime.queues
    """

    def __init__(self, queue: queues.Queue, most: int) -> None:
        self._most, self._share = most, -(-most // 2)
        self._open: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()
        queues.watch(queue, self, lambda limit: queues.Size(0, limit._open.total()))

    def acquire(self, owner: str) -> bool:
        """Take a slot, or return False if the limit is reached. The caller must release the slot."""
        with self._lock:
            if self._open.total() >= self._most or self._open[owner] >= self._share:
                return False
            self._open[owner] += 1
            return True

    def release(self, owner: str) -> None:
        with self._lock:
            self._open[owner] -= 1
            self._open += collections.Counter()              # drop projects without requests


class _Job:
    """A job of a FairExecutor."""

    def __init__(self, project_id: str | None, function: Callable[[], object]) -> None:
        self.project_id, self.function = project_id, function
        self.future: futures.Future[Any] = futures.Future()


class FairExecutor:
    """Thread pool that projects share fairly: a ``FairQueue`` decides when a job goes to a ThreadPoolExecutor.

    The threads are green under eventlet. Idle threads are reused before new ones start.

    :param queue: row of nova.runtime.queues
    :param name: prefix of the threads' names
    :param max_running: maximum number of threads
    :param spare: see FairQueue
    """

    def __init__(self, queue: queues.Queue, name: str, max_running: int, spare: bool = True) -> None:
        self._threads = futures.ThreadPoolExecutor(max_running, thread_name_prefix=name)
        self._queue: FairQueue[_Job] = FairQueue(max_running, spare)
        self._started: set[_Job] = set()                 # jobs that the FairQueue has started, but no thread runs yet
        self._unfinished: set[futures.Future[Any]] = set()
        self._lock = threading.Lock()
        self._stopped = False
        queues.watch(queue, self, FairExecutor._size)

    def submit(self, project_id: str | None, function: Callable[[*_Args], _Result],
               *args: *_Args) -> futures.Future[_Result]:
        """Call ``function(*args)`` in a thread.

        :param project_id: None: the job is not counted, and starts in the order of arrival
        :raises RuntimeError: the executor has stopped
        """
        if self._stopped:
            raise RuntimeError('The executor has stopped.')
        job = _Job(project_id, functools.partial(function, *args))
        with self._lock:
            self._unfinished.add(job.future)
        job.future.add_done_callback(self._forget)
        if project_id is None or self._queue.take(project_id, job):
            self._start(job)
        elif self._stopped:
            self._end_waiting(False)
        return job.future

    @property
    def waiting(self) -> int:
        """Return how many jobs wait because their project may not have another thread."""
        return self._queue.waiting

    @property
    def backlog(self) -> int:
        """Return how many jobs have no thread yet."""
        return self._queue.waiting + len(self._started)

    @property
    def full(self) -> bool:
        """Return whether a job that may run has no thread yet."""
        return bool(self._started)

    def stop(self, timeout: float | None, start_waiting: bool = False) -> bool:
        """Take no further job, and wait for the running ones; return True if all have ended in time.

        :param timeout: seconds; None: no limit
        :param start_waiting: run the waiting jobs, too; otherwise their futures are cancelled
        """
        self._stopped = True
        self._end_waiting(start_waiting)
        self._threads.shutdown(wait=False)
        for job in () if start_waiting else list(self._started):
            job.future.cancel()
        with self._lock:
            unfinished = list(self._unfinished)
        return not futures.wait(unfinished, timeout).not_done

    def _end_waiting(self, start: bool) -> None:
        for job in self._queue.forget():
            if start:
                with contextlib.suppress(RuntimeError):
                    self._start(job)
            else:
                job.future.cancel()

    def _start(self, job: _Job) -> None:
        """:raises RuntimeError: the executor has stopped; the future is cancelled"""
        self._started.add(job)
        try:
            self._threads.submit(self._run, job)
        except RuntimeError:
            self._started.discard(job)
            job.future.cancel()
            raise

    def _run(self, job: _Job) -> None:
        self._started.discard(job)
        try:
            if job.future.set_running_or_notify_cancel():
                job.future.set_result(job.function())
        except BaseException as error:
            job.future.set_exception(error)
        finally:
            for following in self._queue.ended(job.project_id) if job.project_id is not None else ():
                with contextlib.suppress(RuntimeError):
                    self._start(following)

    def _forget(self, future: futures.Future[Any]) -> None:
        with self._lock:
            self._unfinished.discard(future)

    def _size(self) -> queues.Size:
        backlog = self.backlog
        return queues.Size(backlog, len(self._unfinished) - backlog)
