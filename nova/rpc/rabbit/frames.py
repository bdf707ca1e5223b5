"""Fast encoding and decoding of the frequent frames of AMQP 0-9-1; pamqp handles all other frames.

See https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf, sections 2.3.5 and 4.2. tools/bench/rpc.py measures the
time of a call.
"""
from collections.abc import Iterator
import struct

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
_BASIC = 60


def _index(method: int) -> int:
    return _BASIC << 16 | method


DELIVER, RETURN, ACK, NACK = _index(60), _index(50), _index(80), _index(120)
_PUBLISH, _REJECT = _index(40), _index(90)

_FRAME = struct.Struct('>BHL')
_END = b'\xce'
OVERHEAD = _FRAME.size + len(_END)
_CONFIRM = struct.Struct('>LQB')
_DELIVERY = struct.Struct('>QB')
_CONTENT = struct.Struct('>HHQH')
# flags of the message properties, in the order of their encoding
_TYPE, _ENCODING, _MODE, _EXPIRATION, _NUMBER = 1 << 15, 1 << 14, 1 << 12, 1 << 8, 1 << 7
_PERSISTENT = 2
_JSON = b'\x10application/json\x05utf-8' + bytes([_PERSISTENT])

MAX_NAME = 255                       # bytes of a short string, such as the name of a queue or exchange
HEARTBEAT_FRAME = _FRAME.pack(HEARTBEAT, 0, 0) + _END


def _short(text: str) -> bytes:
    """Encode a short string.

    :raises ValueError: the text has more than 255 bytes
    """
    data = text.encode()
    if len(data) > MAX_NAME:
        raise ValueError(f'A name has more than {MAX_NAME} bytes: {text}')
    return bytes([len(data)]) + data


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _FRAME.pack(kind, channel, len(payload)) + payload + _END


def whole(channel: int, payload: bytes) -> bytes:
    """Return the complete frame of a received method, as pamqp needs it for decoding."""
    return _frame(METHOD, channel, payload)


def publish(channel: int, exchange: str, key: str, body: bytes, number: int, *, mandatory: bool,
            expires_ms: int | None, limit: int) -> bytes:
    """Return the frames of a JSON message.

    :param number: is returned with a message that the broker cannot route
    :param mandatory: the broker returns an unroutable message
    :param expires_ms: milliseconds after which a queue drops the message
    :param limit: the broker's maximum frame size in bytes
    :raises ValueError: a name is too long
    """
    method = struct.pack('>LH', _PUBLISH, 0) + _short(exchange) + _short(key) + bytes([mandatory])
    flags, properties = _TYPE | _ENCODING | _MODE | _NUMBER, _JSON
    if expires_ms is not None:
        flags, properties = flags | _EXPIRATION, properties + _short(str(expires_ms))
    header = _CONTENT.pack(_BASIC, 0, len(body), flags) + properties + _short(str(number))
    size = limit - OVERHEAD
    parts = [body] if len(body) <= size else [body[at:at + size] for at in range(0, len(body), size)]
    return b''.join([_frame(METHOD, channel, method), _frame(HEADER, channel, header),
                     *(_frame(BODY, channel, part) for part in parts)])


def number_of(header: bytes) -> int | None:
    """Return the ``number`` that ``publish`` wrote to the header of a returned message; None: there is no number."""
    _class, _weight, _size, flags = _CONTENT.unpack_from(header)
    at = _CONTENT.size + len(_JSON)
    if flags & _EXPIRATION:
        at += 1 + header[at]
    number = header[at + 1:at + 1 + header[at]] if flags & _NUMBER else b''
    return int(number) if number.isdigit() else None


def acknowledge(channel: int, tag: int, multiple: bool) -> bytes:
    """Return the frame that acknowledges the delivery with this tag.

    :param multiple: include all earlier deliveries
    """
    return _frame(METHOD, channel, _CONFIRM.pack(_index(80), tag, multiple))


def put_back(channel: int, tag: int) -> bytes:
    """Return the frame that requeues a delivery."""
    return _frame(METHOD, channel, _CONFIRM.pack(_REJECT, tag, 1))


def confirm(payload: bytes) -> tuple[int, bool]:
    """Return (delivery tag, whether all earlier deliveries are included) of an ACK or NACK frame."""
    _method, tag, multiple = _CONFIRM.unpack_from(payload)
    return tag, bool(multiple & 1)


def delivery(payload: bytes) -> tuple[str, int]:
    """Return (consumer tag, delivery tag) of a DELIVER frame."""
    end = 5 + payload[4]
    tag, _again = _DELIVERY.unpack_from(payload, end)
    return payload[5:end].decode(), tag


def returned(payload: bytes) -> tuple[int, str]:
    """Return (code, text) of a RETURN frame."""
    end = 7 + payload[6]
    return int.from_bytes(payload[4:6]), payload[7:end].decode(errors='replace')


def size_of_content(header: bytes) -> int:
    """Return the number of bytes in the body that follows a HEADER."""
    size: int = _CONTENT.unpack_from(header)[2]
    return size


class Splitter:
    """Splits a byte stream into frames.

    :param limit: maximum frame size in bytes
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._left = b''

    def split(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Yield (type, channel, payload) of each complete frame.

        :raises ConnectionError: the bytes are not valid frames
        """
        data = self._left + data if self._left else data
        at, end = 0, len(data)
        self._left = b''
        while end - at >= OVERHEAD:
            kind, channel, size = _FRAME.unpack_from(data, at)
            after = at + OVERHEAD + size
            if size > self.limit:
                raise ConnectionError(f'The broker sent a frame of {size} bytes.')
            if after > end:
                break
            if data[after - 1:after] != _END:
                raise ConnectionError('The broker sent a frame without its end.')
            yield kind, channel, data[at + _FRAME.size:after - 1]
            at = after
        self._left = data[at:]
