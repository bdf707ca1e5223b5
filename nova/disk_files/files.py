"""Locks, access lists and removal of files."""
import contextlib
import fcntl
import os
import struct
import time
import typing

GUEST_MODE = 0o640                       # libvirt sets the group to QEMU's when it uses the file
# Kernel format of a file's access control list: linux/posix_acl_xattr.h.
ACL, ACL_VERSION = 'system.posix_acl_access', 2
OWNER, USER, GROUP, MASK, OTHERS, ANYBODY = 0x01, 0x02, 0x04, 0x10, 0x20, 0xffffffff
READ, WRITE = 4, 2
POLL_INTERVAL_S = 0.05                   # seconds between two attempts to take a held lock


def remove(path: str) -> None:
    """Remove a file; no error if there is none."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def lock(path: str, wait: bool = True) -> typing.Iterator[bool]:
    """Hold a lock between processes of this host; yields whether this process holds it.

    The lock is polled, because a blocking flock would stop every green thread. The holder may remove the lock file; a
    waiting process then creates a new one.
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
            time.sleep(POLL_INTERVAL_S)


def _is_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def give_to_guest(path: str) -> None:
    """Share a file with QEMU while this process keeps read access.

    libvirt changes the owner when the guest starts. When the guest stops, the owner becomes root unless libvirt has
    recorded the previous owner.
    """
    os.chmod(path, GUEST_MODE)
    if os.geteuid():
        let_read(path, os.geteuid())


def let_read(file: str | int, uid: int, rights: int = READ) -> None:
    """Grant a user read access to a file, independent of its present and later owner.

    :param file: path, or descriptor
    :param rights: READ, or READ | WRITE
    :raises OSError: the file system has no access control lists
    """
    mode = os.stat(file).st_mode
    owner, group, others = mode >> 6 & 7, mode >> 3 & 7, mode & 7
    entries = ((OWNER, owner, ANYBODY), (USER, rights, uid), (GROUP, group, ANYBODY), (MASK, group | rights, ANYBODY),
               (OTHERS, others, ANYBODY))
    os.setxattr(file, ACL, struct.pack('<I', ACL_VERSION) + b''.join(struct.pack('<HHI', *each) for each in entries))


def private(path: str, flags: int) -> int:
    """Open a file with access only for its owner; an opener for ``open``."""
    return os.open(path, flags, 0o600)
