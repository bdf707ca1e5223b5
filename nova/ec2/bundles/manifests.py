"""Manifests of bundled images, as written by euca-bundle-image and ec2-bundle-image (version 2007-10-10).

Manifests are untrusted: document types and entities are refused, and depth, counts and sizes are limited.
"""
from collections.abc import Callable
import dataclasses
import hashlib
import re
from typing import NoReturn
from xml.etree import ElementTree as etree
from xml.parsers import expat

from nova import exception

MAX_BYTES = 4 << 20             # size of a manifest with about 15,000 parts
MAX_PARTS = 10000               # the tools create parts of 10 MiB
MAX_DEPTH = 8
MAX_ELEMENTS = 8 * MAX_PARTS
MAX_TEXT = 1024                 # characters of one value
SIGNED = ('machine_configuration', 'image')         # signed elements, in this order
CIPHERS, DIGESTS = ('AES-128-CBC',), ('SHA1',)
_NAME = re.compile(r'[^/\\\x00-\x1f\x7f]{1,255}')
_SHA1 = re.compile(r'[0-9A-Fa-f]{40}')
_HEX = re.compile(r'[0-9A-Fa-f]{2,1024}')


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the encrypted image: the name of its object in the manifest's folder, and its SHA-1 digest."""

    name: str
    digest: bytes


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Content of a manifest.

    name                          name of the image
    architecture                  i386, x86_64, …, as in the manifest
    kernel_id, ramdisk_id         None if missing
    image_type                    machine, kernel, ramdisk, as in the manifest; default machine
    size, bundled_size            bytes of the image, and of all parts
    digest                        SHA-1 of the archive with the image
    encrypted_key, encrypted_iv   hexadecimal; encrypted for the certificate authority of the cloud
    signature                     hexadecimal; RSA signature (PKCS #1 v1.5) of ``signed``
    signed                        SHA-1 of the signed elements machine_configuration and image
    """

    name: str
    architecture: str
    kernel_id: str | None
    ramdisk_id: str | None
    image_type: str
    size: int
    bundled_size: int
    digest: bytes
    encrypted_key: str
    encrypted_iv: str
    signature: str
    signed: bytes
    parts: tuple[Part, ...]


def parse(data: bytes) -> Manifest:
    """Parse a manifest.

    :raises InvalidInput: it is malformed or of an unknown version
    """
    root, signed = _tree(data)
    if root.tag != 'manifest':
        _refuse('its root is not manifest')
    encrypted = _found(root, 'image/ec2_encrypted_key')
    _known(encrypted, CIPHERS, 'AES-128-CBC')
    digest = _found(root, 'image/digest')
    return Manifest(
        name=_checked(_text(root, 'image/name'), _NAME, 'name'),
        architecture=_text(root, 'machine_configuration/architecture'),
        kernel_id=_text(root, 'machine_configuration/kernel_id', '') or None,
        ramdisk_id=_text(root, 'machine_configuration/ramdisk_id', '') or None,
        image_type=_text(root, 'image/type', 'machine'), size=_number(root, 'image/size'),
        bundled_size=_number(root, 'image/bundled_size'), digest=_digest(digest),
        encrypted_key=_checked(_value(encrypted), _HEX, 'ec2_encrypted_key'),
        encrypted_iv=_checked(_text(root, 'image/ec2_encrypted_iv'), _HEX, 'ec2_encrypted_iv'),
        signature=_checked(_text(root, 'signature'), _HEX, 'signature'), signed=signed,
        parts=_parts(_found(root, 'image/parts')))


# ---- XML -------------------------------------------------------------------------

class _Builder:
    """Builds an element tree; limits its depth and its number of elements.

    :ivar places: {name: (first byte, byte of the end tag)} of signed elements
    """

    def __init__(self, place: Callable[[], int]) -> None:
        self._tree, self._depth, self._elements = etree.TreeBuilder(), 0, 0
        self._place, self.places = place, dict[str, tuple[int, int]]()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._depth > MAX_DEPTH or self._elements > MAX_ELEMENTS:
            _refuse('it has too many elements')
        if self._depth == 2 and name in SIGNED:
            if name in self.places:
                _refuse(f'it has two elements {name}')      # the signature could cover one, and the other be used
            self.places[name] = (self._place(), 0)
        self._tree.start(name, attributes)

    def end(self, name: str) -> None:
        if self._depth == 2 and name in SIGNED:
            self.places[name] = (self.places[name][0], self._place())
        self._depth -= 1
        self._tree.end(name)

    def text(self, data: str) -> None:
        self._tree.data(data)

    def doctype(self, *_parts: object) -> None:
        _refuse('it has a document type')

    def close(self) -> etree.Element:
        return self._tree.close()


def _tree(data: bytes) -> tuple[etree.Element, bytes]:
    """Return (root, SHA-1 of the signed elements)."""
    if len(data) > MAX_BYTES:
        _refuse(f'it has more than {MAX_BYTES} bytes')
    parser = expat.ParserCreate()
    builder = _Builder(lambda: parser.CurrentByteIndex)
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = builder.text, builder.doctype
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError):          # ValueError, LookupError: unknown encoding
        _refuse('it is not XML')
    digest = hashlib.sha1(usedforsecurity=False)
    for name in SIGNED:
        first, last = builder.places.get(name, (0, 0))
        digest.update(data[first:data.find(b'>', last) + 1])
    return builder.close(), digest.digest()


def _refuse(reason: str) -> NoReturn:
    raise exception.InvalidInput(reason=f'the manifest of the image is invalid: {reason}.')


# ---- values ----------------------------------------------------------------------

def _found(element: etree.Element, path: str) -> etree.Element:
    found = element.find(path)
    if found is None:
        _refuse(f'it has no {path}')
    return found


def _value(element: etree.Element) -> str:
    text = (element.text or '').strip()
    if len(text) > MAX_TEXT:
        _refuse(f'its {element.tag} is too long')
    return text


def _text(element: etree.Element, path: str, default: str | None = None) -> str:
    found = element.find(path)
    if found is None and default is not None:
        return default
    text = _value(_found(element, path))
    if not text and default is None:
        _refuse(f'its {path} is empty')
    return text


def _checked(text: str, pattern: re.Pattern[str], name: str) -> str:
    if not pattern.fullmatch(text) or text in ('.', '..'):
        _refuse(f'its {name} is malformed')
    return text


def _integer(text: str, most: int, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) <= most):
        _refuse(f'its {name} is not a number or too large')
    return int(text)


def _number(root: etree.Element, path: str) -> int:
    return _integer(_text(root, path), 1 << 50, path)


def _known(element: etree.Element, names: tuple[str, ...], default: str) -> None:
    """Check the algorithm of an element."""
    name = element.get('algorithm', default)
    if name.upper() not in names:
        _refuse(f'the algorithm of its {element.tag} is not {" or ".join(names)}')


def _digest(element: etree.Element) -> bytes:
    _known(element, DIGESTS, 'SHA1')
    return bytes.fromhex(_checked(_value(element), _SHA1, 'digest'))


def _parts(element: etree.Element) -> tuple[Part, ...]:
    rows = element.findall('part')
    if len(rows) != _integer(element.get('count', ''), MAX_PARTS, 'count of parts') or not rows:
        _refuse('its number of parts differs from the stated one')
    found = {}
    for row in rows:
        index = _integer(row.get('index', ''), len(rows) - 1, 'index of a part')
        found[index] = Part(_checked(_text(row, 'filename'), _NAME, 'filename'), _digest(_found(row, 'digest')))
    if len(found) != len(rows):
        _refuse('two of its parts have the same index')
    return tuple(found[index] for index in range(len(rows)))
