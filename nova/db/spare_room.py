"""Disk space reserve for SQLite's writes on a full file system.

Deleting volumes and images frees space but needs a write to the database, which a full disk prevents. Therefore a file
next to the database reserves some space, which is released in pieces. Requests that add data may not use the reserve.
"""
from collections.abc import Iterator
import contextlib
import contextvars
import logging
import os
import time

from nova.runtime import disk_space

LOG = logging.getLogger(__name__)

SUFFIX = '.spare'
MAX_BYTES = 8 * disk_space.MIB
PART_OF_DISK = 16                # the reserve is at most 1/16 of the file system
PIECES = 8
PLENTY = 4                       # the file is refilled if more than this multiple of its size is free
REFILL_INTERVAL_S = 10                     # minimum seconds between refills

_adds: contextvars.ContextVar[bool] = contextvars.ContextVar('nova_request_adds', default=False)


@contextlib.contextmanager
def for_request(adds: bool) -> Iterator[None]:
    """Mark the transactions of a request; they may not use the reserve if the request adds data."""
    token = _adds.set(adds)
    try:
        yield
    finally:
        _adds.reset(token)


class SpareRoom:
    """The disk space reserve of one database.

    :param database: path of its file
    """

    def __init__(self, database: str) -> None:
        self._database, self._path, self._size, self._look_at = database, database + SUFFIX, 0, 0.0
        with contextlib.suppress(OSError):
            status = os.statvfs(os.path.dirname(os.path.abspath(database)))
            self._size = min(MAX_BYTES, status.f_frsize * status.f_blocks // PART_OF_DISK)

    def fill(self) -> None:
        """Refill the file if enough space is free, at most once in REFILL_INTERVAL_S seconds."""
        now = time.monotonic()
        if now < self._look_at or not self._size or not os.path.exists(self._database):
            return
        self._look_at = now + REFILL_INTERVAL_S
        with contextlib.suppress(OSError):           # the next call tries again
            directory = os.path.dirname(os.path.abspath(self._path))
            if self._held() < self._size and disk_space.free_bytes(directory) > PLENTY * self._size:
                number = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                try:
                    # nova-manage may run as root: give the file to the owner of the database
                    if os.geteuid() == 0:
                        owner = os.stat(self._database)
                        os.fchown(number, owner.st_uid, owner.st_gid)
                    os.posix_fallocate(number, 0, self._size)
                finally:
                    os.close(number)

    def give(self) -> bool:
        """Release a piece of the reserve; return False if the transaction may not use it, or it is used up."""
        held = self._held()
        if _adds.get() or not held:
            return False
        try:
            number = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.ftruncate(number, max(0, held - max(1, self._size // PIECES)))
            finally:
                os.close(number)
        except OSError as error:
            LOG.error('Cannot use the disk space reserve %s: %s', self._path, error.strerror)
            return False
        LOG.error('The disk of the database is full: %s has %d bytes left for writes. Free some space.', self._path,
                  self._held())
        self._look_at = time.monotonic() + REFILL_INTERVAL_S
        return True

    def _held(self) -> int:
        try:
            return os.lstat(self._path).st_size
        except OSError:
            return 0
