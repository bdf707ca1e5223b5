"""Byte stream to a broker, plain or over TLS: one thread reads while others write."""
from __future__ import annotations

import contextlib
import socket
import ssl
import threading

READ_BYTES = 1 << 16            # maximum bytes of one read


class Stream:
    """A connected socket.

    :param sock: its timeout applies to reads and writes
    :param context: TLS context; None: no TLS
    :param hostname: name that the certificate must have
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext | None, hostname: str) -> None:
        self._socket, self._writing = sock, threading.Lock()
        self._tls = None if context is None else _Tls(context, hostname)
        if self._tls is not None:
            self._handshake(self._tls)

    def _handshake(self, tls: _Tls) -> None:
        while not tls.shake():
            self._socket.sendall(tls.pending())
            tls.arrived(self._received())
        self._socket.sendall(tls.pending())

    def read(self) -> bytes:
        """Wait for received bytes and return them: at least one byte. A writer that waits does not delay it.

        :raises TimeoutError: no byte has arrived
        :raises OSError: the connection is closed
        """
        if self._tls is None:
            return self._received()
        while True:
            data = self._tls.read()
            self._reply(self._tls)
            if data:
                return data
            self._tls.arrived(self._received())

    def _received(self) -> bytes:
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError('The broker closed the connection.')
        return data

    def _reply(self, tls: _Tls) -> None:
        """Send the replies of TLS, for example to a key update. During a write they wait for the next write."""
        if tls.has_pending and self._writing.acquire(blocking=False):
            try:
                self._socket.sendall(tls.pending())
            except TimeoutError as error:             # a part may have been sent
                raise ConnectionError('The broker does not read.') from error
            finally:
                self._writing.release()

    def write(self, data: bytes) -> None:
        """Send bytes.

        :raises OSError: the connection is closed or blocked
        """
        with self._writing:                           # TLS records are sent in the order of their encryption
            self._socket.sendall(data if self._tls is None else self._tls.encrypted(data))

    def close(self) -> None:
        """Close both directions: a reading thread gets an error."""
        with contextlib.suppress(OSError):            # already closed
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class _Tls:
    """TLS on memory buffers. An SSLObject is not thread-safe, so a lock is held for each call; no call waits for the
    connection.
    """

    def __init__(self, context: ssl.SSLContext, hostname: str) -> None:
        self._in, self._out, self._lock = ssl.MemoryBIO(), ssl.MemoryBIO(), threading.Lock()
        self._object = context.wrap_bio(self._in, self._out, server_hostname=hostname)

    def shake(self) -> bool:
        """Continue the handshake; return whether it is finished."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def arrived(self, data: bytes) -> None:
        with self._lock:
            self._in.write(data)

    @property
    def has_pending(self) -> bool:
        """True if there are bytes to send."""
        return bool(self._out.pending)

    def pending(self) -> bytes:
        """Return the bytes to send."""
        with self._lock:
            return self._out.read()

    def read(self) -> bytes:
        """Return decrypted bytes; empty if more data must arrive first.

        :raises ConnectionError: the other side has closed it
        """
        try:
            with self._lock:
                data = self._object.read(READ_BYTES)
        except ssl.SSLWantReadError:
            return b''
        except ssl.SSLZeroReturnError:
            data = b''
        if not data:
            raise ConnectionError('The broker closed the connection.')
        return data

    def encrypted(self, data: bytes) -> bytes:
        """Return the bytes to send for these data, after the pending ones."""
        with self._lock:
            self._object.write(data)
            return self._out.read()
