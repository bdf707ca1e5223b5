"""Verify files of the image store against their image's checksum.

A file of the store is written once, hashed during the upload, and never changed; its name is not reused. Verification
detects disk errors and manual changes. Hashing a file takes longer than most operations that read it. Therefore:

- a file is hashed again only if this process has not hashed it for a day, or its size, inode or mtime has changed;
- hashing runs in parallel with the reader, which uses the data only if both succeed;
- a file that was moved into the store has no checksum at first (pending_hashes) and is used without verification.

See ADR 0025.
"""
import collections
from collections.abc import Iterator
import contextlib
import hashlib
import os
import threading
import time
from typing import BinaryIO

from nova import exception
from nova.image.embedded import files
from nova.image.embedded import hashing
from nova.image.embedded.stored_image import StoredImage
from nova.runtime import concurrency

FRESH_S = 86400
MAX_FILES = 10000                             # maximum number of remembered files

State = tuple[int, int, int, int]


class Digests:
    """Verifies files, and remembers for a day which files were verified."""

    def __init__(self) -> None:
        self._known: collections.OrderedDict[str, tuple[State, float]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def remember(self, data_id: str, state: State) -> None:
        """Record that a file in this state was just hashed."""
        with self._lock:
            self._known[data_id] = state, time.monotonic()
            self._known.move_to_end(data_id)
            while len(self._known) > MAX_FILES:
                self._known.popitem(last=False)

    def forget(self, data_id: str) -> None:
        with self._lock:
            self._known.pop(data_id, None)

    def is_fresh(self, data_id: str, state: State) -> bool:
        with self._lock:
            found, then = self._known.get(data_id, (None, 0.0))
        return found == state and time.monotonic() - then < FRESH_S

    @contextlib.contextmanager
    def checked(self, image: StoredImage, source: BinaryIO) -> Iterator[None]:
        """Context manager that hashes an open file during the block, unless it was hashed within the last day.

        :raises ImageUnacceptable: at the end of the block, if the data differs from the upload; or this machine cannot
            compute the checksum
        """
        state = state_of(source)
        expected = None if self.is_fresh(image['data_id'], state) else hashing.expected(image)
        if expected is None:
            yield
        else:
            check = _Check(*expected, source)
            try:
                yield
            except BaseException:
                check.cancel()
                raise
            if not check.matches():
                raise _refusal(image, 'its checksum does not match')
            self.remember(image['data_id'], state)
        if state_of(source) != state:
            self.forget(image['data_id'])
            raise _refusal(image, 'its file was changed while it was read')


class _Check:
    """A digest that a thread computes."""

    def __init__(self, algorithm: str, expected: str, source: BinaryIO) -> None:
        self._algorithm, self._expected = algorithm, expected
        self._descriptor = os.dup(source.fileno())  # duplicated: the caller may close ``source`` before the thread ends
        self._cancelled = False
        self._found: str | None = None
        self._error: Exception | None = None
        self._thread = concurrency.spawn('image-digest', self._run)

    def cancel(self) -> None:
        """Stop the computation without a result."""
        self._cancelled = True
        self._thread.join()

    def matches(self) -> bool:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found == self._expected

    def _run(self) -> None:
        try:
            self._found = concurrency.blocking(self._digest)
        except OSError as error:                             # read error
            self._error = error
        finally:
            os.close(self._descriptor)

    def _digest(self) -> str | None:
        made, offset = hashlib.new(self._algorithm, usedforsecurity=False), 0
        while chunk := os.pread(self._descriptor, files.CHUNK, offset):
            if self._cancelled:
                return None
            made.update(chunk)
            offset += len(chunk)
        return made.hexdigest()


def state_of(file: BinaryIO) -> State:
    """Return attributes of an open file that reveal a later change or replacement of the file."""
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _refusal(image: StoredImage, reason: str) -> exception.ImageUnacceptable:
    return exception.ImageUnacceptable(image_id=image['id'], reason=reason)
