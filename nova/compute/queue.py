"""One task at a time for each server, without threads that wait: tasks of a busy server stand in its queue."""
import collections
import concurrent.futures
import functools
import logging
import threading
import time

from nova import exception
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

MIGRATION = 'live-migration'
LOOK_S = 1           # seconds between two looks whether a task that is waited for was given up


class TaskQueue:
    """
    :param builds: builds at once
    :param tasks: other tasks at once
    :param migrations: servers that leave this host live, at once
    """

    def __init__(self, builds, tasks, migrations=1):
        self._pools = {True: concurrency.Pool('build', builds), False: concurrency.Pool('task', tasks),
                       MIGRATION: concurrency.Pool('live-migration', migrations)}
        self._waiting = {}           # uuid -> deque of (build, function, args); a key means that one is running
        self._lock = threading.Lock()
        self._stopped = False

    def submit(self, uuid, function, *args, build=False):
        """Run ``function(*args)`` when this server has nothing before it; returns at once.

        :param build: True for a build, MIGRATION for a live migration: there are bounds of their own for these
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

    def run(self, uuid, function, *args):
        """``submit``, and wait for it: the function's result.

        :raises Unavailable: the service is stopping
        """
        future = concurrent.futures.Future()

        def body():
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)
        self.submit(uuid, body)
        while not concurrent.futures.wait([future], LOOK_S).done:
            if self._stopped and not self.busy(uuid) and not future.done():
                raise exception.Unavailable('The compute host of the server is stopping.')
        return future.result()

    def in_progress(self):
        """{uuid: tasks that wait behind the one that runs}"""
        with self._lock:
            return {uuid: len(waiting) for uuid, waiting in self._waiting.items()}

    def busy(self, uuid):
        return uuid in self._waiting

    def _run(self, uuid, function, args):
        try:
            function(*args)
        except (exception.InstanceChanged, exception.InstanceNotFound) as error:
            LOG.info('A task of server %s was overtaken: %s', uuid, error.message)
        except Exception:
            LOG.exception('A task of server %s failed outside of its own care.', uuid)
        finally:
            self._next(uuid)

    def _next(self, uuid):
        with self._lock:
            waiting = self._waiting[uuid]
            if not waiting or self._stopped:
                del self._waiting[uuid]
                return
            build, function, args = waiting.popleft()
        self._begin(build, uuid, function, args)

    def _begin(self, build, uuid, function, args):
        self._pools[build].submit(self._run, uuid, function, args).add_done_callback(
            functools.partial(self._cancelled, uuid))

    def _cancelled(self, uuid, future):
        """Where no thread was free before the queue has stopped, nothing is under way."""
        if future.cancelled():
            with self._lock:
                self._waiting.pop(uuid, None)

    def stop(self, timeout):
        """Begin nothing more and wait for what runs; True when all has ended in time."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._stopped = True
        for pool in self._pools.values():
            pool.stop(0)
        return all([pool.stop(max(0, deadline - time.monotonic())) for pool in self._pools.values()])


class Turns:
    """So many at once; the others stand in a line, without a thread, and without holding up other tasks of theirs.

    :param limit: how many at once
    """

    def __init__(self, limit):
        self._free, self._line, self._lock = limit, collections.deque(), threading.Lock()

    def take(self, begin):
        """Call ``begin()`` when it is its turn, in this thread or in that of another's ``done``."""
        with self._lock:
            if not self._free:
                self._line.append(begin)
                return
            self._free -= 1
        begin()

    def done(self):
        """What has begun has ended: the next one's turn."""
        with self._lock:
            if not self._line:
                self._free += 1
                return
            begin = self._line.popleft()
        begin()
