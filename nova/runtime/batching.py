"""Batches of requests: a caller that finds no other at work handles all that have come until then."""
from __future__ import annotations

import collections
import threading
import time
from typing import Any

COMING_S = 0.00005           # whom the last work has woken may come again within so much; far less than any work takes


class Item:
    """One request of a Gathering; ``work`` sets its attributes as it likes."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._done = self._gone = False          # its thread was ended where it waited
        self._woken = threading.Lock()           # released to wake its thread: cheaper than an event
        self._woken.acquire()


class Gathering:
    """Threads that bring items; one of them at a time works, on all items that wait.

    A thread that is ended, where it waits or at work, leaves none of the others waiting.

    No thread of its own: under little load an item is handled at once by who brings it, and under much the more items
    wait the more are handled at once.

    :param work: ``work(items)``, oldest first; what it raises is the error of all of them
    :param most: items of one call
    """

    def __init__(self, work: Any, most: Any) -> None:
        self._work, self._most = work, most
        self._lock = threading.Lock()
        self._waiting: collections.deque[Any] = collections.deque()
        self._at_work = False
        self._much = False                       # the last call was for several items

    def bring(self, item: Any) -> None:
        """Return when the item has been worked on.

        :raises: its ``error``
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
            if not mine or self._much:
                self._let_come(item)
            self._lead()
        if item.error is not None:
            raise item.error

    @property
    def working(self) -> bool:
        """Whether a thread works on items."""
        return self._at_work

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return len(self._waiting)

    def _let_come(self, item: Any) -> None:
        """There is much to do: let those come who were woken before this thread, as long as they do.

        Without this two halves of them would take turns, and what a call costs would be shared by half as many.

        :param item: this thread's own
        """
        count = 0
        try:
            while count < len(self._waiting) < self._most:
                count = len(self._waiting)
                time.sleep(COMING_S)
        except BaseException:
            with self._lock:
                self._waiting.remove(item)
                self._hand_on()
            raise

    def _lead(self) -> None:
        """Work on the oldest items, of which the first is this thread's own; then it is the turn of the next one."""
        with self._lock:
            items = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._most))]
            self._much = len(items) > 1
        done = items
        try:
            self._work(items)
        except Exception as error:
            for item in items:
                item.error = error
        except BaseException:
            done = items[:1]                     # the others are no worse off than before: the next thread's
            raise
        finally:
            for item in done:
                item._done = True
            for item in done[1:]:
                item._woken.release()
            with self._lock:
                self._waiting.extendleft(item for item in reversed(items[len(done):]) if not item._gone)
                self._hand_on()

    def _leave(self, item: Any) -> None:
        with self._lock:
            item._gone = True
            chosen = not item._done and not item._woken.locked()
            if item in self._waiting:
                self._waiting.remove(item)
            if chosen:
                self._hand_on()

    def _hand_on(self) -> None:
        """Wake the caller that waits longest; the lock is held."""
        self._at_work = bool(self._waiting)
        if self._waiting:
            self._waiting[0]._woken.release()
