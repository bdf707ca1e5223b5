"""Digests of large contents, counted by a thread of their own, while another one receives and writes the bytes."""
from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
import functools
from typing import Any

from nova.objectstore import framed
from nova.runtime import concurrency

THREADS = 4                       # of a process: more counts than it has processors gain nothing
BATCH = 1 << 20                   # bytes handed over at once: a hand-over costs as much as counting 50 KiB
CALLS = 4096                      # of a batch, whose pieces may be small
_Call = tuple[Callable[..., Any], tuple[Any, ...]]


@functools.cache
def _pool() -> concurrency.Pool:
    return concurrency.Pool('digest', THREADS)


class Counting:
    """Calls in their order, each when those before it have ended; two batches of bytes are held at most.

    What a call raises is raised by one of the next ``add``, or by ``end``.
    """

    def __init__(self) -> None:
        self._batch: list[_Call] = []
        self._size = 0
        self._running: futures.Future[None] | None = None

    def add(self, function: Callable[[Any], Any], piece: framed.Piece) -> None:
        """Count a piece."""
        self._batch.append((function, (piece,)))
        self._size += len(piece)
        if self._size >= BATCH or len(self._batch) >= CALLS:
            self._wait()
            self._running = _pool().submit(concurrency.blocking, _run, self._batch)
            self._batch, self._size = [], 0

    def then(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call something when all pieces so far are counted."""
        self._batch.append((function, arguments))

    def end(self) -> None:
        """Wait until all is done."""
        self._wait()
        batch, self._batch, self._size = self._batch, [], 0
        _run(batch)

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.result()


def _run(batch: list[_Call]) -> None:
    for function, arguments in batch:
        function(*arguments)
