"""Non-blocking I/O of one connection: only ``wait`` blocks, and slow clients are detected."""
import array
import collections
from collections.abc import Callable
import contextlib
import errno
import fcntl
import os
import select
import socket
import ssl
import termios
import time
from typing import BinaryIO

from nova.runtime.http import limits as http_limits
from nova.runtime.http import tls_channel

JOINED = 65536               # headers and a first piece up to this size are sent in one write
UNSENDABLE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)            # errors of file systems without sendfile
LEAST_FILE = 256 * 1024      # minimum size for sendfile: a smaller file is sent with its headers
STEP = 1 << 20               # maximum bytes of one sendfile call
RATE_CHECK_INTERVAL_S = 1                   # interval between two checks of the rate of a slow client


class Gone(ConnectionError):
    """The client has disconnected, or is slower than the minimum rate."""


class Channel:
    """A non-blocking socket.

    :param tls: context of the server, or None for plain bytes
    """

    def __init__(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        self.sock = sock
        sock.setblocking(False)
        self._secured = tls_channel.TlsConnection(sock, tls) if tls is not None else None

    def receive(self, size: int) -> bytes | None:
        """Return received bytes; b'': the client has closed its side; None: nothing has arrived.

        Under TLS return all received bytes, because poll() does not report bytes that are buffered in the TLS layer.

        :raises OSError: the connection broke
        """
        try:
            return self._secured.receive(size) if self._secured is not None else self.sock.recv(size)
        except BlockingIOError:
            return None

    def send(self, data: bytes | memoryview) -> int:
        """Send bytes and return how many were sent. The next call must begin with the unsent bytes."""
        try:
            return self._secured.send(data) if self._secured is not None else self.sock.send(data)
        except BlockingIOError:
            return 0

    @property
    def plain(self) -> bool:
        """Return whether sendfile is possible: the connection is not encrypted."""
        return self._secured is None

    def send_file(self, file: int, start: int, size: int) -> int | None:
        """Send a part of a file and return the number of bytes.

        0 means the end of the file. None means that the kernel accepts no bytes now.

        :param file: descriptor
        """
        try:
            return os.sendfile(self.sock.fileno(), file, start, size)
        except BlockingIOError:
            return None

    def rest(self) -> None:
        """Yield to other threads; called after each part of a long response."""

    def untaken(self) -> int:
        """Return the number of bytes that the kernel has accepted and the client has not acknowledged."""
        held = array.array('i', [0])
        fcntl.ioctl(self.sock.fileno(), termios.TIOCOUTQ, held)
        return held[0] - (self._secured.ahead if self._secured is not None else 0)

    def wait(self, writing: bool, seconds: float) -> bool:
        """Wait until the socket is readable or writable; return False after ``seconds``."""
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLOUT if writing else select.POLLIN)
        return bool(poll.poll(max(0, seconds) * 1000))

    def shut(self, how: int = socket.SHUT_RDWR) -> None:
        """Shut down a connection that another thread uses and will close."""
        if self._secured is not None and how == socket.SHUT_WR:
            self._secured.say_end()
        with contextlib.suppress(OSError):
            self.sock.shutdown(how)

    def shut_reading(self) -> None:
        """Receive no further bytes."""
        self.shut(socket.SHUT_RD)


class MinimumRate:
    """Minimum transfer rate of a client while the server waits for the client.

    :param rate: bytes a second
    :param window_s: seconds of waiting over which the rate is measured
    """

    def __init__(self, rate: float, window_s: float) -> None:
        self._rate, self._window_s = rate, window_s
        self._waited, self._moved = 0.0, 0

    def keeps(self, waited: float, moved: int) -> bool:
        """Count waiting time and bytes; return False if the client was below the minimum rate during a window.

        :param waited: seconds since the last call
        :param moved: bytes since the last call
        """
        self._waited += waited
        self._moved += moved
        if self._waited < self._window_s:
            return True
        kept = self._moved >= self._rate * self._waited
        self._waited, self._moved = 0, 0
        return kept


def ignore() -> None:
    """Do nothing; used as a function that records progress."""


class OutputBuffer:
    """Output buffer for data that the kernel does not accept yet.

    A worker can finish a request before the end of the response is sent.
    """

    def __init__(self, channel: Channel, limits: http_limits.Limits) -> None:
        self._channel, self._limits = channel, limits
        self._pieces: collections.deque[memoryview] = collections.deque()
        self.size = 0                    # buffered bytes
        self.sent = 0                    # bytes that the kernel has accepted
        self.moved = time.monotonic()
        self._taken = 0
        self._pace = MinimumRate(limits.least_rate, limits.window_s)
        self._head, self.holds = b'', False
        self.progress = ignore           # called when the response of a worker progresses

    def write(self, data: bytes) -> None:
        """Send or buffer data.

        :raises Gone: the client has disconnected, or is too slow
        """
        if self.holds:                   # headers, to be sent with the first piece of the body
            self._head, self.holds = data, False
            return
        if self._head:
            head, self._head = self._head, b''
            if len(data) > JOINED:
                self.write(head)
            else:
                data = head + data
        while self.size > self._limits.ahead and not self.flush():
            self._wait()
        self.progress()
        sent = 0 if self.size else self._give(data)
        if sent < len(data):
            self._pieces.append(memoryview(data)[sent:])
            self.size += len(data) - sent

    def takes_file(self, size: int) -> bool:
        """Return whether to send ``size`` bytes of a file with sendfile."""
        return self._channel.plain and size >= LEAST_FILE

    def write_file(self, file: BinaryIO, start: int, size: int) -> None:
        """Send a part of a file with sendfile.

        :raises Gone: as for ``write``
        :raises OSError: the file is shorter
        """
        self.finish()
        number, end = file.fileno(), start + size
        while start < end:
            while self.size and not self.flush():
                self._wait()
            sent = self._give_file(number, start, min(end - start, STEP))
            if sent is not None:
                start += sent
                self.progress()
                self._channel.rest()
            elif end - start > self._limits.ahead:
                self._wait()
            else:                        # buffer the small rest, so that the worker need not wait
                break
        if start < end:
            self.write(_read(number, start, end - start))

    def finish(self) -> None:
        """Send the headers, unless they were sent with the first piece of a body."""
        if self._head:
            head, self._head = self._head, b''
            self.write(head)

    def drop(self) -> None:
        """Discard the buffer."""
        self._pieces.clear()
        self.size, self._head, self.holds = 0, b'', False

    def flush(self) -> bool:
        """Send the buffer; return True if it is empty now."""
        while self._pieces:
            piece = self._pieces[0]
            sent = self._give(piece)
            self.size -= sent
            if sent < len(piece):
                self._pieces[0] = piece[sent:]
                return False
            self._pieces.popleft()
        return True

    def restart(self) -> None:
        """Start a new measurement of the client's rate."""
        self.moved, self._taken = time.monotonic(), self._now_taken()
        self._pace = MinimumRate(self._limits.least_rate, self._limits.window_s)

    def keeps_pace(self) -> bool:
        """Return whether the client has read fast enough since the last call or ``restart``."""
        now, taken = time.monotonic(), self._now_taken()
        kept = self._pace.keeps(now - self.moved, taken - self._taken)
        self.moved, self._taken = now, taken
        return kept

    def _wait(self) -> None:
        self.moved, self._taken = time.monotonic(), self._now_taken()
        self._channel.wait(True, RATE_CHECK_INTERVAL_S)
        if not self.keeps_pace():
            raise Gone('The client did not read the response.')
        self.progress()

    def _now_taken(self) -> int:
        try:
            return self.sent - self._channel.untaken()
        except (OSError, ValueError):
            return self._taken

    def _give_file(self, number: int, start: int, size: int) -> int | None:
        """Send a part of a file and return the number of bytes; None: the buffer of the socket is full."""
        try:
            sent = self._channel.send_file(number, start, size)
        except OSError as error:
            if error.errno in UNSENDABLE:
                self.write(_read(number, start, size))
                return size
            if error.errno == errno.EIO:             # disk error
                raise
            raise Gone(str(error)) from None
        if sent == 0:
            _read(number, start, 1)
        self.sent += sent or 0
        return sent

    def _give(self, data: bytes | memoryview) -> int:
        try:
            sent = self._channel.send(data)
        except (OSError, ValueError) as error:
            raise Gone(str(error)) from None
        self.sent += sent
        return sent


def _read(number: int, start: int, size: int) -> bytes:
    """:raises OSError: there are fewer bytes"""
    found = os.pread(number, size, start)
    if len(found) < size:
        raise OSError('A file is shorter than the response.')
    return found


class InputStream:
    """Input stream of a large body: the received part, then the connection, with a minimum rate."""

    def __init__(self, channel: Channel, limits: http_limits.Limits, data: bytes | bytearray,
                 progress: Callable[[], None]) -> None:
        self._channel, self._limits, self._progress = channel, limits, progress
        self._data, self._at = bytes(data), 0
        self._pace = MinimumRate(limits.least_rate, limits.window_s)

    def read(self, size: int) -> bytes:
        if self._at == len(self._data):
            self._fill()
        piece = self._data[self._at:self._at + size]
        self._at += len(piece)
        return piece

    def readline(self, size: int = 65536) -> bytes:
        line = b''
        while len(line) < size and not line.endswith(b'\n'):
            if self._at == len(self._data):
                self._fill()
            end = self._data.find(b'\n', self._at, self._at + size - len(line)) + 1
            piece = self._data[self._at:end or self._at + size - len(line)]
            if not piece:
                break
            self._at += len(piece)
            line += piece
        return line

    def rest(self) -> bytes:
        return self._data[self._at:]

    def _fill(self) -> None:
        while (data := self._channel.receive(self._limits.upload)) is None:
            begun = time.monotonic()
            self._channel.wait(False, RATE_CHECK_INTERVAL_S)
            if not self._pace.keeps(time.monotonic() - begun, 0):
                raise Gone('The body came too slowly.')
        self._pace.keeps(0, len(data))
        self._progress()
        self._data, self._at = data, 0
