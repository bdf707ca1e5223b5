"""Digests of large contents, computed in a second thread while the first one receives and writes the bytes."""
from collections.abc import Callable
from concurrent import futures
import functools
from typing import TypeVarTuple, Unpack

from nova.objectstore import framing
from nova.runtime import concurrency

THREADS = 4                       # threads of a process; more threads than processors have no benefit
BATCH = 1 << 20                   # bytes in a batch; passing a batch to a thread costs as much as hashing 50 KiB
CALLS = 4096                      # maximum calls in a batch: many small pieces need long to reach BATCH
_Args = TypeVarTuple('_Args')
_Call = tuple[Callable[..., object], tuple[object, ...]]


@functools.cache
def _pool() -> concurrency.Pool:
    return concurrency.Pool('digest', THREADS)


class BackgroundCalls:
    """Runs calls in order in another thread, with at most two buffered batches.

    An exception in the thread is raised by a later ``add`` or ``end``.
    """

    def __init__(self) -> None:
        self._batch: list[_Call] = []
        self._size = 0
        self._running: futures.Future[None] | None = None

    def add(self, function: Callable[[framing.Piece], object], piece: framing.Piece) -> None:
        """Call a function with a piece in the other thread."""
        self._batch.append((function, (piece,)))
        self._size += len(piece)
        if self._size >= BATCH or len(self._batch) >= CALLS:
            self._wait()
            self._running = _pool().submit(concurrency.blocking, _run, self._batch)
            self._batch, self._size = [], 0

    def then(self, function: Callable[[Unpack[_Args]], object], *arguments: *_Args) -> None:
        """Call a function after the calls for all previous pieces."""
        self._batch.append((function, arguments))

    def end(self) -> None:
        """Wait for all calls."""
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
