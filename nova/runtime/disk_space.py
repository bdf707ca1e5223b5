"""Room on file systems: what is free, and a reserve that strangers' bytes must leave."""
from __future__ import annotations

import errno
import os

from nova import exception

MIB = 2 ** 20
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)         # what a full file system answers


def free_bytes(path: str) -> int:
    """Bytes that an ordinary process may still write to the file system of a path."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def used_bytes(path: str) -> int:
    """Bytes that the content of a file takes: fewer than its size where it has holes."""
    found = os.stat(path)
    return min(found.st_size, found.st_blocks * 512)


class Reserve:
    """Free space below which no images and snapshots are written, so that databases and guests go on.

    :param size: bytes; 0 keeps nothing back
    """

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def check(self, path: str, adding: int = 0) -> None:
        """:raises InsufficientStorage: ``adding`` bytes more would leave less than the reserve"""
        if self.size and free_bytes(path) - adding < self.size:
            raise exception.InsufficientStorage()
