"""Locks, access lists and removal of files."""
import contextlib
import fcntl
import os
import struct
import time
import typing

GUEST_MODE = 0o640                       # the group is QEMU's once libvirt has taken the file over
# A list of who may do what with a file, as the kernel keeps it: linux/posix_acl_xattr.h.
ACL, ACL_VERSION = 'system.posix_acl_access', 2
OWNER, USER, GROUP, MASK, OTHERS, ANYBODY = 0x01, 0x02, 0x04, 0x10, 0x20, 0xffffffff
READ, WRITE = 4, 2
POLL = 0.05                              # seconds between two looks at a lock that is held


def remove(path: str) -> None:
    """Remove a file; no error when there is none."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def lock(path: str, wait: bool = True) -> typing.Iterator[bool]:
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


def _take(fd: int, wait: bool) -> bool:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if not wait:
                return False
            time.sleep(POLL)


def _is_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def give_to_guest(path: str) -> None:
    """Let QEMU have a file of ours, which we go on reading.

    libvirt changes its owner when the guest starts, and to root where it does not remember the one before.
    """
    os.chmod(path, GUEST_MODE)
    if os.geteuid():
        let_read(path, os.geteuid())


def let_read(file: str | int, uid: int, rights: int = READ) -> None:
    """Let a user read a file whosever it is or becomes.

    :param file: path, or descriptor
    :param rights: READ, or READ | WRITE
    :raises OSError: the file system has no lists of that kind
    """
    mode = os.stat(file).st_mode
    owner, group, others = mode >> 6 & 7, mode >> 3 & 7, mode & 7
    entries = ((OWNER, owner, ANYBODY), (USER, rights, uid), (GROUP, group, ANYBODY), (MASK, group | rights, ANYBODY),
               (OTHERS, others, ANYBODY))
    os.setxattr(file, ACL, struct.pack('<I', ACL_VERSION) + b''.join(struct.pack('<HHI', *each) for each in entries))


def private(path: str, flags: int) -> int:
    """An opener of files for their owner alone."""
    return os.open(path, flags, 0o600)
