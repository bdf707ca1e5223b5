"""Fault responses of the compute API: translated, with Retry-After headers."""
import datetime
import typing

from nova import i18n
from nova import utils
from nova.i18n import _
from nova.web import faults

UNEXPECTED = _('Unexpected API Error. The cause is in the service log under request id %(id)s.')

RETRY_AFTER = {413: '0', 429: '1', 503: '5'}     # Retry-After in seconds if the exception has no retry_after


def answer(error: Exception, request_id: str | None, accept_language: str = '') -> tuple[
        int, list[tuple[str, str]], dict[str, typing.Any]]:
    """Return (code, headers, document) for an exception, and log internal details.

    :param accept_language: header of the request; a message without a translation remains English
    """
    language = i18n.best_language(accept_language)
    code, message, english = faults.explain(error, request_id, UNEXPECTED, lambda text: i18n.translate(text, language))
    document = faults.document(code, message)
    headers = [('Content-Language', i18n.DEFAULT if message == english else language), ('Vary', 'Accept-Language')]
    retry = getattr(error, 'kwargs', {}).get('retry_after', RETRY_AFTER.get(code))
    if retry is not None:
        headers.append(('Retry-After', str(retry)))
        if 'overLimit' in document:
            document['overLimit']['retryAfter'] = utils.isotime(utils.utcnow() + datetime.timedelta(seconds=int(retry)))
    if code == 405 and (allow := getattr(error, 'kwargs', {}).get('allow')):
        headers.append(('Allow', ', '.join(allow)))
    return code, headers, document
