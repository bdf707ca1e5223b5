"""Flush directories and files to the disk, so that they survive a power failure."""
import os


def sync(path: str | os.PathLike[str]) -> None:
    """Flush the names in a directory to the disk.

    :raises OSError:
    """
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: str | os.PathLike[str]) -> None:
    """Flush the content of a file to the disk.

    :raises OSError:
    """
    _sync(path, os.O_RDONLY | os.O_NOFOLLOW)


def _sync(path: str | os.PathLike[str], flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
