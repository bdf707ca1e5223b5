"""Replace files so that a crash or a power failure leaves the old content or the new content, never a part of it.

The functions write a temporary file in the same directory, flush it to the disk, rename it, and flush the directory.
"""
from collections.abc import Iterator
import contextlib
import os
import secrets
from typing import BinaryIO

from nova.runtime import directories

Path = str | os.PathLike[str]
PRIVATE = 0o600                          # mode of a file that only its owner can use
PART = '.part'                           # suffix of temporary files; their names begin with a dot


def replace(path: Path, content: bytes, mode: int = PRIVATE, owner: tuple[int, int] | None = None) -> None:
    """Replace the content of a file, or create the file.

    :param mode: mode of the file; the umask does not change it
    :param owner: (user id, group id); None: those of the process
    :raises OSError:
    """
    with replacing(path, mode, owner) as file:
        file.write(content)


def create(path: Path, content: bytes, mode: int = PRIVATE, owner: tuple[int, int] | None = None) -> bool:
    """Create a file and return True, or return False if it exists. Only one of several concurrent calls succeeds.

    :raises OSError:
    """
    with _temporary(path, mode, owner) as (part, file):
        file.write(content)
        _flush(file)
        try:
            os.link(part, path)          # unlike a rename, a link never replaces a file
        except FileExistsError:
            return False
        finally:
            os.unlink(part)
        directories.sync(_directory(path))
    return True


@contextlib.contextmanager
def replacing(path: Path, mode: int = PRIVATE, owner: tuple[int, int] | None = None) -> Iterator[BinaryIO]:
    """Yield a file to write to, which replaces ``path`` if the block ends without an error.

    :raises OSError:
    """
    with _temporary(path, mode, owner) as (part, file):
        yield file
        _flush(file)
        os.replace(part, path)
        directories.sync(_directory(path))


def owner_of(path: Path) -> tuple[int, int] | None:
    """Return (uid, gid) of a path, for files that root creates in it; None if the process is not root."""
    if os.geteuid():
        return None
    found = os.stat(path)
    return found.st_uid, found.st_gid


def commit(part: Path, path: Path) -> None:
    """Rename a complete file to ``path`` after flushing its content to the disk.

    :raises OSError:
    """
    directories.sync_file(part)
    os.replace(part, path)
    directories.sync(_directory(path))


@contextlib.contextmanager
def _temporary(path: Path, mode: int, owner: tuple[int, int] | None) -> Iterator[tuple[str, BinaryIO]]:
    part = os.path.join(_directory(path), f'.{os.path.basename(path)}.{secrets.token_hex(8)}{PART}')
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    try:
        with open(descriptor, 'wb') as file:
            if owner is not None:
                os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
            yield part, file
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _directory(path: Path) -> str:
    return os.path.dirname(os.path.abspath(path))
