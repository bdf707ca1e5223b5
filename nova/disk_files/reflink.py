"""Reflinks: files that share blocks until one of them is written. btrfs, and XFS made with reflinks, have them."""
import errno
import fcntl
import os
import struct

from nova.disk_files import files

FICLONE = 0x40049409                     # linux/fs.h: share all blocks of another file
FIEMAP = 0xc020660b                      # linux/fs.h: list the extents of a file
LAST, SHARED = 0x1, 0x2000               # linux/fiemap.h: flags of the last extent, and of shared extents
REQUEST = struct.Struct('=QQIIII')       # start, length, flags, extents found, extents requested, reserved
EXTENT = struct.Struct('=QQQ16xI12x')    # logical, physical, length (bytes), flags
MAX_EXTENTS = 512                            # maximum number of extents that one call returns
# errors of file systems that cannot share blocks at all or between these files
UNABLE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM)


def share(source: int, target: int) -> None:
    """Replace the content of the open file ``target`` with the blocks of ``source``.

    :raises OSError: its ``errno`` is in UNABLE if these files cannot share blocks
    """
    fcntl.ioctl(target, FICLONE, source)


def clone(source: str, target: str) -> bool:
    """Create a reflink copy of ``source`` at ``target``, which may replace a file.

    :returns: False if the file system cannot share blocks, or the files are on different file systems
    :raises OSError: any other error, such as a full disk; ``target`` then does not exist
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
    """Return whether files in this directory can share blocks."""
    source, target = (os.path.join(directory, f'.reflink-{os.getpid()}{end}') for end in ('', '-copy'))
    try:
        with open(source, 'xb') as file:
            file.write(bytes(4096))
        return clone(source, target)
    except OSError:
        return False
    finally:
        files.remove(source)
        files.remove(target)


def shared_bytes(path: str) -> int:
    """Return the number of bytes of a file in blocks that it shares with other files.

    Overwriting these blocks needs this much free space.

    :raises OSError: the file cannot be read, or the file system does not support the query
    """
    shared = start = 0
    with open(path, 'rb') as file:
        size = os.fstat(file.fileno()).st_size
        while start < size:
            buffer = bytearray(REQUEST.size + MAX_EXTENTS * EXTENT.size)
            REQUEST.pack_into(buffer, 0, start, size - start, 0, 0, MAX_EXTENTS, 0)
            fcntl.ioctl(file.fileno(), FIEMAP, buffer)
            found = REQUEST.unpack_from(buffer)[3]
            flags = LAST                 # if no extent is found, the rest of the file is a hole
            for number in range(found):
                logical, _physical, length, flags = EXTENT.unpack_from(buffer, REQUEST.size + number * EXTENT.size)
                shared += length if flags & SHARED else 0
                start = logical + length
            if flags & LAST:
                break
    return shared
