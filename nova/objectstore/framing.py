"""Buffered reader of request bodies in which lines alternate with data."""
from collections.abc import Callable

Piece = bytes | memoryview                       # a piece of the content
MAX_LINE = 256               # maximum bytes of a line


class FrameReader:
    """Buffered reader.

    :param read: function(maximum number of bytes) -> next bytes, b'' at the end
    :param size: bytes of one read
    """

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self._read, self._size = read, size
        self._data, self._view, self._at = b'', memoryview(b''), 0

    def line(self) -> bytes:
        """Return the next line without its line break; it also ends after MAX_LINE bytes, or at the body's end."""
        line = b''
        while len(line) < MAX_LINE:
            end = self._data.find(b'\n', self._at, self._at + MAX_LINE - len(line)) + 1
            part = self._data[self._at:end or self._at + MAX_LINE - len(line)]
            self._at += len(part)
            line += part
            if end or not self._filled():
                break
        return line.rstrip(b'\r\n')

    def piece(self, most: int) -> memoryview:
        """Return at most ``most`` buffered bytes without a copy; empty at the end of the body."""
        if not self._filled():
            return memoryview(b'')
        found = self._view[self._at:self._at + most]
        self._at += len(found)
        return found

    def _filled(self) -> bool:
        """Fill the buffer if it is empty; return False at the end of the body."""
        if self._at == len(self._data):
            self._data, self._at = self._read(self._size), 0
            self._view = memoryview(self._data)
        return bool(self._data)
