"""S3's XML documents."""
from collections.abc import Iterable, Sequence
import re
from typing import TypeAlias
from xml.etree import ElementTree
from xml.sax import saxutils

from nova.objectstore import errors

Value: TypeAlias = 'str | bool | int | Sequence[tuple[str, Value]] | None'       # value of an element; None: no element
NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/'
MAX_DOCUMENT = 2 << 20               # maximum bytes: room for a thousand escaped keys of 1024 bytes
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def render(name: str, parts: Iterable[tuple[str, Value]], namespace: bool = True) -> bytes:
    """Format a document.

    :param parts: (name, value)
    """
    space = f' xmlns="{NAMESPACE}"' if namespace else ''
    return f'{HEAD}<{name}{space}>{_inner(parts)}</{name}>'.encode()


def _inner(parts: Iterable[tuple[str, Value]]) -> str:
    return ''.join(f'<{name}>{_text(value)}</{name}>' for name, value in parts if value is not None)


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return _inner(value)
    return saxutils.escape(str(value))


def only(element: ElementTree.Element, *names: str) -> None:
    """Check that an element has only these child elements.

    :raises S3Error: the element has other children
    """
    for below in element:
        if below.tag not in names:
            raise errors.unsupported(f'{below.tag[:64]} in {element.tag}')


def parse(data: bytes, name: str) -> ElementTree.Element:
    """Parse a document of a client and return its root.

    :raises S3Error: the document is malformed, has another root element, or declares a document type, which could
        define entities
    """
    malformed = errors.S3Error('MalformedXML', f'The body is not a {name} document.')
    if re.search(rb'<!|\x00', data):
        raise malformed
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise malformed from None
    for element in root.iter():
        element.tag = str(element.tag).rpartition('}')[2]
    if root.tag != name:
        raise malformed
    return root
