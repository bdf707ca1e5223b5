"""Functions that several responses of the object store use."""
from collections.abc import Callable, Iterable
import datetime
import urllib.parse

from nova.objectstore import documents
from nova.objectstore import errors
from nova.objectstore.request import Answer
from nova.objectstore.request import Request


def xml(name: str, parts: Iterable[tuple[str, documents.Value]]) -> Answer:
    return 200, [], documents.render(name, parts)


def owner(req: Request) -> tuple[str, documents.Value]:
    return 'Owner', [('ID', req.project), ('DisplayName', req.project)]


def stamp(when: datetime.datetime) -> str:
    return when.replace(microsecond=0).isoformat() + '.000Z'


def shown(encoding: str | None) -> Callable[[str], str]:
    """Return the function that encodes the keys in a list response.

    :raises S3Error: unknown encoding
    """
    if encoding not in (None, 'url'):
        raise errors.S3Error('InvalidArgument', 'encoding-type must be url.')
    return urllib.parse.quote if encoding else str
