"""State directory: the lock of the process that uses the directory, and the marker files of a restore."""
import fcntl
import os
import pathlib
from typing import TextIO

from nova import exception

# QEMU runs as another user and must reach the disks of guests; the files have stricter modes.
MODE = 0o711
INSTANCES = 'instances'                  # directory of libvirt's guests in the state directory
INCOMPLETE = 'restore-incomplete'        # exists during a restore, so an interrupted restore is detected
RESTORED = 'restored'                    # exists after a restore, until guests and database have been compared


def take(path: pathlib.Path) -> TextIO:
    """Create the directory if it is missing, and lock it until the returned file is closed.

    :raises InvalidInput: it is not usable, or another process uses it
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(MODE)
        lock = open(path / 'lock', 'a+', opener=_own)
    except OSError as error:
        raise exception.InvalidInput(f'{path} cannot hold the state: {error.strerror}.') from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read().strip() or 'another one'
        lock.close()
        raise exception.InvalidInput(
            f'{path} is in use by process {owner}: stop it, or choose another --state-path.') from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _own(path: str, flags: int) -> int:
    """Open a file in a directory that another user may own, without following links."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def check_complete(path: pathlib.Path) -> None:
    """Check that no restore was interrupted.

    :raises InvalidInput: a restore into the directory was interrupted
    """
    if (path / INCOMPLETE).exists():
        raise exception.InvalidInput(f'A restore into {path} was interrupted. Run nova-manage state restore '
                                     'again, with --replace-existing-state.')
