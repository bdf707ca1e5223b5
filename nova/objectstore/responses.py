"""Functions that several responses of the object store use."""
from collections.abc import Callable, Iterable
import datetime
import re
import urllib.parse

from nova.objectstore import documents
from nova.objectstore import errors
from nova.objectstore.request import Answer
from nova.objectstore.request import Request

_NOT_IN_XML = re.compile('[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]')


def xml(name: str, parts: Iterable[tuple[str, documents.Value]]) -> Answer:
    return 200, [], documents.render(name, parts)


def owner(req: Request) -> tuple[str, documents.Value]:
    return 'Owner', [('ID', req.project), ('DisplayName', req.project)]


def stamp(when: datetime.datetime) -> str:
    return when.replace(microsecond=0).isoformat() + '.000Z'


def shown(encoding: str | None) -> Callable[[str], str]:
    """Return the function that encodes texts of a list response.

    Without encoding, the function raises S3Error for characters that XML cannot contain. No key has them.

    :raises S3Error: unknown encoding
    """
    if encoding not in (None, 'url'):
        raise errors.S3Error('InvalidArgument', 'encoding-type must be url.')
    return urllib.parse.quote if encoding else _plain


def _plain(text: str) -> str:
    if _NOT_IN_XML.search(text):
        raise errors.S3Error('InvalidArgument', 'A parameter has control characters, which need encoding-type=url.')
    return text
