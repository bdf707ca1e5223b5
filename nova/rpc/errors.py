"""Classification of the errors that messaging libraries raise."""
from collections.abc import Set

import oslo_messaging

_UNSENT = (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable, OSError)
_NO_CONNECTION = {'kombu.exceptions.OperationalError'}      # a driver raises it if a connection hangs


def is_named(error: BaseException, names: Set[str]) -> bool:
    """Return whether the error's class or a base class is one of ``names`` ('module.Class'); avoids imports."""
    return not names.isdisjoint(f'{kind.__module__}.{kind.__name__}' for kind in type(error).__mro__)


def reason(error: BaseException) -> str:
    """Return why a message was not sent, for a log. MessageUndeliverable gets a text here, because it has none."""
    if isinstance(error, oslo_messaging.MessageUndeliverable):
        return 'no running service receives it'
    return str(error) or type(error).__name__


def is_unsent(error: BaseException) -> bool:
    """Return whether the error means that no broker was reachable, or that the broker did not take the message."""
    return isinstance(error, _UNSENT) or is_named(error, _NO_CONNECTION)
