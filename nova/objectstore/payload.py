"""The bytes of a request's body, as its headers describe them: framed in chunks or not, with digests that must fit.

Chunks that are signed one by one are refused: their key follows from the secret, which an Identity service never gives.
"""
from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
import hashlib
import re
from typing import Any
import zlib

from nova import exception
from nova.objectstore import errors
from nova.web import bodies

PIECE = 256 * 1024                                 # bytes read at once
UNSIGNED, CHUNKED = 'UNSIGNED-PAYLOAD', 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'
MAX_LINE, MAX_TRAILERS = 256, 8
_SHA256 = re.compile('[0-9a-f]{64}')


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, 'big')


CHECKSUMS: dict[str, Any] = {'crc32': _Crc32, 'sha1': hashlib.sha1, 'sha256': hashlib.sha256}
# of headers: those that S3 knows and the standard library does not
OTHERS = ('crc32c', 'crc64nvme')


def header_of(environ: dict[str, Any], name: str) -> str | None:
    """A header of a request, by its name in lower case."""
    found = environ.get('HTTP_' + name.upper().replace('-', '_'))
    return str(found) if found is not None else None


class Payload:
    """Iterates over the content once; ``length`` are its bytes, known before.

    :raises S3Error: its length is not known, or more than ``most``; while it is read: a digest does not fit
    """

    def __init__(self, environ: dict[str, Any], most: int) -> None:
        self._input, self._hash = environ['wsgi.input'], header_of(environ, 'x-amz-content-sha256') or UNSIGNED
        self._framed = self._hash == CHUNKED
        if not self._framed and self._hash != UNSIGNED and not _SHA256.fullmatch(self._hash):
            raise errors.unsupported(f'A body of the kind {self._hash[:64]}, instead of one whose SHA-256 is signed,')
        self.length = self._length(environ, most)
        self._trailers = _names(header_of(environ, 'x-amz-trailer')) if self._framed else ()
        self._wanted = {name: value for name in (*CHECKSUMS, *OTHERS)
                        if (value := header_of(environ, f'x-amz-checksum-{name}')) is not None}
        for name in (*self._wanted, *(each.removeprefix('x-amz-checksum-') for each in self._trailers)):
            if name not in CHECKSUMS:
                raise errors.unsupported(f'The checksum {name}')
        self._md5 = header_of(environ, 'content-md5')
        self.md5 = hashlib.md5(usedforsecurity=False)

    def _length(self, environ: dict[str, Any], most: int) -> int:
        try:
            length = bodies.length_of(environ)
            if self._framed:
                text = header_of(environ, 'x-amz-decoded-content-length') or ''
                length = int(text) if re.fullmatch('[0-9]{1,16}', text) else None
        except exception.BadRequest:
            length = None
        if length is None:
            raise errors.S3Error('MissingContentLength', 'The length of the content is not known.', 411)
        if length > most:
            raise errors.S3Error('EntityTooLarge', f'The content is larger than {most} bytes.')
        return length

    def __iter__(self) -> Iterator[bytes]:
        kinds = {*self._wanted, *(name.removeprefix('x-amz-checksum-') for name in self._trailers)}
        sums = {name: CHECKSUMS[name]() for name in kinds}
        whole, left = hashlib.sha256(), self.length
        for piece in self._chunks() if self._framed else self._plain():
            left -= len(piece)
            if left < 0:
                break
            self.md5.update(piece)
            if not self._framed and self._hash != UNSIGNED:
                whole.update(piece)
            for each in sums.values():
                each.update(piece)
            yield piece
        if left:
            raise errors.S3Error('IncompleteBody', 'The content has another length than the request says.')
        if not self._framed and self._hash not in (UNSIGNED, whole.hexdigest()):
            raise errors.S3Error('XAmzContentSHA256Mismatch', 'The content is not the one whose SHA-256 was signed.')
        if self._md5 is not None and _decoded(self._md5) != self.md5.digest():
            raise errors.S3Error('BadDigest', 'The content does not have the MD5 that Content-MD5 says.')
        for name, value in self._wanted.items():
            if _decoded(value) != sums[name].digest():
                raise errors.S3Error('BadDigest', f'The content does not have the {name} that the request says.')

    def _plain(self) -> Iterator[bytes]:
        left = self.length
        while left:
            piece = self._input.read(min(PIECE, left))
            if not piece:
                return
            left -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        """The chunks of aws-chunked, and the checksums behind them."""
        malformed = errors.S3Error('InvalidChunkSizeError', 'The content is not framed as aws-chunked.')
        while True:
            size = self._line().partition(b';')[0]
            if not re.fullmatch(rb'[0-9a-fA-F]{1,16}', size):
                raise malformed
            left = int(size, 16)
            if not left:
                break
            while left:
                piece = self._input.read(min(PIECE, left))
                if not piece:
                    raise malformed
                left -= len(piece)
                yield piece
            if self._line():
                raise malformed
        for _ in range(MAX_TRAILERS):
            line = self._line()
            if not line:
                break
            name, _, value = line.partition(b':')
            label = name.decode('latin-1').strip().lower()
            if label not in self._trailers:
                raise errors.S3Error('MalformedTrailerError', 'A trailer was not announced.')
            self._wanted[label.removeprefix('x-amz-checksum-')] = value.decode('latin-1').strip()
        missing = {each.removeprefix('x-amz-checksum-') for each in self._trailers} - self._wanted.keys()
        if missing:
            raise errors.S3Error('MalformedTrailerError', 'A trailer that was announced did not come.')

    def _line(self) -> bytes:
        line: bytes = self._input.readline(MAX_LINE)
        return line.rstrip(b'\r\n')


def _names(text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in (text or '').split(',') if name.strip())
    if not all(name.startswith('x-amz-checksum-') for name in names):
        raise errors.unsupported('A trailer other than a checksum')
    return names


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise errors.S3Error('InvalidDigest', 'A digest is not base64.') from None
