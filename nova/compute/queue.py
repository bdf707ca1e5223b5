"""One task at a time for each server, without threads that wait: tasks of a busy server stand in its queue."""
import collections
import concurrent.futures
import functools
import logging
import threading
import time
import typing

from nova import exception
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

_Args = typing.TypeVarTuple('_Args')
_Result = typing.TypeVar('_Result')

Function = typing.Callable[..., object]

MIGRATION = 'live-migration'
COPIES, COPIES_AT_ONCE = 'copies', 4       # of volumes, in the background of the tasks that wait for them
LOOK_S = 1           # seconds between two looks whether the awaited task was given up


class TaskQueue:
    """
    :param builds: builds at once
    :param tasks: other tasks at once
    :param migrations: servers that leave this host live, at once
    """

    def __init__(self, builds: int, tasks: int, migrations: int = 1) -> None:
        self._pools: dict[bool | str, concurrency.Pool] = {
            True: concurrency.Pool('build', builds), False: concurrency.Pool('task', tasks),
            MIGRATION: concurrency.Pool('live-migration', migrations), COPIES: concurrency.Pool('copy', COPIES_AT_ONCE)}
        # uuid -> tasks that wait: (build, function, args); a key means that one is running
        self._waiting: dict[str, collections.deque[tuple[bool | str, Function, tuple[object, ...]]]] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def submit(self, uuid: str, function: typing.Callable[[*_Args], object], *args: *_Args,
               build: bool | str = False) -> None:
        """Run ``function(*args)`` when this server has nothing before it; returns at once.

        :param build: True for a build, MIGRATION for a live migration, COPIES for copies of volumes, which have bounds
            of their own
        """
        with self._lock:
            if self._stopped:
                LOG.info('Task for server %s came while stopping; it is done after the next start.', uuid)
                return
            if uuid in self._waiting:
                self._waiting[uuid].append((build, function, args))
                return
            self._waiting[uuid] = collections.deque()
        self._begin(build, uuid, function, args)

    def run(self, uuid: str, function: typing.Callable[[*_Args], _Result], *args: *_Args) -> _Result:
        """``submit``, and wait for it: the function's result.

        :raises Unavailable: the service is stopping
        """
        future: concurrent.futures.Future[_Result] = concurrent.futures.Future()

        def body() -> None:
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)
        self.submit(uuid, body)
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

    def _run(self, uuid: str, function: Function, args: tuple[object, ...]) -> None:
        try:
            function(*args)
        except (exception.InstanceChanged, exception.InstanceNotFound) as error:
            LOG.info('A task of server %s was overtaken: %s', uuid, error.message)
        except Exception:
            LOG.exception('A task of server %s failed outside of its own care.', uuid)
        finally:
            self._next(uuid)

    def _next(self, uuid: str) -> None:
        with self._lock:
            waiting = self._waiting[uuid]
            if not waiting or self._stopped:
                del self._waiting[uuid]
                return
            build, function, args = waiting.popleft()
        self._begin(build, uuid, function, args)

    def _begin(self, build: bool | str, uuid: str, function: Function, args: tuple[object, ...]) -> None:
        self._pools[build].submit(self._run, uuid, function, args).add_done_callback(
            functools.partial(self._cancelled, uuid))

    def _cancelled(self, uuid: str, future: concurrent.futures.Future[None]) -> None:
        """Where no thread was free before the queue has stopped, nothing is under way."""
        if future.cancelled():
            with self._lock:
                self._waiting.pop(uuid, None)

    def stop(self, timeout: float) -> bool:
        """Begin nothing more and wait for what runs; True when all has ended in time."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._stopped = True
        for pool in self._pools.values():
            pool.stop(0)
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
