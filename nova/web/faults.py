"""Mapping of exceptions to HTTP status codes and messages, shared by all APIs.

A handler raises an exception, and the API builds its fault document from code and message. The response to an
unexpected exception is a 500 without details; the log has the details.
"""
import collections.abc
import logging
from typing import NotRequired, TypedDict

import oslo_messaging

from nova import exception
from nova.db import errors

LOG = logging.getLogger(__name__)

# exceptions of libraries that mean that another service is unavailable
UNAVAILABLE = (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure,
               oslo_messaging.MessageUndeliverable, *errors.UNAVAILABLE)

BODY_KEYS = {
    400: 'badRequest', 401: 'unauthorized', 403: 'forbidden', 404: 'itemNotFound', 405: 'badMethod',
    409: 'conflictingRequest', 413: 'overLimit', 415: 'badMediaType', 429: 'overLimit', 501: 'notImplemented',
    503: 'serviceUnavailable',
}
INTERNAL = 'computeFault'         # key of fault documents for codes not in BODY_KEYS, such as 406 and 500

Translate = collections.abc.Callable[[str], str]


def explain(error: Exception, request_id: str | None, unexpected: str = exception.NovaException.template,
            translate: Translate = str) -> tuple[int, str, str]:
    """Return (code, message, message in English) for an exception, and log internal details.

    :param request_id: request ID in the log
    :param unexpected: message of a 500; %(id)s is replaced by the request ID
    :param translate: translates an English template into the client's language
    """
    if isinstance(error, exception.NovaException) and error.code != 500:
        if error.code > 500:
            LOG.warning('Request %s was answered with %s: %s', request_id, error.code, error.message)
        return error.code, error.message_in(translate), str(error.message)
    if isinstance(error, UNAVAILABLE):
        why = 'the disk of the database is full' if errors.is_full(error) else 'a required service does not respond'
        LOG.error('Request %s: %s: %s', request_id, why, errors.reason(error), exc_info=error)
        return exception.Unavailable.code, translate(exception.Unavailable.template), exception.Unavailable.template
    LOG.error('Request %s failed unexpectedly.', request_id, exc_info=error)
    return 500, translate(unexpected) % {'id': request_id}, unexpected % {'id': request_id}


class Fault(TypedDict):
    """An error of the compute and volume APIs."""

    code: int
    message: str
    retryAfter: NotRequired[str | None]


def document(code: int, message: str) -> dict[str, Fault]:
    """Build the fault document of the compute and volume APIs."""
    return {BODY_KEYS.get(code, INTERNAL): {'code': code, 'message': message}}
