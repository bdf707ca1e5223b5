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
            self._fill(tls)
        self._socket.sendall(tls.pending())

    def _fill(self, tls: _Tls) -> None:
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError('The broker closed the connection.')
        tls.arrived(data)

    def read(self) -> bytes:
        """Wait for received bytes and return them: at least one byte.

        :raises TimeoutError: no byte has arrived
        :raises OSError: the connection is closed
        """
        if self._tls is None:
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ConnectionError('The broker closed the connection.')
            return data
        while True:
            with self._writing:                       # an SSLObject is not thread-safe
                data, answer = self._tls.read(), self._tls.pending()
                if answer:                            # TLS may have to reply, for example to a key update
                    self._socket.sendall(answer)
            if data:
                return data
            encrypted = self._socket.recv(READ_BYTES)
            if not encrypted:
                raise ConnectionError('The broker closed the connection.')
            with self._writing:
                self._tls.arrived(encrypted)

    def write(self, data: bytes) -> None:
        """Send bytes.

        :raises OSError: the connection is closed or blocked
        """
        with self._writing:
            if self._tls is not None:
                self._tls.write(data)
                data = self._tls.pending()
            self._socket.sendall(data)

    def close(self) -> None:
        """Close both directions: a reading thread gets an error."""
        with contextlib.suppress(OSError):            # already closed
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class _Tls:
    """TLS on memory buffers, so that one thread can read while others write."""

    def __init__(self, context: ssl.SSLContext, hostname: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_hostname=hostname)

    def shake(self) -> bool:
        """Continue the handshake; return whether it is finished."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def arrived(self, data: bytes) -> None:
        self._in.write(data)

    def pending(self) -> bytes:
        """Return the bytes to send."""
        return self._out.read()

    def read(self) -> bytes:
        """Return decrypted bytes; empty if more data must arrive first.

        :raises ConnectionError: the other side has closed it
        """
        try:
            data = self._object.read(READ_BYTES)
        except ssl.SSLWantReadError:
            return b''
        except ssl.SSLZeroReturnError:
            data = b''
        if not data:
            raise ConnectionError('The broker closed the connection.')
        return data

    def write(self, data: bytes) -> None:
        self._object.write(data)
