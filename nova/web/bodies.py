"""Request bodies: bounded reading and parsing."""
import typing
from wsgiref.types import WSGIEnvironment

import orjson

from nova import exception
from nova.json_types import JsonObject

MAX_DEPTH = 32                    # maximum depth of nested objects and lists


def is_chunked(environ: WSGIEnvironment) -> bool:
    """Return True if the request has a body without Content-Length."""
    return bool(environ.get('wsgi.input_terminated')) or 'chunked' in environ.get('HTTP_TRANSFER_ENCODING', '').lower()


def length_of(environ: WSGIEnvironment) -> int | None:
    """Return Content-Length, or None without the header.

    :raises BadRequest: Content-Length is not a number
    """
    length = environ.get('CONTENT_LENGTH') or ''
    if not length:
        return None
    if not (length.isascii() and length.isdigit()) or len(length) > 18:
        raise exception.BadRequest('Content-Length is not a number.')
    return int(length)


def refuse_encoded(environ: WSGIEnvironment) -> None:
    """Refuse a compressed body.

    :raises UnsupportedContentEncoding: Content-Encoding is not identity
    """
    encoding = environ.get('HTTP_CONTENT_ENCODING', '').strip().lower()
    if encoding not in ('', 'identity'):
        raise exception.UnsupportedContentEncoding(encoding=repr(encoding[:40]))


def read(environ: WSGIEnvironment, most: int) -> bytes:
    """Read the body of a request.

    :param most: maximum size in bytes
    :raises BadRequest: Content-Length is not a number
    :raises UnsupportedContentEncoding: the body is compressed
    :raises TooLarge: the body has more than ``most`` bytes
    """
    refuse_encoded(environ)
    length = length_of(environ)
    if length is None and not is_chunked(environ):
        return b''
    if length is not None and length > most:
        raise exception.TooLarge(limit=most)
    raw = environ['wsgi.input'].read(most + 1 if length is None else length)
    if len(raw) > most:
        raise exception.TooLarge(limit=most)
    return raw


def parse(raw: bytes) -> JsonObject:
    """Parse a body that must be a JSON object.

    :raises BadRequest: the body is not a JSON object, is nested too deeply or contains NUL
    """
    if not raw:
        raise exception.BadRequest('Malformed request body: it is empty.')
    try:
        body = orjson.loads(raw)
    except ValueError:                      # also raised for NaN, Infinity and invalid UTF-8
        raise exception.BadRequest('Malformed request body: it is not JSON.') from None
    if not isinstance(body, dict):
        raise exception.BadRequest('Malformed request body: it is not a JSON object.')
    if raw.count(b'{') + raw.count(b'[') > MAX_DEPTH or b'\\u0000' in raw:
        _inspect(body)
    return body


def _inspect(body: JsonObject) -> None:
    """Refuse too many nested levels, and NUL characters, which databases cannot store."""
    level: list[typing.Any] = [body]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise exception.BadRequest(f'Malformed request body: it has more than {MAX_DEPTH} nested levels.')
        inner: list[typing.Any] = []
        for value in level:
            items = [*value, *value.values()] if isinstance(value, dict) else value
            if any(isinstance(item, str) and '\0' in item for item in items):
                raise exception.BadRequest('Malformed request body: it contains a NUL character.')
            inner += [item for item in items if isinstance(item, (dict, list))]
        level = inner
