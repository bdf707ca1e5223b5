"""Errors as HTTP answers: class → code → body key, once for the whole API.

A handler raises; nothing else knows the form of a fault. Everything that is not meant for a user is a 500 whose
body carries the request id and nothing of the cause; the log carries all of it.
"""
import datetime
import logging

import oslo_messaging
import sqlalchemy.exc
from oslo_db import exception as db_exc

from nova import exception
from nova import i18n
from nova import utils
from nova.i18n import _

LOG = logging.getLogger(__name__)

BODY_KEYS = {
    400: 'badRequest', 401: 'unauthorized', 403: 'forbidden', 404: 'itemNotFound', 405: 'badMethod',
    409: 'conflictingRequest', 413: 'overLimit', 415: 'badMediaType', 429: 'overLimit', 501: 'notImplemented',
    503: 'serviceUnavailable',
}
INTERNAL = 'computeFault'         # 500, 406 and every code that has no key of its own

UNEXPECTED = _('Unexpected API Error. The cause is in the service log under request id %(id)s.')

RETRY_AFTER = {413: '0', 429: '1', 503: '5'}     # seconds, unless the error knows better

# What stands for "another part of the system does not answer", whoever raises it.
UNAVAILABLE = (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure,
               oslo_messaging.MessageUndeliverable, db_exc.DBConnectionError,
               db_exc.DBDeadlock, db_exc.DBNonExistentDatabase, sqlalchemy.exc.OperationalError,
               sqlalchemy.exc.TimeoutError)


def answer(error, request_id, accept_language=''):
    """(code, headers, body dict) for an exception; logs what the body must not tell.

    :param accept_language: the header of the request; a sentence that no catalog has stays English
    """
    language = i18n.best_language(accept_language)
    code, message, english = _code_and_messages(error, request_id, language)
    fault = {'code': code, 'message': message}
    headers = [('Content-Language', i18n.DEFAULT if message == english else language), ('Vary', 'Accept-Language')]
    retry = getattr(error, 'kwargs', {}).get('retry_after', RETRY_AFTER.get(code))
    if retry is not None:
        headers.append(('Retry-After', str(retry)))
        if BODY_KEYS[code] == 'overLimit':
            fault['retryAfter'] = utils.isotime(utils.utcnow() + datetime.timedelta(seconds=int(retry)))
    if code == 405 and getattr(error, 'kwargs', {}).get('allow'):
        headers.append(('Allow', ', '.join(error.kwargs['allow'])))
    return code, headers, {BODY_KEYS.get(code, INTERNAL): fault}


def _code_and_messages(error, request_id, language):
    """(code, sentence in the language, sentence in English)"""
    def translate(text):
        return i18n.translate(text, language)

    if isinstance(error, exception.NovaException) and error.code != 500:
        if error.code > 500:
            LOG.warning('Request %s answered with %s: %s', request_id, error.code, error.message)
        return error.code, error.message_in(translate), str(error.message)
    if isinstance(error, UNAVAILABLE):
        LOG.error('Request %s: a service that it needs does not answer.', request_id, exc_info=error)
        return 503, translate(exception.Unavailable.template), exception.Unavailable.template
    LOG.error('Request %s failed unexpectedly.', request_id, exc_info=error)
    return 500, translate(UNEXPECTED) % {'id': request_id}, UNEXPECTED % {'id': request_id}
