"""Compute slow hashes in a few threads of their own, so that a flood of logins leaves processors and threads to other
requests.

Callers wait in one queue per address, and the queues are served in turn. When all places are taken, the longest queue
gives one up to an address that has fewer: its caller gets ServiceBusy and retries.
"""
import collections
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

from nova import exception
from nova.runtime import concurrency

Job = tuple[futures.Future[Any], Callable[[], Any]]

IDLE_S = 5                   # a thread that has nothing to do for so long ends
RETRY_S = 2                  # when there may be a place again
NICENESS = 5                 # threads of the operating system that hash come after those that answer


def workers() -> int:
    """How many hashes are made at once: half of the processors, so that the other faces keep theirs."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


class HashPool:
    """
    :param size: hashes at once
    :param places: callers that wait or are served at once
    """

    def __init__(self, size: int, places: int) -> None:
        self._size, self._places = size, max(places, size)
        self._changed = threading.Condition()
        # address: deque of (future, function), the next one first
        self._queues: collections.OrderedDict[str, collections.deque[Job]] = collections.OrderedDict()
        self._held = self._waiting = 0                   # places that are taken; those of them that are not served yet
        self._threads = self._idle = 0

    def check(self, address: str) -> None:
        """Check that ``run`` would have a place, before there is any work with a request.

        :raises ServiceBusy: there is none
        """
        with self._changed:
            if self._held >= self._places and self._longest_queue(address) is None:
                raise exception.ServiceBusy(retry_after=RETRY_S)

    def run(self, address: str, function: Callable[..., Any], *args: Any) -> Any:
        """The result of ``function(*args)``, called by one of the threads.

        :param address: the caller's; addresses are served in turn
        :raises ServiceBusy: there is no place, or it was given to another address
        """
        job: futures.Future[Any] = futures.Future()
        with self._changed:
            if self._held >= self._places:
                longest = self._longest_queue(address)
                if longest is None:
                    raise exception.ServiceBusy(retry_after=RETRY_S)
                self._take_from(longest)
            self._held += 1
            self._queues.setdefault(address, collections.deque()).append((job, lambda: function(*args)))
            self._waiting += 1
            self._changed.notify()
            if self._waiting > self._idle and self._threads < self._size:
                self._threads += 1
                concurrency.spawn('hashing', self._work)
        return job.result()

    def _longest_queue(self, address: str) -> str | None:
        """The address with the longest queue, if it has at least two more than this one."""
        if not self._queues:
            return None
        longest = max(self._queues, key=lambda name: len(self._queues[name]))
        return longest if len(self._queues[longest]) > len(self._queues.get(address, ())) + 1 else None

    def _take_from(self, address: str) -> None:
        """Remove the newest job of an address; others of it stay, so its queue does not end."""
        job, _function = self._queues[address].pop()
        self._held -= 1
        self._waiting -= 1
        job.set_exception(exception.ServiceBusy(retry_after=RETRY_S))

    def _next(self) -> Job | None:
        """The next job in turn, or None when there is none for a while."""
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
            self._queues[address] = jobs                     # behind the others
        return found

    def _work(self) -> None:
        if concurrency.model() == 'native':
            with contextlib.suppress(OSError):           # where it is forbidden it goes without
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
