"""Verification of contents: S3 checksums, and signatures of chunks."""
import base64
import binascii
from collections.abc import Callable, Iterable
import hashlib
import hmac
from typing import Protocol
from wsgiref.types import WSGIEnvironment
import zlib

from nova.objectstore import errors

ALGORITHM, _EMPTY = 'AWS4-HMAC-SHA256', hashlib.sha256().hexdigest()


class Digest(Protocol):
    """A digest that is computed piece by piece."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc:
    def __init__(self, function: Callable[[bytes, int], int], size: int) -> None:
        self._function, self._size, self._value = function, size, 0

    def update(self, data: bytes) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, 'big')


def _aws(name: str, size: int) -> _Crc:
    """Return a checksum of awscrt, which is imported at first use because it is optional."""
    try:
        from awscrt import checksums
    except ImportError:
        raise errors.unsupported(f'The checksum {name}, without the Python package awscrt,') from None
    return _Crc(getattr(checksums, name), size)


# checksums of S3: {name: function() -> Digest}
CHECKSUMS: dict[str, Callable[[], Digest]] = {
    'crc32': lambda: _Crc(zlib.crc32, 4), 'crc32c': lambda: _aws('crc32c', 4),
    'crc64nvme': lambda: _aws('crc64nvme', 8), 'sha1': hashlib.sha1, 'sha256': hashlib.sha256}


class Checksums:
    """Checksums of an object's content.

    :param wanted: expected checksums {S3 name: base64}
    :param more: names of checksums with expected values that ``want`` sets later
    :raises S3Error: unsupported checksum
    """

    def __init__(self, wanted: dict[str, str], more: Iterable[str] = ()) -> None:
        self._wanted, names = dict(wanted), {*wanted, *more}
        if names - CHECKSUMS.keys():
            raise errors.unsupported(f'The checksum {min(names - CHECKSUMS.keys())[:64]}')
        self._sums = {name: CHECKSUMS[name]() for name in names}

    def __bool__(self) -> bool:
        return bool(self._sums)

    def want(self, more: dict[str, str]) -> None:
        self._wanted.update(more)

    def update(self, piece: bytes) -> None:
        for each in self._sums.values():
            each.update(piece)

    def check(self) -> None:
        """Compare the checksums.

        :raises S3Error: a checksum differs
        """
        for name, value in self._wanted.items():
            if decoded(value) != self._sums[name].digest():
                raise errors.S3Error('BadDigest', f'The {name} of the content differs from that in the request.')


def sums_of(environ: WSGIEnvironment) -> dict[str, str]:
    """Return {name: base64} of the checksums in a request's headers."""
    return {name: value for name in CHECKSUMS
            if (value := header_of(environ, f'x-amz-checksum-{name}')) is not None}


class Chain:
    """Verifies signatures of chunks: each covers the previous signature, and the first covers the request's signature.

    :param key: signing key of the scope
    :param text: the request's "string to sign"; its lines 2 and 3 are the time and the scope
    :param signature: signature of the request
    """

    def __init__(self, key: bytes, text: str, signature: str) -> None:
        self._key, self._lines, self._last = key, text.split('\n')[1:3], signature

    def check(self, given: str, digest: str, trailer: bool = False) -> None:
        """Verify the signature of the next chunk.

        :param digest: SHA-256 of the chunk, or of the trailer lines, in hexadecimal
        :raises S3Error: the signature is wrong
        """
        lines = [f'{ALGORITHM}-{"TRAILER" if trailer else "PAYLOAD"}', *self._lines, self._last,
                 *(() if trailer else (_EMPTY,)), digest]
        self._last = hmac.digest(self._key, '\n'.join(lines).encode(), 'sha256').hex()
        if not hmac.compare_digest(self._last.encode(), given.encode()):
            raise errors.S3Error('SignatureDoesNotMatch', 'The signature of a chunk is invalid.', 403)


def header_of(environ: WSGIEnvironment, name: str) -> str | None:
    """Return a header of a request by its lowercase name."""
    found = environ.get('HTTP_' + name.upper().replace('-', '_'))
    return str(found) if found is not None else None


def decoded(text: str) -> bytes:
    """Decode base64.

    :raises S3Error: it is malformed
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise errors.S3Error('InvalidDigest', 'A digest is not base64.') from None
