"""Delivery options of messages, and protocols of received messages."""
from types import TracebackType
from typing import Protocol, TypeAlias

import oslo_messaging

from nova.json_types import Json
from nova.json_types import JsonObject

ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None]

OPTIONS = {
    'retry': 3,                     # maximum attempts to reach a broker; then the sender gets an error
    # If the broker has no queue for a message, the sender gets an error.
    'transport_options': oslo_messaging.TransportOptions(at_least_once=True),
}


class Incoming(Protocol):
    """A received message, before its values are deserialized.

    ctxt            context
    client_timeout  seconds without a heartbeat after which the caller gives up; None: no heartbeats are expected
    """

    ctxt: JsonObject
    message: JsonObject
    client_timeout: float | None

    def acknowledge(self) -> None: ...
    def heartbeat(self) -> None: ...
    def reply(self, reply: Json = None, failure: ExcInfo | None = None) -> None: ...


class Listener(Protocol):
    """Subscription of a started server."""

    def cleanup(self) -> None: ...
