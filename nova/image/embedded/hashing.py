"""Checksums of image data. One thread computes MD5, another thread SHA-512.

hashlib releases the GIL, so both threads run in parallel with the thread that receives and writes the data. Small
uploads are hashed without threads.
"""
from __future__ import annotations

from collections.abc import Callable
import hashlib
import queue
import threading
from types import TracebackType
from typing import TypedDict

from nova import exception
from nova.objects.image import Image
from nova.runtime import concurrency

ALGORITHM = 'sha512'             # algorithm of os_hash_value
WAITING = 16                     # maximum queue length of a thread; 4 MiB in chunks of 256 KiB
LITTLE = 1024 * 1024             # bytes at the start of an upload that are hashed without threads


class Columns(TypedDict):
    """Columns of an image that contain its checksums."""

    checksum: str
    os_hash_algo: str
    os_hash_value: str


class Hashes:
    """Computation of the MD5 and SHA-512 checksums of one stream. The context manager ends the threads."""

    def __init__(self) -> None:
        self._hashes = hashlib.md5(usedforsecurity=False), hashlib.sha512()
        self._bytes = 0
        self._queues: list[queue.Queue[bytes | None]] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Hashes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._end()

    def add(self, chunk: bytes) -> None:
        """Hash the next bytes. Blocks while a thread's queue has WAITING chunks."""
        self._bytes += len(chunk)
        if self._bytes <= LITTLE:
            for each in self._hashes:
                each.update(chunk)
            return
        if not self._threads:
            self._queues = [queue.Queue(WAITING) for _each in self._hashes]
            self._threads = [concurrency.spawn('image-hash', _update, each.update, chunks)
                             for each, chunks in zip(self._hashes, self._queues, strict=True)]
        for chunks in self._queues:
            chunks.put(chunk)

    def columns(self) -> Columns:
        """Wait for the threads and return the image's columns; no bytes may be added afterwards."""
        self._end()
        md5, other = self._hashes
        return {'checksum': md5.hexdigest(), 'os_hash_algo': ALGORITHM, 'os_hash_value': other.hexdigest()}

    def _end(self) -> None:
        for chunks in self._queues:
            chunks.put(None)
        self._queues = []
        for thread in self._threads:
            thread.join()


def _update(update: Callable[[bytes], None], chunks: queue.Queue[bytes | None]) -> None:
    while (chunk := chunks.get()) is not None:
        concurrency.blocking(update, chunk)


def expected(image: Image) -> tuple[str, str] | None:
    """Return (algorithm, digest) of an image, or None if the image has no checksum.

    :raises ImageUnacceptable: this machine supports none of the image's hash algorithms
    """
    found = [(name, value) for name, value in (
        (image['os_hash_algo'], image['os_hash_value']), ('md5', image['checksum'])) if name and value]
    for name, value in found:
        if name in hashlib.algorithms_available:
            return name, value
    if found:
        raise exception.ImageUnacceptable(image_id=image['id'], reason='this machine cannot compute its checksum')
    return None
