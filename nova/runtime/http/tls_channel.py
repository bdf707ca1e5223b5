"""TLS of a server on a non-blocking socket.

The ssl module works on two memory buffers instead of the socket. Therefore the same code works with green and native
threads, a handshake blocks no thread, and all received bytes are available immediately.
"""
import contextlib
import socket
import ssl

PIECE = 65536           # maximum encrypted bytes of one read of the socket
RECORD = 16384          # plain bytes of one TLS record, the unit of encryption
NOT_TLS = (b'HTTP/1.1 400 Bad Request\r\nServer: nova\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n'
           b'This address speaks TLS: begin with https://.\n')


class TlsConnection:
    """Server side of TLS on one connection.

    :param context: TLS context of the server
    :ivar ahead: sent bytes of the current record, which ``send`` reports only after the whole record is sent
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._waiting = b''              # encrypted bytes that the socket has not taken
        self._owed = self.ahead = 0      # number of plain bytes that are encrypted, but not reported by send()

    def receive(self, size: int) -> bytes:
        """Return all available plain bytes, b'' at the end.

        :param size: maximum bytes of one decrypted piece; the result may have several pieces
        :raises BlockingIOError: no bytes are available
        :raises OSError: the connection broke, or the client does not use TLS
        """
        while True:
            try:
                encrypted = self._sock.recv(PIECE)
            except BlockingIOError:
                self._flush()
                raise
            if encrypted:
                self._in.write(encrypted)
            else:
                self._in.write_eof()
            data, ended = self._decrypted(size)
            if data or ended or not encrypted:
                return data

    def send(self, data: bytes | memoryview) -> int:
        """Send at most one record; return the number of sent plain bytes. After 0, call again with the same data.

        :raises OSError: the connection broke
        """
        if not self._owed:
            try:
                self._owed = self._tls.write(memoryview(data)[:RECORD])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):        # the handshake is not finished
                self._flush()
                return 0
        if not self._flush():
            return 0
        sent, self._owed, self.ahead = self._owed, 0, 0
        return sent

    def say_end(self) -> None:
        """Send close_notify, the end of the TLS stream, as far as possible without waiting."""
        with contextlib.suppress(OSError, ValueError):
            try:
                self._tls.unwrap()
            finally:
                self._flush()

    def _decrypted(self, size: int) -> tuple[bytes, bool]:
        """Return (plain bytes, whether the client has ended the stream)."""
        pieces = []
        try:
            while piece := self._tls.read(size):
                pieces.append(piece)
            return b''.join(pieces), True
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b''.join(pieces), False
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b''.join(pieces), True
        except ssl.SSLError as error:
            if error.reason == 'HTTP_REQUEST':
                with contextlib.suppress(OSError):
                    self._sock.send(NOT_TLS)
            raise
        finally:
            self._flush()

    def _flush(self) -> bool:
        """Write encrypted bytes to the socket; return whether the socket has taken all bytes."""
        self._waiting += self._out.read()
        while self._waiting:
            try:
                taken = self._sock.send(self._waiting)
            except BlockingIOError:
                return False
            self._waiting = self._waiting[taken:]
            if self._owed:
                self.ahead += taken
        return True
