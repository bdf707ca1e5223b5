"""Task queue: one task at a time for each server; waiting tasks use no thread.

Threads are scheduled fairly between projects (nova/runtime/fairness.py): slow tasks of one project leave threads to
others.
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
from nova.runtime import queues

LOG = logging.getLogger(__name__)

_Args = typing.TypeVarTuple('_Args')
_Result = typing.TypeVar('_Result')

Function = typing.Callable[..., object]

MIGRATION = 'live-migration'
COPIES, COPIES_AT_ONCE = 'copies', 4       # kind of the tasks that copy volumes, and how many may run concurrently
POLL_INTERVAL_S = 1      # seconds after which a waiting caller checks again whether the queue has dropped its task


@dataclasses.dataclass(frozen=True)
class _Work:
    uuid: str
    project_id: str
    kind: bool | str
    function: Function
    args: tuple[object, ...]


class TaskQueue:
    """Queue of the tasks of all servers.

    :param builds: concurrent builds
    :param tasks: other concurrent tasks
    :param migrations: concurrent outgoing live migrations
    """

    def __init__(self, builds: int, tasks: int, migrations: int = 1) -> None:
        sizes: dict[bool | str, tuple[str, int]] = {
            True: ('build', builds), False: ('task', tasks), MIGRATION: ('live-migration', migrations),
            COPIES: ('copy', COPIES_AT_ONCE)}
        self._executors = {kind: fairness.FairExecutor(queues.TASKS, name, size)
                           for kind, (name, size) in sizes.items()}
        # uuid -> waiting tasks; an existing key means that a task runs or waits for a thread
        self._waiting: dict[str, collections.deque[_Work]] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def submit(self, uuid: str, function: typing.Callable[[*_Args], object], *args: *_Args,
               build: bool | str = False, project_id: str = '') -> None:
        """Run ``function(*args)`` after the earlier tasks of this server; return immediately.

        :param build: True for a build, MIGRATION for a live migration, COPIES for copies of volumes; each has a
            separate limit
        :param project_id: project for fair scheduling; '': the host's own work
        """
        # keep the caller's context, because a thread with another context may run the work
        work = _Work(uuid, project_id, build, concurrency.with_context(function), args)
        with self._lock:
            if self._stopped:
                LOG.info('The service is stopping: a task of server %s is continued at the next start.', uuid)
                return
            if uuid in self._waiting:
                self._waiting[uuid].append(work)
                return
            self._waiting[uuid] = collections.deque()
        self._begin(work)

    def run(self, uuid: str, function: typing.Callable[[*_Args], _Result], *args: *_Args,
            project_id: str = '') -> _Result:
        """Submit a task and wait; return the function's result.

        :raises Unavailable: the service is stopping
        """
        future: concurrent.futures.Future[_Result] = concurrent.futures.Future()

        def body() -> None:
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)
        self.submit(uuid, body, project_id=project_id)
        while not concurrent.futures.wait([future], POLL_INTERVAL_S).done:
            if self._stopped and not self.busy(uuid) and not future.done():
                raise exception.Unavailable('The compute host of the server is stopping.')
        return future.result()

    def in_progress(self) -> dict[str, int]:
        """Return {uuid: number of tasks that wait behind the running one}."""
        with self._lock:
            return {uuid: len(waiting) for uuid, waiting in self._waiting.items()}

    def busy(self, uuid: str) -> bool:
        """Return whether a task of the server runs or waits."""
        return uuid in self._waiting

    def _run(self, work: _Work) -> None:
        try:
            work.function(*work.args)
        except (exception.InstanceChanged, exception.InstanceNotFound) as error:
            LOG.info('A task of server %s ended early: %s', work.uuid, error.message)
        except Exception:
            LOG.exception('A task of server %s failed with an unexpected error.', work.uuid)
        finally:
            self._next(work)

    def _next(self, ended: _Work) -> None:
        with self._lock:
            waiting = self._waiting[ended.uuid]
            following = waiting.popleft() if waiting and not self._stopped else None
            if following is None:
                del self._waiting[ended.uuid]
        if following is not None:
            self._begin(following)

    def _begin(self, work: _Work) -> None:
        try:
            future = self._executors[work.kind].submit(work.project_id, self._run, work)
        except RuntimeError:                         # the queue stops
            self._drop(work.uuid)
        else:
            future.add_done_callback(functools.partial(self._cancelled, work.uuid))

    def _cancelled(self, uuid: str, future: concurrent.futures.Future[None]) -> None:
        """Drop a task that got no thread before the queue stopped."""
        if future.cancelled():
            self._drop(uuid)

    def _drop(self, uuid: str) -> None:
        with self._lock:
            self._waiting.pop(uuid, None)

    def stop(self, timeout: float) -> bool:
        """Start no further task and wait for the running ones; return True if all have ended in time."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._stopped = True
        for executor in self._executors.values():
            executor.stop(0)
        return all([executor.stop(max(0, deadline - time.monotonic())) for executor in self._executors.values()])
