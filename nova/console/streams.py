"""Connections to hypervisors over TCP, TLS or a local socket; first blocking, then non-blocking.

TLS uses memory buffers, as in nova.runtime.http.tls_channel, so that the code works with both thread models.
"""
import contextlib
import pathlib
import socket
import ssl
import time

from oslo_config.cfg import ConfigOpts

from nova import exception

CONNECT_S = 5                       # timeout of a connection within the cloud
PIECE = 65536


class Broken(Exception):
    """The hypervisor is unreachable or violates the protocol; the message is for the log."""


class Stream:
    """Connection to a hypervisor.

    :param sock: connected socket
    :param deadline: time.monotonic() limit of ``read`` and ``write``
    """

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock, self._deadline = sock, deadline
        self._tls: ssl.SSLObject | None = None
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._plain = b''                # received, not yet read
        self._waiting = b''              # encrypted, not yet sent

    # ---- before the session: blocking

    def read(self, size: int) -> bytes:
        """Read exactly ``size`` bytes.

        :raises Broken: the connection ended or timed out
        """
        while len(self._plain) < size:
            self._wait()
            try:
                data = self._decrypted(self.sock.recv(PIECE))
            except OSError as error:
                raise Broken(str(error)) from None
            if data == b'':
                raise Broken('The hypervisor closed the connection.')
            self._plain += data or b''
        found, self._plain = self._plain[:size], self._plain[size:]
        return found

    def write(self, data: bytes) -> None:
        """Write all bytes.

        :raises Broken: the connection ended or timed out
        """
        self._wait()
        try:
            self.sock.sendall(self._encrypted(data))
        except OSError as error:
            raise Broken(str(error)) from None

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Start TLS. Bytes that have already arrived were not encrypted: an attacker may have sent them.

        :raises Broken: the hypervisor's certificate is invalid, the handshake failed, or bytes arrived before it
        """
        if self._plain:
            raise Broken('Unencrypted data arrived before the TLS handshake.')
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
                        raise Broken('The hypervisor closed the connection in the TLS handshake.') from None
                    self._in.write(data)
            self.sock.sendall(self._out.read())
            self._plain = self._opened() or b''          # data may arrive together with the end of the handshake
        except OSError as error:
            raise Broken(f'TLS: {error}') from None

    def _wait(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Broken('The hypervisor did not respond in time.')
        self.sock.settimeout(left)

    # ---- in the session: non-blocking

    def flow(self) -> None:
        """Switch to non-blocking mode."""
        self.sock.setblocking(False)

    @property
    def has_more(self) -> bool:
        """True if ``receive`` has buffered bytes that the socket does not report."""
        return bool(self._plain)

    def receive(self, size: int = PIECE) -> bytes | None:
        """Return received bytes, b'' at the end of the stream, or None if there are no bytes now.

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
        """Send bytes without blocking; return the number of bytes that were sent or buffered.

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
        """True if buffered bytes wait for the socket."""
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
        """Return decrypted bytes; None if a TLS record is incomplete."""
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
    """Connect to a port of a hypervisor. The timeout includes all I/O before the session.

    :raises Broken: the host does not respond
    """
    deadline = time.monotonic() + seconds
    try:
        sock = socket.create_connection((host, port), seconds)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except OSError as error:
        raise Broken(f'{host}:{port}: {error.strerror or error}') from None
    return Stream(sock, deadline)


def connect_socket(path: pathlib.Path) -> Stream:
    """Connect to a socket of this host.

    :raises Broken: the socket does not exist, or access is denied
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(CONNECT_S)
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        raise Broken(f'{path}: {error.strerror or error}') from None
    return Stream(sock, time.monotonic() + CONNECT_S)


def context(conf: ConfigOpts) -> ssl.SSLContext | None:
    """Return the TLS context for hypervisors; None if [console] hypervisor_ca_file is not set.

    :raises InvalidInput: the files are invalid
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
        raise exception.InvalidInput(reason=f'Cannot load the hypervisor certificates of [console]: {error}.') from None
    return made
