"""Serial console output of a guest, from the log that libvirt's virtlogd writes and rotates."""
import os

from nova.disk_files import sandbox

TAIL = 100 * 1024                        # bytes that the compute API returns


def tail(path: str, size: int = TAIL) -> bytes:
    """Return the last ``size`` bytes of a log and its rotated predecessor; b'' without a log."""
    data = b''
    for name in (path, path + '.0'):
        if len(data) < size:
            data = _tail(name, size - len(data)) + data
    return data


def _tail(path: str, size: int) -> bytes:
    try:
        with sandbox.opened(path, os.O_RDONLY) as descriptor, open(descriptor, 'rb', closefd=False) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - size))
            return file.read(size)
    except FileNotFoundError:
        return b''
