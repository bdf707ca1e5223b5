"""Faults of servers: error data for the owner and for administrators."""
import traceback
from typing import NotRequired, TypedDict

from nova import exception
from nova import utils
from nova.json_types import Json

_READABLE = (exception.NoValidHost,)      # server errors whose messages are written for users
MESSAGE_CHARACTERS = 255                  # length of instance_action_events.details
DETAILS_CHARACTERS = 64 * 1024            # a traceback has a few KiB; its cut end is in the log of the service
_TIME_CHARACTERS = 32
_REQUIRED = {'code', 'message', 'details', 'created'}
ANYONE = 'The host could not complete the operation; the administrator of this cloud can see why.'


class Fault(TypedDict):
    """The column ``fault`` of a server, and the form in which a host reports it.

    created   time in the format of the API
    final     in a report: whether a failed build would also fail on every other host
    """

    code: int
    message: str
    details: str
    created: NotRequired[str | None]
    final: NotRequired[bool]


def fault(error: BaseException, message: str | None = None, details: str = '') -> Fault:
    """Return the fault of an exception for ``instances.fault``.

    :param message: sentence for the owner that replaces the error's message
    :param details: text for administrators, such as a traceback; it follows the error's own details
    """
    known = error if isinstance(error, exception.NovaException) else exception.NovaException()
    if message is None:
        message = known.message if known.code < 500 or isinstance(known, _READABLE) else ANYONE
    parts = (f'{type(error).__name__}: {error}', known.kwargs.get('details'), details)
    return {'code': known.code, 'message': message[:MESSAGE_CHARACTERS],
            'details': '\n'.join(str(part) for part in parts if part)[:DETAILS_CHARACTERS],
            'created': utils.isotime(utils.utcnow())}


def is_report(value: Json) -> bool:
    """Return whether a value from a host is a fault within the limits of ``fault``."""
    return (isinstance(value, dict) and _REQUIRED <= value.keys() <= {*_REQUIRED, 'final'}
            and type(value['code']) is int and 100 <= value['code'] <= 599
            and isinstance(value.get('final', False), bool)
            and all(isinstance(text := value[name], str) and len(text) <= most for name, most in (
                ('message', MESSAGE_CHARACTERS), ('details', DETAILS_CHARACTERS), ('created', _TIME_CHARACTERS))))


def stored(fault: Fault) -> Fault:
    """Return the keys of a report that the column stores."""
    return {'code': fault['code'], 'message': fault['message'], 'details': fault['details'],
            'created': fault['created']}


def for_administrators(message: str, details: str | None) -> str:
    """Return the message of a fault. The generic sentence ANYONE is replaced by the error in ``details``.

    :param details: details of the fault, or a traceback in the form of ``trace``
    """
    lines = [line for line in (details or '').splitlines() if line.strip()]
    if ANYONE not in message or not lines:
        return message
    reason = lines[-1] if lines[0].startswith('  File ') else lines[0]
    return message.replace(ANYONE, reason)[:MESSAGE_CHARACTERS]


def trace(error: BaseException | None) -> str:
    """Return the traceback of an exception with its causes as text.

    The text has no carets below source lines. To place carets, Python parses the source, and its parser raises
    SystemError if another thread parses at the same time.
    """
    parts, seen = [], set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = [(frame.filename, frame.lineno or 0, frame.name, frame.line)
                  for frame in traceback.extract_tb(error.__traceback__)]
        parts.append(''.join(traceback.format_list(frames)) + f'{type(error).__name__}: {error}\n')
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return '\n'.join(reversed(parts))
