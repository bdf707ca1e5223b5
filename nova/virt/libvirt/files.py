"""Small file operations that survive a crash at any point."""
import contextlib
import fcntl
import json
import os
import time

POLL = 0.05                              # seconds between two looks at a lock that is held


def write_json(path, value):
    """Replace ``path`` by ``value`` as JSON; a crash leaves the old content or the new one."""
    part = path + '.part'
    with open(part, 'w', opener=_private) as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def read_json(path):
    """The value, or None when there is no file."""
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def remove(path):
    """Remove a file; no error when there is none."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def lock(path, wait=True):
    """Hold a lock that other processes of this host see, too; yields whether it is held.

    It is polled, because a blocking flock would stop every green thread. The file may be removed by who holds it.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if _take(fd, wait):
                if not _is_file(fd, path):
                    continue
                yield True
                return
            yield False
            return
        finally:
            os.close(fd)


def _take(fd, wait):
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if not wait:
                return False
            time.sleep(POLL)


def _is_file(fd, path):
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _private(path, flags):
    return os.open(path, flags, 0o600)
