"""Connections to hypervisors: bytes over TCP, a socket of this host, or TLS; blocking first, then never.

TLS works on buffers in memory, as in nova.runtime.http.tls_channel, so that the same code serves both thread models.
"""
from __future__ import annotations

import contextlib
import pathlib
import socket
import ssl
import time

from oslo_config.cfg import ConfigOpts

from nova import exception

CONNECT_S = 5                       # a hypervisor of the own network answers by then
PIECE = 65536


class Broken(Exception):
    """The hypervisor is not there, or does not speak what is expected; the text is for the log."""


class Stream:
    """
    :param sock: connected
    :param deadline: time.monotonic() until which ``read`` and ``write`` may take
    """

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock, self._deadline = sock, deadline
        self._tls: ssl.SSLObject | None = None
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._plain = b''                # received, not read
        self._waiting = b''              # encrypted, not sent

    # ---- before the session: each call waits

    def read(self, size: int) -> bytes:
        """So many bytes.

        :raises Broken: they do not come
        """
        while len(self._plain) < size:
            self._wait()
            try:
                data = self._decrypted(self.sock.recv(PIECE))
            except OSError as error:
                raise Broken(str(error)) from None
            if data == b'':
                raise Broken('The hypervisor ended the connection.')
            self._plain += data or b''
        found, self._plain = self._plain[:size], self._plain[size:]
        return found

    def write(self, data: bytes) -> None:
        """:raises Broken: they are not taken"""
        self._wait()
        try:
            self.sock.sendall(self._encrypted(data))
        except OSError as error:
            raise Broken(str(error)) from None

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Speak TLS from now on.

        :raises Broken: the hypervisor's certificate is not good, or it does not speak TLS
        """
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        try:
            while True:
                try:
                    self._tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    self._wait()
                    self.sock.sendall(self._out.read())
                    if not (data := self.sock.recv(PIECE)):
                        raise Broken('The hypervisor ended the connection in the TLS handshake.') from None
                    self._in.write(data)
            self.sock.sendall(self._out.read())
        except OSError as error:
            raise Broken(f'TLS: {error}') from None

    def _wait(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Broken('The hypervisor is too slow.')
        self.sock.settimeout(left)

    # ---- in the session: no call waits

    def flow(self) -> None:
        """Wait for nothing from now on."""
        self.sock.setblocking(False)
        if self._tls is not None:                # what came with the end of the handshake is reported by no event
            self._plain += self._opened() or b''

    @property
    def has_more(self) -> bool:
        """Whether ``receive`` has bytes that no event of the socket reports."""
        return bool(self._plain)

    def receive(self, size: int = PIECE) -> bytes | None:
        """Bytes, b'' at their end, None while there are none.

        :raises OSError: the connection broke
        """
        if self._plain:
            found, self._plain = self._plain, b''
            return found
        try:
            data = self.sock.recv(size)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        return self._decrypted(data)

    def send(self, data: bytes) -> int:
        """How many bytes were taken.

        :raises OSError: the connection broke
        """
        if self._tls is None:
            return self._sent(data)
        if not self._flush():
            return 0
        taken = data[:PIECE]
        self._waiting = self._encrypted(taken)
        self._flush()
        return len(taken)

    @property
    def pending(self) -> bool:
        """Whether bytes that ``send`` has taken wait for the socket."""
        return bool(self._waiting)

    def flush(self) -> None:
        self._flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.close()

    def _flush(self) -> bool:
        if self._waiting:
            self._waiting = self._waiting[self._sent(self._waiting):]
        return not self._waiting

    def _sent(self, data: bytes) -> int:
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0

    def _encrypted(self, data: bytes) -> bytes:
        if self._tls is None:
            return data
        self._tls.write(data)
        return self._out.read()

    def _decrypted(self, data: bytes) -> bytes | None:
        """Plain bytes; None where more is needed for some."""
        if self._tls is None:
            return data
        if not data:
            return b''
        self._in.write(data)
        return self._opened()

    def _opened(self) -> bytes | None:
        assert self._tls is not None
        pieces = []
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while piece := self._tls.read(PIECE):
                pieces.append(piece)
        return b''.join(pieces) or None


def connect(host: str, port: int, seconds: float = CONNECT_S) -> Stream:
    """A stream to a port of a hypervisor; all that is read and written before the session ends in so many seconds, too.

    :raises Broken: the host does not answer
    """
    deadline = time.monotonic() + seconds
    try:
        sock = socket.create_connection((host, port), seconds)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except OSError as error:
        raise Broken(f'{host}:{port}: {error.strerror or error}') from None
    return Stream(sock, deadline)


def connect_socket(path: pathlib.Path, seconds: float = CONNECT_S) -> Stream:
    """A stream to a socket of this host.

    :raises Broken: it is not there, or not for our eyes
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        raise Broken(f'{path}: {error.strerror or error}') from None
    return Stream(sock, time.monotonic() + seconds)


def context(conf: ConfigOpts) -> ssl.SSLContext | None:
    """How the proxies speak TLS with hypervisors; None: [console] hypervisor_ca_file is not set.

    :raises InvalidInput: the files cannot be used
    """
    options = conf.console
    if not options.hypervisor_ca_file:
        return None
    try:
        made = ssl.create_default_context(cafile=options.hypervisor_ca_file)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        if options.hypervisor_cert_file:
            made.load_cert_chain(options.hypervisor_cert_file, options.hypervisor_key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise exception.InvalidInput(reason=f'the files of hypervisors in [console] cannot be used: {error}.') from None
    return made
