"""Which files of the image store have the bytes that their image's checksum was made of.

A file of the store is written once, hashed on its way, and never changed; its name is never used again. So what has to
be found is a disk that lost or changed bytes, or a hand that changed the file. Reading and hashing all of it takes
longer than what most readers do with it, hence:

- a file is hashed again when this process has not hashed it within the last day, or its size, its number or the time of
  its last change is not what it was then
- that is done while the file is read, and its reader uses nothing of it before both have ended well

See doc/source/adr/0088-images-are-read-in-place.rst.
"""
from __future__ import annotations

import collections
from collections.abc import Iterator
import contextlib
import hashlib
import os
import threading
import time
from typing import Any

from nova import exception
from nova.image.embedded import files
from nova.runtime import concurrency

FRESH_S = 86400
MOST = 10000                             # files that are remembered
ALGORITHMS = (('os_hash_algo', 'os_hash_value'), ('', 'checksum'))       # of an image; the second one is MD5

State = tuple[int, int, int, int]


class Digests:
    """Remembers what was hashed."""

    def __init__(self) -> None:
        self._known: collections.OrderedDict[str, tuple[State, float]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def remember(self, data_id: str, state: State) -> None:
        """A file in this state was hashed just now."""
        with self._lock:
            self._known[data_id] = state, time.monotonic()
            self._known.move_to_end(data_id)
            while len(self._known) > MOST:
                self._known.popitem(last=False)

    def forget(self, data_id: str) -> None:
        with self._lock:
            self._known.pop(data_id, None)

    def is_fresh(self, data_id: str, state: State) -> bool:
        with self._lock:
            found, then = self._known.get(data_id, (None, 0.0))
        return found == state and time.monotonic() - then < FRESH_S

    @contextlib.contextmanager
    def checked(self, image: dict[str, Any], source: Any) -> Iterator[None]:
        """Hash an open file while the block reads it, unless that was done within the last day.

        :raises ImageUnacceptable: at the end of the block: what it read is not what was uploaded
        """
        state = state_of(source)
        if self.is_fresh(image['data_id'], state):
            yield
        else:
            check = _Check(image, source)
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
            raise _refusal(image, 'its file was changed meanwhile')


class _Check:
    """A digest that is made by a thread."""

    def __init__(self, image: dict[str, Any], source: Any) -> None:
        self._algorithm, self._expected = _expected(image)
        self._descriptor = os.dup(source.fileno())           # of its own: it may outlive the block for a moment
        self._cancelled = False
        self._found: str | None = None
        self._error: Exception | None = None
        self._thread = concurrency.spawn('image-digest', self._run)

    def cancel(self) -> None:
        """End without a result."""
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
        except OSError as error:                             # the disk cannot read it
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


def state_of(file: Any) -> State:
    """What of an open file differs after a change."""
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _expected(image: dict[str, Any]) -> tuple[str, str]:
    """(algorithm, digest) of an image.

    :raises ImageUnacceptable: it has none
    """
    for algorithm, value in ALGORITHMS:
        name = image[algorithm] if algorithm else 'md5'
        if image[value] and name in hashlib.algorithms_available:
            return name, image[value]
    raise _refusal(image, 'it has no checksum')


def _refusal(image: dict[str, Any], reason: str) -> exception.ImageUnacceptable:
    return exception.ImageUnacceptable(image_id=image['id'], reason=reason)
