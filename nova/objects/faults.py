"""The fault of a server: what its owner may read of an error, and what administrators see."""
from __future__ import annotations

import traceback
from typing import Any

from nova import exception
from nova import utils

_READABLE = (exception.NoValidHost,)      # server errors whose sentences are made for users
MESSAGE_CHARACTERS = 255                  # of instance_action_events.details
ANYONE = 'The host could not complete the operation; the administrator of this cloud can see why.'


def fault(error: Any, message: str | None = None, details: str = '') -> dict[str, Any]:
    """{'code', 'message', 'details', 'created'} of an exception, as ``instances.fault`` holds it.

    :param message: sentence for the owner, when the error's own one does not say it
    :param details: for administrators, e.g. a traceback; what the error itself has for them comes before it
    """
    known = isinstance(error, exception.NovaException)
    if message is None:
        readable = known and (error.code < 500 or isinstance(error, _READABLE))
        message = error.message if readable else ANYONE
    parts = (f'{type(error).__name__}: {error}', known and error.kwargs.get('details'), details)
    return {'code': error.code if known else 500, 'message': message[:MESSAGE_CHARACTERS],
            'details': '\n'.join(str(part) for part in parts if part), 'created': utils.isotime(utils.utcnow())}


def for_administrators(message: str, details: str | None) -> str:
    """The message of a fault, with the error itself in the place of the sentence that stands for it.

    :param details: the fault's, or a traceback as ``trace`` makes it
    """
    lines = [line for line in (details or '').splitlines() if line.strip()]
    if ANYONE not in message or not lines:
        return message
    reason = lines[-1] if lines[0].startswith('  File ') else lines[0]
    return message.replace(ANYONE, reason)[:MESSAGE_CHARACTERS]


def trace(error: Any) -> str:
    """The traceback of an exception as text, with those of its causes.

    Without the carets under a part of the line, for which Python parses the source: its parser is not safe against
    another thread that parses at the same moment, and raises SystemError where the end of a task should be written.
    """
    parts, seen = [], set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = [(frame.filename, frame.lineno or 0, frame.name, frame.line)
                  for frame in traceback.extract_tb(error.__traceback__)]
        parts.append(''.join(traceback.format_list(frames)) + f'{type(error).__name__}: {error}\n')
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return '\n'.join(reversed(parts))
