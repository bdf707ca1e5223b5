"""Message format of oslo.messaging's RabbitMQ driver: a JSON object that contains message and context as JSON text."""
import collections
import uuid

import orjson

from nova.json_types import Json
from nova.json_types import JsonObject
from nova.runtime.hooks import oslo_messaging as messaging_hooks

CONTEXT = '_context_'
NUMBER, CALL, REPLIES, MONITORED = '_unique_id', '_msg_id', '_reply_q', '_timeout'
VERSION, INNER = 'oslo.version', 'oslo.message'
MAX_NUMBERS = 1000            # maximum kept ids of acknowledged messages, to detect repeated messages
MAX_NUMBER_LENGTH = 64        # characters; longer ids are not kept. Both drivers send 32


def pack(message: JsonObject, context: JsonObject | None = None, **more: Json) -> bytes:
    """Serialize a message.

    :param more: additional keys of the driver
    """
    inner = {**message, NUMBER: uuid.uuid4().hex, **more}
    if context:
        inner.update((CONTEXT + name, value) for name, value in context.items())
    return orjson.dumps({VERSION: messaging_hooks.ENVELOPE_VERSION, INNER: orjson.dumps(inner).decode()})


def unpack(body: bytes) -> JsonObject:
    """Parse a message.

    :raises ValueError: the message is malformed
    """
    outer = orjson.loads(body)
    if not isinstance(outer, dict):
        raise ValueError('not an object')
    if VERSION not in outer:
        return outer
    if str(outer[VERSION]).partition('.')[0] != messaging_hooks.ENVELOPE_VERSION.partition('.')[0]:
        raise ValueError(f'version {outer[VERSION]}')
    inner = orjson.loads(outer.get(INNER, b''))        # a missing key is a JSONDecodeError, which is a ValueError
    if not isinstance(inner, dict):
        raise ValueError('not an object')
    return inner


def parts(inner: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Split a received message into (context, message)."""
    context: JsonObject = {}
    message: JsonObject = {}
    for name, value in inner.items():
        if name.startswith(CONTEXT):
            context[name[len(CONTEXT):]] = value
        else:
            message[name] = value
    return context, message


class Numbers:
    """Unique ids (numbers) of the last messages, to detect messages that are repeated after a disconnect.

    :param unacknowledged: maximum number of unacknowledged messages
    """

    def __init__(self, unacknowledged: int) -> None:
        self._max = MAX_NUMBERS + unacknowledged
        self._known: collections.OrderedDict[str, None] = collections.OrderedDict()

    def is_new(self, inner: JsonObject) -> bool:
        """Remove the number from a message; return whether the number is new."""
        number = inner.pop(NUMBER, None)
        if not isinstance(number, str) or len(number) > MAX_NUMBER_LENGTH:
            return True
        if number in self._known:
            self._known.move_to_end(number)  # keep the number longer: the message may be repeated again
            return False
        self._known[number] = None
        if len(self._known) > self._max:
            self._known.popitem(last=False)
        return True
