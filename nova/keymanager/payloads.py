"""Payloads of secrets: media types, encodings and size limits."""
from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import NamedTuple

from nova import exception

TEXT, OCTETS, PKCS8 = 'text/plain', 'application/octet-stream', 'application/pkcs8'
TYPES = (TEXT, OCTETS, PKCS8)
_TEXTS = (TEXT, 'text/plain;charset=utf-8')
MAX_BYTES = 20000                        # maximum size of a payload, as in Barbican


class Payload(NamedTuple):
    """Content of a secret.

    :ivar content_type: one of TYPES
    """

    content: bytes
    content_type: str


def media_type(text: str) -> str:
    """Return the media type without its character set.

    :raises UnsupportedMediaType: it is not one of TYPES
    """
    plain = text.replace(' ', '').lower()
    found = TEXT if plain in _TEXTS else plain
    if found not in TYPES:
        raise exception.UnsupportedMediaType(f'Cannot store a payload of type {text[:60]!r}. Send one of '
                                             f'{", ".join(TYPES)}. Text must be UTF-8.')
    return found


def of_document(values: Mapping[str, str | None]) -> Payload | None:
    """Return the payload of a request to create a secret, or None if the request has no payload.

    :param values: with payload, payload_content_type and payload_content_encoding
    :raises BadRequest: the three do not fit together
    :raises TooLarge: the payload is too large
    """
    text, kind, encoding = (values.get(name) for name in (
        'payload', 'payload_content_type', 'payload_content_encoding'))
    if text is None:
        if kind or encoding:
            raise exception.BadRequest('payload_content_type and payload_content_encoding need a payload.')
        return None
    if kind is None:
        raise exception.BadRequest('A payload needs payload_content_type.')
    try:
        kind = media_type(kind)
    except exception.UnsupportedMediaType as error:
        raise exception.BadRequest(error.message) from None
    if kind == TEXT:
        if encoding is not None:
            raise exception.BadRequest('A payload of type text/plain must not have payload_content_encoding.')
        return _bounded(text.encode(), kind)
    if encoding != 'base64':
        raise exception.BadRequest(f'A payload of type {kind} needs payload_content_encoding base64.')
    return _bounded(_decoded(text), kind)


def of_body(raw: bytes, content_type: str, is_base64: bool) -> Payload:
    """Return the payload in the body of a request.

    :param content_type: of the request; empty is text/plain
    :raises BadRequest: it is empty, or cannot be decoded
    :raises UnsupportedMediaType: the type is not one of TYPES
    :raises TooLarge: the payload is too large
    """
    kind = media_type(content_type or TEXT)
    if kind == TEXT:
        if is_base64:
            raise exception.BadRequest('A payload of type text/plain must not have Content-Encoding: base64.')
        if not _is_text(raw):
            raise exception.BadRequest('A payload of type text/plain must be UTF-8.')
    return _bounded(_decoded(raw.decode('latin-1')) if is_base64 else raw, kind)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(''.join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise exception.BadRequest('The payload is not valid base64.') from None


def _bounded(content: bytes, kind: str) -> Payload:
    if not content:
        raise exception.BadRequest('The payload must not be empty.')
    if len(content) > MAX_BYTES:
        raise exception.TooLarge(limit=MAX_BYTES)
    return Payload(content, kind)


def asks_for_payload(accept: str) -> bool:
    """Return whether a GET of a secret asks for its payload instead of its metadata.

    The Accept header must name a type of payloads and must not accept JSON.
    """
    wanted = {*_types(accept)}
    return bool(wanted & {*TYPES, 'text/*'}) and not wanted & {'application/json', 'application/*', '*/*'}


def chosen(accept: str, payload: Payload) -> str:
    """Return the media type for a payload in a response.

    :param accept: the Accept header
    :raises NotAcceptable: the header accepts neither the stored type, nor application/octet-stream, nor text/plain for
        UTF-8
    """
    stored = payload.content_type
    for wanted in _types(accept) or ['*/*']:
        if wanted in ('*/*', stored, stored.partition('/')[0] + '/*'):
            return stored
        if wanted == OCTETS or wanted == TEXT and _is_text(payload.content):
            return wanted
    raise exception.NotAcceptable(f'The payload has the type {stored}. Send Accept: {stored} or {OCTETS}.')


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _types(accept: str) -> list[str]:
    return [name for part in accept.split(',') if (name := part.partition(';')[0].strip().lower())]
