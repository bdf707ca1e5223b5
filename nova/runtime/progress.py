"""How far a long piece of work is, in hundredths.

A ``Report`` may be called as often as it is convenient: who hands it out bounds what it costs. When it raises, the work
is given up and the error goes on.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import contextlib
import os
import threading
import typing

from nova.runtime import concurrency
from nova.runtime import disk_space

Report = Callable[[int], None]
Moved = Callable[[int], None]            # called with the bytes that are there by now

CHUNK = 256 * 1024
LOOK_S = 1                               # between two looks at a file that grows


def ignore(_value: int) -> None:
    """The Report of work whose progress is not wanted."""


def part(report: Report, begin: int, end: int) -> Report:
    """The Report of a part of the work, which is the hundredths from ``begin`` to ``end`` of it all."""
    if report is ignore:
        return ignore
    return lambda percent: report(begin + (end - begin) * max(0, min(percent, 100)) // 100)


def of_bytes(report: Report, whole: int | None) -> Moved:
    """Report how many of ``whole`` bytes have come; nothing, where it is not known how many there are."""
    if report is ignore or not whole:
        return ignore
    return lambda moved: report(100 * moved // whole)


@contextlib.contextmanager
def watched(path: str, sources: Iterable[str], report: Report) -> Iterator[None]:
    """Report meanwhile how much of these files a tool that says nothing itself has written into the file at ``path``.

    The error of a report comes at the end of the block: the tool is not stopped.
    """
    if report is ignore:
        yield
        return
    over = threading.Event()
    whole = sum(map(disk_space.used_bytes, sources))
    errors: list[Exception] = []
    thread = concurrency.spawn('progress', _follow, path, of_bytes(report, whole), over, errors)
    try:
        yield
    finally:
        over.set()
        thread.join()
    if errors:
        raise errors[0]


def _follow(path: str, moved: Moved, over: threading.Event, errors: list[Exception]) -> None:
    while not over.wait(LOOK_S):
        try:
            moved(disk_space.used_bytes(path))
        except FileNotFoundError:        # it comes yet
            continue
        except Exception as error:
            errors.append(error)
            return


class Reader:
    """A file for an HTTP client that reports how much of it was read.

    :param file: open for reading, at its beginning
    """

    def __init__(self, file: typing.BinaryIO, moved: Moved) -> None:
        self._file, self._moved = file, moved

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(size)
        self._moved(self._file.tell())
        return chunk

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self.read(CHUNK):
            yield chunk

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Clients begin again where a token has ended."""
        return self._file.seek(offset, whence)

    def __len__(self) -> int:
        return os.fstat(self._file.fileno()).st_size
