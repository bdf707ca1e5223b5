"""Directories whose files are to be there after a power failure."""
from __future__ import annotations

import os


def sync(path: str | os.PathLike[str]) -> None:
    """Let the names that a directory has be on the disk.

    :raises OSError:
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
