"""Errors as HTTP: from an exception to a code and a sentence, once for all APIs.

A handler raises; the form of an API makes a document of the code and the sentence. What is not meant for a user is a
500 that holds nothing of the cause; the log has all of it.
"""
import collections.abc
import logging
import typing

import oslo_messaging

from nova import exception
from nova.db import errors

LOG = logging.getLogger(__name__)

# What means "another part of the system does not answer", in any library.
UNAVAILABLE = (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure,
               oslo_messaging.MessageUndeliverable, *errors.UNAVAILABLE)

BODY_KEYS = {
    400: 'badRequest', 401: 'unauthorized', 403: 'forbidden', 404: 'itemNotFound', 405: 'badMethod',
    409: 'conflictingRequest', 413: 'overLimit', 415: 'badMediaType', 429: 'overLimit', 501: 'notImplemented',
    503: 'serviceUnavailable',
}
INTERNAL = 'computeFault'         # 500, 406 and every code that has no key of its own

Translate = collections.abc.Callable[[str], str]


def explain(error: Exception, request_id: str | None, unexpected: str = exception.NovaException.template,
            translate: Translate = str) -> tuple[int, str, str]:
    """(code, sentence, sentence in English) of an exception; logs what the sentence must not say.

    :param request_id: by which the log is searched
    :param unexpected: the sentence of a 500; %(id)s in it is the request's
    :param translate: from an English template to the client's language
    """
    if isinstance(error, exception.NovaException) and error.code != 500:
        if error.code > 500:
            LOG.warning('Request %s answered with %s: %s', request_id, error.code, error.message)
        return error.code, error.message_in(translate), str(error.message)
    if isinstance(error, UNAVAILABLE):
        why = 'the disk of the database is full' if errors.is_full(error) else 'a service that it needs does not answer'
        LOG.error('Request %s: %s: %s', request_id, why, errors.reason(error), exc_info=error)
        return exception.Unavailable.code, translate(exception.Unavailable.template), exception.Unavailable.template
    LOG.error('Request %s failed unexpectedly.', request_id, exc_info=error)
    return 500, translate(unexpected) % {'id': request_id}, unexpected % {'id': request_id}


def document(code: int, message: str) -> dict[str, dict[str, typing.Any]]:
    """A fault as the compute and the volume API write it."""
    return {BODY_KEYS.get(code, INTERNAL): {'code': code, 'message': message}}
