"""Faults of the compute API: in the client's language, with the headers that say when to retry."""
import datetime
import typing

from nova import i18n
from nova import utils
from nova.i18n import _
from nova.web import faults

UNEXPECTED = _('Unexpected API Error. The cause is in the service log under request id %(id)s.')

RETRY_AFTER = {413: '0', 429: '1', 503: '5'}     # seconds, unless the error gives a number


def answer(error: Exception, request_id: str | None, accept_language: str = '') -> tuple[
        int, list[tuple[str, str]], dict[str, typing.Any]]:
    """(code, headers, document) of an exception; logs what the document must not say.

    :param accept_language: the header of the request; a sentence that no catalog has stays English
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
