"""The contents of objects: a file each, written whole before anything names it, never changed and removed after."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent import futures
import contextlib
import os
import pathlib
from typing import Any
import uuid

from nova import exception
from nova.objectstore import framed
from nova.runtime import concurrency
from nova.runtime import disk_space
from nova.runtime import durable_files

STEP = 16 << 20                    # bytes written between two looks at the free disk, and two flushes
FLUSHES = 4                        # at the same time, ahead of the end of large contents
PIECE = 1 << 20
MOST_PIECES = 512                  # of one write: the system takes 1024
_PART = '.part'


class Contents:
    """
    :param directory: of all files; made when it is missing
    :param reserve: disk_space.Reserve
    """

    def __init__(self, directory: pathlib.Path, reserve: disk_space.Reserve) -> None:
        self._directory, self._reserve = directory, reserve
        self._flushes = concurrency.Pool('flush', FLUSHES)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def write(self, pieces: Iterable[framed.Piece], size: int = 0) -> str:
        """Keep these bytes; the name of their file. They are on disk when this returns.

        :param size: bytes that are expected
        :raises InsufficientStorage: the disk has no room for them
        """
        if size > disk_space.STEP:
            self._reserve.check(str(self._directory), size)
        name, written, total = uuid.uuid4().hex, 0, 0
        path = self._path(name)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        part = path.with_suffix(_PART)
        ahead: futures.Future[None] | None = None
        try:
            with open(part, 'xb', buffering=0) as file, contextlib.ExitStack() as stack:
                stack.callback(lambda: ahead is None or futures.wait([ahead]))      # it has the descriptor
                claim = stack.enter_context(self._reserve.claimed(
                    str(self._directory), min(size, disk_space.STEP), str(part)))
                for batch in _batches(pieces):
                    added = sum(map(len, batch))
                    claim.need(total := total + added)
                    written += _write(file.fileno(), batch)
                    if written >= STEP:
                        written = 0
                        if ahead is None or ahead.done():
                            # the disk writes while the rest comes, so that the end waits for little
                            ahead = self._flushes.submit(concurrency.blocking, os.fdatasync, file.fileno())
                if ahead is not None:
                    ahead.result()
            concurrency.blocking(durable_files.commit, part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise exception.InsufficientStorage() from error
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return name

    def close(self) -> None:
        self._flushes.stop(0)

    def open(self, name: str) -> Any:
        """A file to read from.

        :raises FileNotFoundError: it has been removed since it was looked up
        """
        return open(self._path(name), 'rb')

    def pieces(self, name: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """A part of a file."""
        with self.open(name) as file:
            yield from read(file, start, size)

    def remove(self, *names: str) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._path(name).unlink()

    def clean(self, known: set[str]) -> int:
        """Remove what nothing names, before anything is served: what a crash has left; how many files."""
        count = 0
        for path in self._directory.glob('??/*'):
            if path.name not in known:
                path.unlink()
                count += 1
        return count

    def _path(self, name: str) -> pathlib.Path:
        return self._directory / name[:2] / name


def _batches(pieces: Iterable[framed.Piece]) -> Iterator[list[framed.Piece]]:
    """The pieces, as many as are written at once: each write is a chance for another thread, which takes its time."""
    batch: list[framed.Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if size >= PIECE or len(batch) == MOST_PIECES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write(number: int, pieces: list[framed.Piece]) -> int:
    """Write all of these bytes; how many.

    :param number: descriptor of a file
    """
    size = sum(len(piece) for piece in pieces)
    left = size
    while left:
        left -= (written := os.writev(number, pieces))
        while left and written >= len(pieces[0]):
            written -= len(pieces.pop(0))
        if left:
            pieces[0] = memoryview(pieces[0])[written:]
    return size


def read(file: Any, start: int = 0, size: int | None = None) -> Iterator[bytes]:
    """The bytes of an open file from a place on."""
    file.seek(start)
    while size is None or size > 0:
        piece = file.read(PIECE if size is None else min(PIECE, size))
        if not piece:
            return
        if size is not None:
            size -= len(piece)
        yield piece
