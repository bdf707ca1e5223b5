"""What a guest printed on its serial console: the log that libvirt's virtlogd writes and rotates."""
import os

from nova.disk_files import sandbox

TAIL = 100 * 1024                        # bytes that the compute API gives


def tail(path: str, size: int = TAIL) -> bytes:
    """The last ``size`` bytes of a log and, where it is shorter, of the one rotated before; b'' without a log."""
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
