"""Classification of the errors that messaging libraries raise."""
from collections.abc import Set

import oslo_messaging

_UNSENT = (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable, OSError)
_NO_CONNECTION = {'kombu.exceptions.OperationalError'}      # raised by the driver for a connection that hangs


def is_named(error: BaseException, names: Set[str]) -> bool:
    """Return whether an error is of one of these classes ('module.Class'), which need not be installed."""
    return not names.isdisjoint(f'{kind.__module__}.{kind.__name__}' for kind in type(error).__mro__)


def reason(error: BaseException) -> str:
    """Return the reason of a failed send for a log; an undeliverable message has no text."""
    if isinstance(error, oslo_messaging.MessageUndeliverable):
        return 'no running service receives it'
    return str(error) or type(error).__name__


def is_unsent(error: BaseException) -> bool:
    """Return whether there is no broker, or the broker did not take the message."""
    return isinstance(error, _UNSENT) or is_named(error, _NO_CONNECTION)
