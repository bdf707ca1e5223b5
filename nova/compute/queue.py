"""One task at a time for each server, without threads that wait: tasks of a busy server stand in its queue."""
import collections
import logging
import threading

from nova import concurrency
from nova import exception

LOG = logging.getLogger(__name__)


class TaskQueue:
    """
    :param builds: builds at once
    :param tasks: other tasks at once
    """

    def __init__(self, builds, tasks):
        self._pools = {True: concurrency.Pool('build', builds), False: concurrency.Pool('task', tasks)}
        self._waiting = {}           # uuid -> deque of (build, function, args); a key means that one is running
        self._lock = threading.Lock()
        self._stopped = False

    def submit(self, uuid, function, *args, build=False):
        """Run ``function(*args)`` when this server has nothing before it; returns at once."""
        with self._lock:
            if self._stopped:
                LOG.info('Task for server %s came while stopping; it is done after the next start.', uuid)
                return
            if uuid in self._waiting:
                self._waiting[uuid].append((build, function, args))
                return
            self._waiting[uuid] = collections.deque()
        self._pools[build].submit(self._run, uuid, function, args)

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
        self._pools[build].submit(self._run, uuid, function, args)

    def stop(self, timeout):
        """Begin nothing more and wait for what runs; True when all has ended in time."""
        with self._lock:
            self._stopped = True
        done = [pool.stop(timeout) for pool in self._pools.values()]
        return all(done)
