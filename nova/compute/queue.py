"""One task at a time for each server, without threads that wait: tasks of a busy server stand in its queue.

Projects take turns at the threads (nova/runtime/fairness.py): slow tasks of one project leave threads to the others.
"""
import collections
import concurrent.futures
import dataclasses
import functools
import logging
import threading
import time
import typing

from nova import exception
from nova.runtime import concurrency
from nova.runtime import fairness

LOG = logging.getLogger(__name__)

_Args = typing.TypeVarTuple('_Args')
_Result = typing.TypeVar('_Result')

Function = typing.Callable[..., object]

MIGRATION = 'live-migration'
COPIES, COPIES_AT_ONCE = 'copies', 4       # of volumes, in the background of the tasks that wait for them
LOOK_S = 1           # seconds between two looks whether the awaited task was given up


@dataclasses.dataclass(frozen=True)
class _Work:
    uuid: str
    project_id: str
    kind: bool | str
    function: Function
    args: tuple[object, ...]


class TaskQueue:
    """
    :param builds: builds at once
    :param tasks: other tasks at once
    :param migrations: servers that leave this host live, at once
    """

    def __init__(self, builds: int, tasks: int, migrations: int = 1) -> None:
        sizes: dict[bool | str, tuple[str, int]] = {
            True: ('build', builds), False: ('task', tasks), MIGRATION: ('live-migration', migrations),
            COPIES: ('copy', COPIES_AT_ONCE)}
        self._pools = {kind: concurrency.Pool(name, size) for kind, (name, size) in sizes.items()}
        self._turns: dict[bool | str, fairness.FairQueue[_Work]] = {
            kind: fairness.FairQueue(size) for kind, (_name, size) in sizes.items()}
        # uuid -> tasks that wait; a key means that one is running, or waits for its turn
        self._waiting: dict[str, collections.deque[_Work]] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def submit(self, uuid: str, function: typing.Callable[[*_Args], object], *args: *_Args,
               build: bool | str = False, project_id: str = '') -> None:
        """Run ``function(*args)`` when this server has nothing before it; returns at once.

        :param build: True for a build, MIGRATION for a live migration, COPIES for copies of volumes, which have bounds
            of their own
        :param project_id: whose turn it takes; '': the host's own work
        """
        # it may begin when another task ends, on that one's thread
        work = _Work(uuid, project_id, build, concurrency.with_context(function), args)
        with self._lock:
            if self._stopped:
                LOG.info('Task for server %s came while stopping; it is done after the next start.', uuid)
                return
            if uuid in self._waiting:
                self._waiting[uuid].append(work)
                return
            self._waiting[uuid] = collections.deque()
        self._begin(work)

    def run(self, uuid: str, function: typing.Callable[[*_Args], _Result], *args: *_Args,
            project_id: str = '') -> _Result:
        """``submit``, and wait for it: the function's result.

        :raises Unavailable: the service is stopping
        """
        future: concurrent.futures.Future[_Result] = concurrent.futures.Future()

        def body() -> None:
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)
        self.submit(uuid, body, project_id=project_id)
        while not concurrent.futures.wait([future], LOOK_S).done:
            if self._stopped and not self.busy(uuid) and not future.done():
                raise exception.Unavailable('The compute host of the server is stopping.')
        return future.result()

    def in_progress(self) -> dict[str, int]:
        """{uuid: tasks that wait behind the one that runs}"""
        with self._lock:
            return {uuid: len(waiting) for uuid, waiting in self._waiting.items()}

    def busy(self, uuid: str) -> bool:
        """Whether the server has a task that runs."""
        return uuid in self._waiting

    def _run(self, work: _Work) -> None:
        try:
            work.function(*work.args)
        except (exception.InstanceChanged, exception.InstanceNotFound) as error:
            LOG.info('A task of server %s was overtaken: %s', work.uuid, error.message)
        except Exception:
            LOG.exception('A task of server %s failed outside of its own care.', work.uuid)
        finally:
            self._next(work)

    def _next(self, ended: _Work) -> None:
        begin = self._turns[ended.kind].ended(ended.project_id)
        with self._lock:
            waiting = self._waiting[ended.uuid]
            following = waiting.popleft() if waiting and not self._stopped else None
            if following is None:
                del self._waiting[ended.uuid]
        for work in begin:
            self._submit(work)
        if following is not None:
            self._begin(following)

    def _begin(self, work: _Work) -> None:
        if self._turns[work.kind].take(work.project_id, work):
            self._submit(work)
        elif self._stopped:
            self._forget()

    def _submit(self, work: _Work) -> None:
        try:
            future = self._pools[work.kind].submit(self._run, work)
        except RuntimeError:                         # the queue stops
            self._drop(work.uuid)
        else:
            future.add_done_callback(functools.partial(self._cancelled, work.uuid))

    def _cancelled(self, uuid: str, future: concurrent.futures.Future[None]) -> None:
        """Where no thread was free before the queue has stopped, nothing is under way."""
        if future.cancelled():
            self._drop(uuid)

    def _forget(self) -> None:
        """Drop what waits for its turn."""
        for waiting in self._turns.values():
            for work in waiting.forget():
                self._drop(work.uuid)

    def _drop(self, uuid: str) -> None:
        with self._lock:
            self._waiting.pop(uuid, None)

    def stop(self, timeout: float) -> bool:
        """Begin nothing more and wait for what runs; True when all has ended in time."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._stopped = True
        for pool in self._pools.values():
            pool.stop(0)
        self._forget()
        return all([pool.stop(max(0, deadline - time.monotonic())) for pool in self._pools.values()])


class Turns:
    """So many at once; the others wait in a line, without a thread, and without holding up other tasks of theirs.

    :param limit: how many at once
    """

    def __init__(self, limit: int) -> None:
        self._free, self._lock = limit, threading.Lock()
        self._line: collections.deque[typing.Callable[[], typing.Any]] = collections.deque()

    def take(self, begin: typing.Callable[[], typing.Any]) -> None:
        """Call ``begin()`` when it is its turn, in this thread or in that of another's ``done``."""
        with self._lock:
            if not self._free:
                self._line.append(begin)
                return
            self._free -= 1
        begin()

    def done(self) -> None:
        """What has begun has ended: the next one's turn."""
        with self._lock:
            if not self._line:
                self._free += 1
                return
            begin = self._line.popleft()
        begin()
