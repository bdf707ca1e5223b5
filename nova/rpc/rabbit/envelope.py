"""Messages as oslo.messaging's own driver writes them: JSON in JSON, and the context's keys next to the message's."""
from __future__ import annotations

import collections
from typing import Any
import uuid

import orjson

from nova.runtime.hooks import oslo_messaging as messaging_hooks

CONTEXT = '_context_'
NUMBER, CALL, REPLIES, MONITORED = '_unique_id', '_msg_id', '_reply_q', '_timeout'
VERSION, INNER = 'oslo.version', 'oslo.message'
REMEMBERED = 1000            # numbers besides those of messages without an acknowledgement: senders, too, send again


def pack(message: dict[str, Any], context: dict[str, Any] | None = None, **more: Any) -> bytes:
    """
    :param more: what the driver adds
    """
    inner = {**message, NUMBER: uuid.uuid4().hex, **more}
    if context:
        inner.update((CONTEXT + name, value) for name, value in context.items())
    return orjson.dumps({VERSION: messaging_hooks.ENVELOPE_VERSION, INNER: orjson.dumps(inner).decode()})


def unpack(body: bytes) -> dict[str, Any]:
    """
    :raises ValueError: this is no message
    """
    outer = orjson.loads(body)
    if not isinstance(outer, dict):
        raise ValueError('not an object')
    if VERSION not in outer:
        return outer
    if str(outer[VERSION]).partition('.')[0] != messaging_hooks.ENVELOPE_VERSION.partition('.')[0]:
        raise ValueError(f'version {outer[VERSION]}')
    inner = orjson.loads(outer[INNER])
    if not isinstance(inner, dict):
        raise ValueError('not an object')
    return inner


def parts(inner: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(context, message) of what a service was sent."""
    context, message = {}, {}
    for name, value in inner.items():
        if name.startswith(CONTEXT):
            context[name[len(CONTEXT):]] = value
        else:
            message[name] = value
    return context, message


class Numbers:
    """Those of the last messages: one that was not acknowledged comes again after a connection was lost.

    :param unacknowledged: as many as a broker sends without an acknowledgement may come again
    """

    def __init__(self, unacknowledged: int) -> None:
        self._remembered = REMEMBERED + unacknowledged
        self._known: collections.OrderedDict[str, None] = collections.OrderedDict()

    def is_new(self, inner: dict[str, Any]) -> bool:
        """Whether this message was not seen before; its number is taken out of it."""
        number = inner.pop(NUMBER, None)
        if number is None:
            return True
        if number in self._known:
            self._known.move_to_end(number)            # the next connection may be lost, too
            return False
        self._known[number] = None
        if len(self._known) > self._remembered:
            self._known.popitem(last=False)
        return True
