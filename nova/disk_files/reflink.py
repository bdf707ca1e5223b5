"""Files that share blocks until one of them is written: XFS made with reflinks, and btrfs."""
import contextlib
import errno
import fcntl
import os
import struct

FICLONE = 0x40049409                     # linux/fs.h: let a file share all blocks of another one
FIEMAP = 0xc020660b                      # linux/fs.h: where the extents of a file lie
LAST, SHARED = 0x1, 0x2000               # linux/fiemap.h: the last extent; one that other files have, too
REQUEST = struct.Struct('=QQIIII')       # start, length, flags, extents found, extents requested, reserved
EXTENT = struct.Struct('=QQQ16xI12x')    # logical, physical, length (bytes), flags
AT_ONCE = 512                            # extents of one call
# what a file system answers that cannot share blocks, or not those of these files
UNABLE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM)


def share(source: int, target: int) -> None:
    """Let the open file ``target`` have the content of ``source`` and the same blocks.

    :raises OSError: its ``errno`` is in UNABLE where these files cannot share blocks
    """
    fcntl.ioctl(target, FICLONE, source)


def clone(source: str, target: str) -> bool:
    """Make ``target``, in place of what it may be, a file with the content of ``source`` and the same blocks.

    :returns: whether it is there: False where the file system cannot share blocks, or these are two of them
    :raises OSError: anything else, such as no room; ``target`` is not there then
    """
    with open(source, 'rb') as old, open(target, 'wb') as new:
        try:
            share(old.fileno(), new.fileno())
            return True
        except OSError as error:
            os.unlink(target)
            if error.errno not in UNABLE:
                raise
            return False


def possible(directory: str) -> bool:
    """Whether files in this directory can share blocks."""
    source, target = (os.path.join(directory, f'.reflink-{os.getpid()}{end}') for end in ('', '-copy'))
    try:
        with open(source, 'xb') as file:
            file.write(bytes(4096))
        return clone(source, target)
    except OSError:
        return False
    finally:
        for path in (source, target):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def shared_bytes(path: str) -> int:
    """Bytes of a file that lie in blocks of other files, too: what it takes when all of them are written.

    :raises OSError: it cannot be read, or the file system does not say
    """
    shared = start = 0
    with open(path, 'rb') as file:
        size = os.fstat(file.fileno()).st_size
        while start < size:
            buffer = bytearray(REQUEST.size + AT_ONCE * EXTENT.size)
            REQUEST.pack_into(buffer, 0, start, size - start, 0, 0, AT_ONCE, 0)
            fcntl.ioctl(file.fileno(), FIEMAP, buffer)
            found = REQUEST.unpack_from(buffer)[3]
            flags = LAST                 # no extent at all: the rest is a hole
            for number in range(found):
                logical, _physical, length, flags = EXTENT.unpack_from(buffer, REQUEST.size + number * EXTENT.size)
                shared += length if flags & SHARED else 0
                start = logical + length
            if flags & LAST:
                break
    return shared
