"""Private parts of PyMySQL 1.2.4: connection setup and faster reading of SELECT results.

PyMySQL makes an object for each packet and calls three methods for each value. In one loop, this module reads all
packets that have arrived. It caches parsed column descriptions by their bytes. It returns the same values as PyMySQL.
PyMySQL still reads rare packets: end, errors and incomplete packets.

Without options for TLS, a connection uses TLS if the server supports it, and verifies no certificate. For each
connection, PyMySQL loads all certificates of the system into a new context: 27 ms and 0.8 MB. Here all connections
share one context without certificates.
"""
import codecs
from collections.abc import Callable
import datetime
import functools
import socket
import ssl
from typing import Any, cast

from pymysql import connections
from pymysql import converters
from pymysql import err
from pymysql.constants import CR

AHEAD = 1 << 16                  # buffer size of a connection in bytes
MAX_DESCRIPTIONS = 1024                      # maximum number of cached descriptions, one for each SELECT

# First byte of a value: 252 and 253 announce a length of two or three bytes (254: of eight bytes), 251 means NULL.
_FIRST_OF_TWO, _FIRST_OF_THREE, _NULL = 252, 253, 251
_ERROR, _END, _LONGEST_END = 255, 254, 9

Decoder = Callable[[bytes], Any]
_known: dict[Any, tuple[Any, ...]] = {}


def connect(**options: object) -> connections.Connection:
    """Return a connection of PyMySQL with the faster reading of results.

    :param options: see ``pymysql.connect``
    """
    return _Connection(**options)


@functools.cache
def _where_there_is_tls() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


class _Connection(connections.Connection):
    """A connection that reads results with _Answer; PyMySQL reads results of unbuffered cursors."""

    _rfile: Any
    _next_seq_id: int

    def _create_ssl_ctx(self, sslp: dict[str, object] | ssl.SSLContext) -> ssl.SSLContext:
        return super()._create_ssl_ctx(sslp) if sslp else _where_there_is_tls()

    def connect(self, sock: socket.socket | None = None) -> None:
        super().connect(sock)
        # the server sends nothing before it gets a statement: the previous buffer is empty
        before, self._rfile = self._rfile, self._sock.makefile('rb', AHEAD)
        before.close()

    def _read_query_result(self, unbuffered: bool = False) -> int:
        if unbuffered:
            return super()._read_query_result(unbuffered=True)
        self._result: _Answer | None = None
        result = _Answer(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows

    def arrived(self) -> bytes:
        """Return the next bytes without consuming them; wait if nothing has arrived.

        :raises OperationalError: the connection is lost
        """
        try:
            return cast(bytes, self._rfile.peek())
        except OSError as error:
            self._force_close()
            raise err.OperationalError(
                CR.CR_SERVER_LOST, f'Lost connection to MySQL server during query ({error})') from error
        except BaseException:
            self._force_close()
            raise

    def take(self, size: int, packets: int) -> None:
        """Consume ``size`` received bytes, which contain ``packets`` packets."""
        self._rfile.read(size)
        self._next_seq_id = (self._next_seq_id + packets) % 256


class _Answer(connections.MySQLResult):
    """A result that reads columns and rows fast; the base class reads everything else."""

    connection: Any
    affected_rows: Any
    fields: Any
    converters: Any
    description: Any
    _decoders: list[Decoder | None]

    def _get_descriptions(self) -> None:
        connection: _Connection = self.connection
        data = connection.arrived()
        end, length = 0, len(data)
        for _ in range(self.field_count):
            if end + 3 >= length:
                end = length + 1
                break
            end += 4 + (data[end] | data[end + 1] << 8 | data[end + 2] << 16)
        whole = end <= length and data[3] == connection._next_seq_id
        key = (connection.encoding, connection.use_unicode, data[:end])
        known = _known.get(key) if whole else None
        if known is None:
            super()._get_descriptions()
            self._decoders = [_decoder(*pair) for pair in self.converters]
            if whole:
                if len(_known) >= MAX_DESCRIPTIONS:
                    _known.clear()
                _known[key] = self.fields, self.converters, self.description, self._decoders
            return
        self.fields, self.converters, self.description, self._decoders = known
        connection.take(end, self.field_count)
        if not connection._read_packet().is_eof_packet():
            raise err.InternalError('Protocol error, expecting EOF')

    def _read_rowdata_packet(self) -> None:
        connection: _Connection = self.connection
        decoders: list[Decoder | None] = self._decoders
        rows: list[tuple[Any, ...]] = []
        while True:
            packet = connection._read_packet()
            if self._check_packet_is_eof(packet):
                break
            rows.append(_row(packet.get_all_data(), 0, decoders))
            self._rows_arrived(connection, decoders, rows)
        self.connection = None
        self.affected_rows = len(rows)
        self.rows = tuple(rows)

    @staticmethod
    def _rows_arrived(connection: _Connection, decoders: list[Decoder | None], rows: list[tuple[Any, ...]]) -> None:
        """Read the completely received rows, up to the first packet that is not a row."""
        data, begin, number = connection.arrived(), 0, connection._next_seq_id
        length, before = len(data), len(rows)
        while begin + 4 < length:
            size = data[begin] | data[begin + 1] << 8 | data[begin + 2] << 16
            end, first = begin + 4 + size, data[begin + 4]
            if (end > length or data[begin + 3] != number or not size or first == _ERROR
                    or first == _END and size < _LONGEST_END):
                break
            rows.append(_row(data, begin + 4, decoders))
            begin, number = end, number + 1 & 255
        if begin:
            connection.take(begin, len(rows) - before)


def _row(data: bytes, at: int, decoders: list[Decoder | None]) -> tuple[Any, ...]:
    """Return the values of the row that begins at ``at``."""
    values: list[Any] = []
    add = values.append
    for decode in decoders:
        size = data[at]
        at += 1
        if size >= _NULL:
            if size == _NULL:
                add(None)
                continue
            width = 2 if size == _FIRST_OF_TWO else 3 if size == _FIRST_OF_THREE else 8
            size = int.from_bytes(data[at:at + width], 'little')
            at += width
        end = at + size
        add(data[at:end] if decode is None else decode(data[at:end]))
        at = end
    return tuple(values)


def _decoder(encoding: str | None, converter: Callable[[Any], Any] | None) -> Decoder | None:
    """Return a function that decodes and converts a value in one step, unlike PyMySQL; None: keep the bytes."""
    if encoding is None or converter in (int, float):   # int and float parse bytes, without decoding
        return converter
    if converter is None:
        if codecs.lookup(encoding).name == 'utf-8':
            return bytes.decode
        return lambda value: value.decode(encoding)
    if converter is converters.convert_datetime:
        return _moment
    return lambda value: converter(value.decode(encoding))


def _moment(value: bytes) -> datetime.datetime | str | None:
    """Parse a datetime; as in PyMySQL, an invalid value such as 0000-00-00 00:00:00 stays text."""
    text = value.decode('ascii')
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return converters.convert_datetime(text)
