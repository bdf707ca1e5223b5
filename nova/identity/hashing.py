"""Pool of threads for slow hashes, so that a flood of logins leaves CPU time and HTTP threads for other requests.

Each client address has a queue of callers, and the queues are served round-robin. If the pool is full, a caller with a
shorter queue displaces a caller in the longest queue. The displaced caller gets ServiceBusy and must retry.
"""
import collections
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, TypeVar, TypeVarTuple, Unpack

from nova import exception
from nova.runtime import concurrency
from nova.runtime import queues

_Args = TypeVarTuple('_Args')
_Result = TypeVar('_Result')
Job = tuple[futures.Future[Any], Callable[[], Any]]

IDLE_S = 5                   # idle time after which a thread ends
RETRY_S = 2                  # seconds of Retry-After
NICENESS = 5                 # nice value of the pool's threads


def workers() -> int:
    """Return the number of threads: half of the processors."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


class HashPool:
    """Hash pool with fair queues.

    :param size: concurrent hashes
    :param places: maximum number of waiting and running callers
    """

    def __init__(self, size: int, places: int) -> None:
        self._size, self._places = size, max(places, size)
        self._changed = threading.Condition()
        # {address: deque of (future, function), oldest first}
        self._queues: collections.OrderedDict[str, collections.deque[Job]] = collections.OrderedDict()
        self._held = self._waiting = 0                   # number of callers; number of waiting callers
        self._threads = self._idle = 0
        queues.watch(queues.HASHES, self, lambda pool: queues.Size(pool._waiting, pool._held - pool._waiting))

    def check(self, address: str) -> None:
        """Check that ``run`` would accept a caller, before other work is done for the request.

        :raises ServiceBusy: the pool is full
        """
        with self._changed:
            if self._held >= self._places and self._longest_queue(address) is None:
                raise exception.ServiceBusy(retry_after=RETRY_S)

    def run(self, address: str, function: Callable[[Unpack[_Args]], _Result], *args: *_Args) -> _Result:
        """Call ``function(*args)`` in a thread of the pool, and return its result.

        :param address: of the client; queues of addresses are served round-robin
        :raises ServiceBusy: the pool is full, or another address displaced this caller
        """
        job: futures.Future[_Result] = futures.Future()
        with self._changed:
            if self._held >= self._places:
                longest = self._longest_queue(address)
                if longest is None:
                    raise exception.ServiceBusy(retry_after=RETRY_S)
                self._take_from(longest)
            if self._waiting >= self._idle and self._threads < self._size:
                if concurrency.try_spawn('hashing', self._work):
                    self._threads += 1
                elif not self._threads:
                    raise exception.ServiceBusy(retry_after=RETRY_S)
            self._held += 1
            self._queues.setdefault(address, collections.deque()).append((job, lambda: function(*args)))
            self._waiting += 1
            self._changed.notify()
        return job.result()

    def _longest_queue(self, address: str) -> str | None:
        """Return the address with the longest queue if it has at least two more callers than the queue of ``address``.
        """
        if not self._queues:
            return None
        longest = max(self._queues, key=lambda name: len(self._queues[name]))
        return longest if len(self._queues[longest]) > len(self._queues.get(address, ())) + 1 else None

    def _take_from(self, address: str) -> None:
        """Displace the newest job of an address. The address must have at least two jobs."""
        job, _function = self._queues[address].pop()
        self._held -= 1
        self._waiting -= 1
        job.set_exception(exception.ServiceBusy(retry_after=RETRY_S))

    def _next(self) -> Job | None:
        """Return the next job, or None after a timeout."""
        if not self._queues:
            self._idle += 1
            self._changed.wait(IDLE_S)
            self._idle -= 1
        if not self._queues:
            return None
        address, jobs = self._queues.popitem(last=False)
        found = jobs.popleft()
        self._waiting -= 1
        if jobs:
            self._queues[address] = jobs                     # the address goes to the end of the queue of addresses
        return found

    def _work(self) -> None:
        if concurrency.model() == 'native':
            with contextlib.suppress(OSError):           # a lower priority is optional, and setting it may be forbidden
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while True:
            with self._changed:
                found = self._next()
                if found is None:
                    self._threads -= 1
                    return
            job, function = found
            try:
                job.set_result(function())
            except BaseException as error:
                job.set_exception(error)
            with self._changed:
                self._held -= 1
