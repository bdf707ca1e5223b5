"""Progress of long operations, in percent.

A ``Report`` is a function(percent); an operation need not limit how often it calls the function. If a Report raises
an error, the operation is aborted with this error.
"""
from collections.abc import Callable, Iterable, Iterator
import contextlib
import os
import threading
import typing

from nova.runtime import concurrency
from nova.runtime import disk_space

Report = Callable[[int], None]
Moved = Callable[[int], None]            # function(number of processed bytes)

CHUNK = 256 * 1024
POLL_INTERVAL_S = 1                               # polling interval for the size of a growing file


def ignore(_value: int) -> None:
    """Report nothing."""


def part(report: Report, begin: int, end: int) -> Report:
    """Return a Report for the part of an operation between ``begin`` and ``end`` percent."""
    if report is ignore:
        return ignore
    return lambda percent: report(begin + (end - begin) * max(0, min(percent, 100)) // 100)


def of_bytes(report: Report, whole: int | None) -> Moved:
    """Return a function that reports the percentage of processed bytes; a no-op if the total ``whole`` is unknown."""
    if report is ignore or not whole:
        return ignore
    return lambda moved: report(min(100 * moved // whole, 100))


@contextlib.contextmanager
def watched(path: str, sources: Iterable[str], report: Report) -> Iterator[None]:
    """Report the progress of a tool that makes a file from ``sources`` in the block, computed from the file's size.

    An error of ``report`` does not stop the tool; the error is raised at the end of the block.
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
    while not over.wait(POLL_INTERVAL_S):
        try:
            moved(disk_space.used_bytes(path))
        except FileNotFoundError:        # the file does not exist yet
            continue
        except Exception as error:
            errors.append(error)
            return


class Reader:
    """A file that an HTTP client sends; it reports how many bytes were read.

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
        """Change the position: clients rewind the file after a token has expired."""
        return self._file.seek(offset, whence)

    def __len__(self) -> int:
        return os.fstat(self._file.fileno()).st_size
