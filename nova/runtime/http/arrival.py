"""Fast scan of an incomplete request: how much of it has arrived.

The scan only decides when and by which thread the request is processed. ``framing`` then parses the received bytes
strictly, and waits for more bytes only if the request is an upload.
"""
import re

from nova.runtime.http import framing
from nova.runtime.http import limits as http_limits

HEAD, BODY, WHOLE, LARGE, ENDLESS = 'head', 'body', 'whole', 'large', 'endless'
_SIZE = re.compile(rb'[0-9A-Fa-f]{1,15}')


class Arrival:
    """One incoming request; ``data`` contains its received bytes, and perhaps the beginning of the next request."""

    def __init__(self, limits: http_limits.Limits, data: bytes = b'') -> None:
        self._limits = limits
        self.data = bytearray(data)
        self.line: bytes | None = None       # b'METHOD /path…' without the version, once the headers are complete
        self.expects = False            # the client waits for 100 Continue
        self._looked = 0                # position up to which the end of the headers was searched
        # begin and end of the body in ``data``; end None: the body is chunked
        self._begin: int = 0
        self._end: int | None = 0
        self._next = 0                  # position of the next chunk

    def look(self) -> str:
        """Return the state of the request.

        HEAD     the headers are incomplete
        BODY     the body is incomplete
        WHOLE    the request is complete or malformed
        LARGE    the body is larger than the buffer limit
        ENDLESS  the headers are too long
        """
        if self.line is None and not self._head():
            return ENDLESS if len(self.data) > self._limits.header else HEAD
        if self._begin > self._limits.header:
            return ENDLESS
        if self._end is not None:
            if len(self.data) >= self._end:
                return WHOLE
            return LARGE if self._end - self._begin > self._limits.body else BODY
        if self._chunks_ended():
            return WHOLE
        return LARGE if self.body > self._limits.body else BODY

    @property
    def body(self) -> int:
        """Return the received bytes of the body."""
        return len(self.data) - self._begin

    def _head(self) -> bool:
        end = self.data.find(b'\r\n\r\n', max(0, self._looked - 3))
        if end < 0:
            self._looked = len(self.data)
            return False
        head = bytes(self.data[:end + 2]).lower()
        self._begin = self._end = self._next = end + 4
        if b'\r\ntransfer-encoding:' in head:
            self._end = None
        else:
            _, found, rest = head.partition(b'\r\ncontent-length:')
            length = rest.partition(b'\r\n')[0].strip(b' \t') if found else b''
            if length.isdigit() and len(length) < 19:
                self._end += int(length)
        start = self.data.find(b'\n') + 1 if head[:2] == b'\r\n' else 0
        line = bytes(self.data[start:self.data.find(b'\r\n', start)])
        self.expects = b'\r\nexpect: 100-continue\r\n' in head and line.endswith(b' HTTP/1.1')
        self.line = line.rpartition(b' ')[0]
        return True

    def _chunks_ended(self) -> bool:
        """Return whether the last chunk or a malformed chunk has arrived."""
        while (end := self.data.find(b'\r\n', self._next)) >= 0:
            line = bytes(self.data[self._next:min(end, self._next + framing.MAX_LINE)])
            size = line.partition(b';')[0].strip(b' \t')
            if not _SIZE.fullmatch(size):
                return True
            if not int(size, 16):
                return self.data.find(b'\r\n\r\n', end) >= 0
            self._next = end + 2 + int(size, 16) + 2
            if self._next > len(self.data):
                return False
        return len(self.data) - self._next > framing.MAX_LINE
