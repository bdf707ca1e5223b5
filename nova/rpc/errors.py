"""What goes wrong on the way of a message, as the libraries say it."""
from __future__ import annotations

from typing import Any

import oslo_messaging

_UNSENT = (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable, OSError)
_NO_CONNECTION = {'kombu.exceptions.OperationalError'}      # what the driver lets through of a connection that hangs


def is_named(error: Any, names: Any) -> bool:
    """Whether an error is of one of these classes, which need not be installed: 'module.Class'."""
    return not names.isdisjoint(f'{kind.__module__}.{kind.__name__}' for kind in type(error).__mro__)


def reason(error: Any) -> str:
    """Why a message was not sent, for a log; a message without a receiver has no text of its own."""
    if isinstance(error, oslo_messaging.MessageUndeliverable):
        return 'no service that receives it runs'
    return str(error) or type(error).__name__


def is_unsent(error: Any) -> Any:
    """Whether it means that there is no broker, or that it did not take the message."""
    return isinstance(error, _UNSENT) or is_named(error, _NO_CONNECTION)
