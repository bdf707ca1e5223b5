"""Locks, access lists and removal of files."""
import contextlib
import errno
import fcntl
import os
import struct
import time
import typing

GUEST_MODE = 0o640                       # libvirt sets the group to QEMU's group when a guest uses the file
# Kernel format of a file's access control list: linux/posix_acl_xattr.h.
ACL, ACL_VERSION = 'system.posix_acl_access', 2
OWNER, USER, GROUP, MASK, OTHERS, ANYBODY = 0x01, 0x02, 0x04, 0x10, 0x20, 0xffffffff
READ, WRITE = 4, 2
POLL_INTERVAL_S = 0.05                   # seconds between two attempts to take a held lock


def remove(path: str) -> None:
    """Remove a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def lock(path: str, wait: bool = True) -> typing.Iterator[bool]:
    """Lock out other processes of this host during the block; yield whether this process holds the lock.

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
    """Let QEMU use a file, while this process keeps read access.

    libvirt changes the owner when the guest starts. When the guest stops, the owner becomes root unless libvirt has
    recorded the previous owner.
    """
    os.chmod(path, GUEST_MODE)
    if os.geteuid():
        let_read(path, os.geteuid())


def let_read(file: str | int, uid: int, rights: int = READ) -> None:
    """Grant a user access to a file, independent of its present and later owner. Other users keep their rights.

    :param file: path, or descriptor
    :param rights: READ, or READ | WRITE
    :raises OSError: the file system has no access control lists
    """
    entries = _access_list(file)
    mask, widened = entries.pop((MASK, ANYBODY), 7), rights
    for key in entries:
        if key[0] not in (OWNER, OTHERS):
            entries[key] &= mask              # apply the old mask to the entry, because the new mask may allow more
            widened |= entries[key]
    entries[USER, uid], entries[MASK, ANYBODY] = rights, widened
    os.setxattr(file, ACL, struct.pack('<I', ACL_VERSION) + b''.join(
        struct.pack('<HHI', tag, allowed, ident) for (tag, ident), allowed in sorted(entries.items())))


def _access_list(file: str | int) -> dict[tuple[int, int], int]:
    """Return {(tag, user or group): rights} of a file. Without an access control list, convert the file mode."""
    try:
        found = os.getxattr(file, ACL)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        mode = os.stat(file).st_mode
        return {(OWNER, ANYBODY): mode >> 6 & 7, (GROUP, ANYBODY): mode >> 3 & 7, (OTHERS, ANYBODY): mode & 7}
    return {(tag, ident): rights for tag, rights, ident in struct.iter_unpack('<HHI', found[4:])}


def private(path: str, flags: int) -> int:
    """Open a file, for the parameter ``opener`` of ``open``; only its owner has access to a new file."""
    return os.open(path, flags, 0o600)
