"""Durability of directory entries."""
from __future__ import annotations

import os


def sync(path: str | os.PathLike[str]) -> None:
    """Write a directory's entries to disk.

    :raises OSError:
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
