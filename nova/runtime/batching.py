"""Group commit: one of the calling threads handles the waiting requests of all callers together."""
import collections
from collections.abc import Callable
import sys
import threading
import time
from typing import Generic, TypeVar

from nova.runtime import queues

REJOIN_S = 0.00005  # maximum wait for woken threads to add their next item; much shorter than a call of ``work``


class Item:
    """One request of a Batch; ``work`` may store results in attributes.

    :param size: part of ``max_items`` that the request uses
    """

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.error: BaseException | None = None
        self._done = self._gone = False          # _gone: the thread ended while the item waited
        self._woken = threading.Lock()           # its release wakes the thread; cheaper than threading.Event
        self._woken.acquire()


Work = TypeVar('Work', bound=Item)


class Batch(Generic[Work]):
    """Requests of several threads; one thread at a time handles them together.

    There is no separate worker thread. Under low load a caller handles its own item immediately; under high load a
    caller handles the items of several. A thread that ends while it waits or works does not block the others.

    :param work: ``work(items)``, oldest first; its exception becomes the ``error`` of all these items
    :param max_items: maximum sum of the sizes of the items in one run; one item alone may be larger
    """

    def __init__(self, work: Callable[[list[Work]], object], max_items: int) -> None:
        self._work, self._max_items = work, max_items
        self._lock = threading.Lock()
        self._waiting: collections.deque[Work] = collections.deque()
        self._at_work = False
        self._was_shared = False                       # whether the last run had several items
        queues.watch(queues.BATCHES, self, lambda batch: queues.Size(batch.waiting, int(batch.working)))

    def run(self, item: Work) -> None:
        """Add an item and return when it has been handled.

        :raises: ``item.error``
        """
        with self._lock:
            self._waiting.append(item)
            mine, self._at_work = not self._at_work, True
        if not mine:
            try:
                item._woken.acquire()
            except BaseException:
                self._leave(item)
                raise
        if not item._done:
            if not mine or self._was_shared:
                self._wait_for_others(item)
            self._work_on_oldest()
        if item.error is not None:
            raise item.error

    @property
    def working(self) -> bool:
        """Return whether a thread works on items."""
        return self._at_work

    @property
    def waiting(self) -> int:
        """Return how many items wait."""
        return len(self._waiting)

    def _wait_for_others(self, item: Work) -> None:
        """If the last run had several items, wait until the other threads woken by the run have added their next items.

        Without this wait, two groups of threads would alternate, and each run would have only half the items.

        :param item: item of this thread
        """
        count = 0
        try:
            while count < len(self._waiting) < self._max_items:
                count = len(self._waiting)
                time.sleep(REJOIN_S)
        except BaseException:
            with self._lock:
                self._waiting.remove(item)
                self._wake_next()
            raise

    def _work_on_oldest(self) -> None:
        """Work on the oldest items, of which the first is this thread's item; then wake the next waiting thread."""
        with self._lock:
            items = [self._waiting.popleft()]
            room = self._max_items - items[0].size
            while self._waiting and self._waiting[0].size <= room:
                items.append(self._waiting.popleft())
                room -= items[-1].size
            self._was_shared = len(items) > 1
        done = items
        try:
            self._work(items)
        except Exception as error:
            for item in items:
                item.error = error
        except BaseException:
            done = items[:1]                     # the next thread handles the other items
            raise
        finally:
            for item in done:
                item._done = True
            for item in done[1:]:
                item._woken.release()
            with self._lock:
                self._waiting.extendleft(item for item in reversed(items[len(done):]) if not item._gone)
                self._wake_next()

    def _leave(self, item: Work) -> None:
        with self._lock:
            item._gone = True
            chosen = not item._done and not item._woken.locked()
            if item in self._waiting:
                self._waiting.remove(item)
            if chosen:
                self._wake_next()

    def _wake_next(self) -> None:
        """Wake the thread that has waited longest. The caller holds the lock."""
        self._at_work = bool(self._waiting)
        if self._waiting:
            self._waiting[0]._woken.release()


class CoalescedRun(Batch[Item]):
    """Runs a function once for all waiting callers.

    A call waits for a run that begins after the call. An error of the run is raised in all callers that wait for it.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(lambda _items: function(), sys.maxsize)

    def __call__(self) -> None:
        self.run(Item())
