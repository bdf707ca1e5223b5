"""Slow hashes are made by few threads beside everything else: a flood of logins takes neither the processors nor the
threads that other requests need.

Who waits is served in turn by address. When all places are taken, whoever has the most of them gives one to an address
that has fewer, and is told to come again.
"""
import collections
import contextlib
import os
import threading
from concurrent import futures

from nova import exception
from nova.runtime import concurrency

IDLE_S = 5                   # a thread that has nothing to do for so long ends
RETRY_S = 2                  # when there may be a place again
NICENESS = 5                 # threads of the operating system that hash come after those that answer


def workers():
    """How many hashes are made at once: half of the processors, so that the other faces keep theirs."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


class HashPool:
    """
    :param size: hashes at once
    :param places: callers that wait or are served at once
    """

    def __init__(self, size, places):
        self._size, self._places = size, max(places, size)
        self._changed = threading.Condition()
        self._lanes = collections.OrderedDict()          # address: deque of (future, function), the next one first
        self._held = self._waiting = 0                   # places that are taken; those of them that nobody serves yet
        self._threads = self._idle = 0

    def check(self, lane):
        """Whether ``run`` would have a place, asked before there is any work with a request.

        :raises ServiceBusy: there is none
        """
        with self._changed:
            if self._held >= self._places and self._greedier(lane) is None:
                raise exception.ServiceBusy(retry_after=RETRY_S)

    def run(self, lane, function, *args):
        """The result of ``function(*args)``, called by one of the threads.

        :param lane: who asks: an address; lanes are served in turn
        :raises ServiceBusy: there is no place, or another lane needed it more
        """
        job = futures.Future()
        with self._changed:
            if self._held >= self._places:
                greedy = self._greedier(lane)
                if greedy is None:
                    raise exception.ServiceBusy(retry_after=RETRY_S)
                self._take_from(greedy)
            self._held += 1
            self._lanes.setdefault(lane, collections.deque()).append((job, lambda: function(*args)))
            self._waiting += 1
            self._changed.notify()
            if self._waiting > self._idle and self._threads < self._size:
                self._threads += 1
                concurrency.spawn('hashing', self._work)
        return job.result()

    def _greedier(self, lane):
        """The lane with the most waiting, if it has at least two more than this one."""
        if not self._lanes:
            return None
        longest = max(self._lanes, key=lambda name: len(self._lanes[name]))
        return longest if len(self._lanes[longest]) > len(self._lanes.get(lane, ())) + 1 else None

    def _take_from(self, lane):
        """The newest of a lane goes; others of its lane stay, so it does not end."""
        job, _function = self._lanes[lane].pop()
        self._held -= 1
        self._waiting -= 1
        job.set_exception(exception.ServiceBusy(retry_after=RETRY_S))

    def _next(self):
        """The next job in turn, or None when there is none for a while."""
        if not self._lanes:
            self._idle += 1
            self._changed.wait(IDLE_S)
            self._idle -= 1
        if not self._lanes:
            return None
        lane, jobs = self._lanes.popitem(last=False)
        found = jobs.popleft()
        self._waiting -= 1
        if jobs:
            self._lanes[lane] = jobs                     # behind the others
        return found

    def _work(self):
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
