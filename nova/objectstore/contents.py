"""Contents of objects. Each content is an immutable file. The file is written before the row that refers to it, and
deleted after the row is deleted.
"""
from collections.abc import Iterable, Iterator
from concurrent import futures
import contextlib
import logging
import os
import pathlib
from typing import BinaryIO
import uuid

from nova import exception
from nova.objectstore import framing
from nova.runtime import concurrency
from nova.runtime import disk_space
from nova.runtime import durable_files

STEP = 16 << 20                    # bytes between two checks of free space, and between two flushes
FLUSHES = 4                        # concurrent flushes during large writes
PIECE = 1 << 20
MAX_PIECES = 512                  # pieces in one writev call; the limit of Linux is 1024
_PART = '.part'
UNREFERENCED = 'unreferenced'     # subdirectory of files that are not in the index

LOG = logging.getLogger(__name__)


class Contents:
    """Store of content files.

    :param directory: directory of all files; created if missing
    :param reserve: disk_space.Reserve
    """

    def __init__(self, directory: pathlib.Path, reserve: disk_space.Reserve) -> None:
        self._directory, self._reserve = directory, reserve
        self._flushes = concurrency.Pool('flush', FLUSHES)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def write(self, pieces: Iterable[framing.Piece], size: int = 0) -> str:
        """Write a content durably to a new file and return the name of the file.

        :param size: expected number of bytes
        :raises InsufficientStorage: the disk is full
        :raises OSError: the disk, or a file from which the pieces are read, fails
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
                stack.callback(lambda: ahead is None or futures.wait([ahead]))  # a running flush needs the open file
                claim = stack.enter_context(self._reserve.claimed(
                    str(self._directory), min(size, disk_space.STEP), str(part)))
                for batch in _batches(pieces):
                    added = sum(map(len, batch))
                    claim.need(total := total + added)
                    written += _write(file.fileno(), batch)
                    if written >= STEP:
                        written = 0
                        if ahead is None or ahead.done():
                            # flush during the upload to shorten the final fsync
                            ahead = self._flushes.submit(concurrency.blocking, os.fdatasync, file.fileno())
                if ahead is not None:
                    ahead.result()
            concurrency.blocking(durable_files.commit, part, path)
        except BaseException as error:
            part.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in disk_space.FULL:
                raise exception.InsufficientStorage() from error
            raise
        return name

    def close(self) -> None:
        self._flushes.stop(0)

    def open(self, name: str) -> BinaryIO:
        """Open a content for reading.

        :raises FileNotFoundError: it was deleted since the lookup
        """
        return open(self._path(name), 'rb')

    def pieces(self, name: str, start: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of a content, or of a part of it."""
        with self.open(name) as file:
            yield from read(file, start, size)

    def remove(self, *names: str) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._path(name).unlink()

    def clean(self, known: set[str]) -> None:
        """Delete incomplete files, and move unreferenced files to UNREFERENCED. Call this function only at start.

        A crash leaves few unreferenced files. A lost index, or an older one, leaves many: they are not deleted, and are
        moved back when the right index is there again.
        """
        apart = self._directory / UNREFERENCED
        for path in [*self._directory.glob('??/*'), *apart.glob('*')]:
            if path.suffix == _PART:
                path.unlink()
            elif (path.name in known) == (path.parent == apart):
                target = self._path(path.name) if path.name in known else apart / path.name
                target.parent.mkdir(exist_ok=True, mode=0o700)
                path.rename(target)
        if count := len(list(apart.glob('*'))):
            LOG.error('%s files of the object store are not in its index. They are kept in %s, because the index may '
                      'have been lost or restored from a backup. Restore index.sqlite and start again, or delete them '
                      'if they are not needed.', count, apart)

    def _path(self, name: str) -> pathlib.Path:
        return self._directory / name[:2] / name


def _batches(pieces: Iterable[framing.Piece]) -> Iterator[list[framing.Piece]]:
    """Group pieces into batches to reduce the number of writes, because each write may yield to other threads."""
    batch: list[framing.Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if size >= PIECE or len(batch) == MAX_PIECES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write(number: int, pieces: list[framing.Piece]) -> int:
    """Write all bytes and return their number.

    :param number: file descriptor
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


def read(file: BinaryIO, start: int = 0, size: int | None = None) -> Iterator[bytes]:
    """Yield ``size`` bytes of an open file from an offset; None: up to the end of the file."""
    file.seek(start)
    while size is None or size > 0:
        piece = file.read(PIECE if size is None else min(PIECE, size))
        if not piece:
            return
        if size is not None:
            size -= len(piece)
        yield piece
