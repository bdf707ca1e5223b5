"""Requests that wait, handled together: whoever finds nobody at work works for all that have come until then."""
import collections
import threading


class Item:
    """One request of a Gathering; ``work`` sets its attributes as it likes."""

    def __init__(self):
        self.error = None
        self._done = False
        self._woken = threading.Lock()           # released to wake its thread: cheaper than an event
        self._woken.acquire()


class Gathering:
    """Threads that bring items; one of them at a time works, on all items that wait.

    No thread of its own: under little load an item is handled at once by who brings it, and under much the more items
    wait the more are handled at once.

    :param work: ``work(items)``, oldest first; what it raises is the error of all of them
    :param most: items of one call
    """

    def __init__(self, work, most):
        self._work, self._most = work, most
        self._lock = threading.Lock()
        self._waiting = collections.deque()
        self._at_work = False

    def bring(self, item):
        """Return when the item has been worked on.

        :raises: its ``error``
        """
        with self._lock:
            self._waiting.append(item)
            mine, self._at_work = not self._at_work, True
        if not mine:
            item._woken.acquire()
        if not item._done:
            self._lead()
        if item.error is not None:
            raise item.error

    def _lead(self):
        """Work on the oldest items, of which the first is this thread's own; then it is the turn of the next one."""
        with self._lock:
            items = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._most))]
        try:
            self._work(items)
        except BaseException as error:
            for item in items:
                item.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            for item in items:
                item._done = True
            for item in items[1:]:
                item._woken.release()
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._at_work = following is not None
            if following is not None:
                following._woken.release()
