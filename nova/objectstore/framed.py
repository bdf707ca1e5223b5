"""A framed body as its reader takes it: lines, and pieces of what is between them, cut out of large reads."""
from __future__ import annotations

from collections.abc import Callable

Piece = bytes | memoryview                       # of a content
MAX_LINE = 256               # bytes of a line that are looked at


class Framed:
    """
    :param read: function(bytes at most) -> the next bytes, b'' at the end
    :param size: bytes to read at once
    """

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self._read, self._size = read, size
        self._data, self._view, self._at = b'', memoryview(b''), 0

    def line(self) -> bytes:
        """The next line without its end; what there is of it where it is too long, or the body ends."""
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
        """The next bytes, as many as there are at once; none at the end of the body. They are not copied."""
        if not self._filled():
            return memoryview(b'')
        found = self._view[self._at:self._at + most]
        self._at += len(found)
        return found

    def _filled(self) -> bool:
        """Whether there are bytes; they are read where there are none."""
        if self._at == len(self._data):
            self._data, self._at = self._read(self._size), 0
            self._view = memoryview(self._data)
        return bool(self._data)
