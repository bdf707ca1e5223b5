"""What has to fit a content: the checksums that S3 knows, and the signatures of its chunks."""
from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
import hashlib
import hmac
from typing import Any
import zlib

from nova.objectstore import errors

ALGORITHM, _EMPTY = 'AWS4-HMAC-SHA256', hashlib.sha256().hexdigest()


class _Crc:
    def __init__(self, function: Callable[[bytes, int], int], size: int) -> None:
        self._function, self._size, self._value = function, size, 0

    def update(self, data: bytes) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, 'big')


def _aws(name: str, size: int) -> Any:
    """What the standard library does not have; loaded at its first use."""
    try:
        from awscrt import checksums
    except ImportError:
        raise errors.unsupported(f'The checksum {name}, without the Python package awscrt,') from None
    return _Crc(getattr(checksums, name), size)


# those that S3 knows: () -> what counts one
CHECKSUMS: dict[str, Callable[[], Any]] = {
    'crc32': lambda: _Crc(zlib.crc32, 4), 'crc32c': lambda: _aws('crc32c', 4),
    'crc64nvme': lambda: _aws('crc64nvme', 8), 'sha1': hashlib.sha1, 'sha256': hashlib.sha256}


class Sums:
    """Checksums of a content.

    :param wanted: {name: in base64} of S3's names; those of ``more`` become known later
    :raises S3Error: one of them is none that this store knows
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
        """:raises S3Error: the content has another one"""
        for name, value in self._wanted.items():
            if decoded(value) != self._sums[name].digest():
                raise errors.S3Error('BadDigest', f'The content does not have the {name} that the request says.')


def sums_of(environ: dict[str, Any]) -> dict[str, str]:
    """{name: in base64} of the checksums that a request's headers say."""
    return {name: value for name in CHECKSUMS
            if (value := header_of(environ, f'x-amz-checksum-{name}')) is not None}


class Chain:
    """The signatures of chunks: each covers the one before it, the first one that of the request.

    :param key: of the scope
    :param text: what was signed of the request: its second and third line are the time and the scope
    :param signature: of it
    """

    def __init__(self, key: bytes, text: str, signature: str) -> None:
        self._key, self._lines, self._last = key, text.split('\n')[1:3], signature

    def check(self, given: str, digest: str, trailer: bool = False) -> None:
        """The next one.

        :param digest: SHA-256 of the chunk, or of the lines of the trailer, in hexadecimal digits
        :raises S3Error: it does not fit
        """
        lines = [f'{ALGORITHM}-{"TRAILER" if trailer else "PAYLOAD"}', *self._lines, self._last,
                 *(() if trailer else (_EMPTY,)), digest]
        self._last = hmac.digest(self._key, '\n'.join(lines).encode(), 'sha256').hex()
        if not hmac.compare_digest(self._last.encode(), given.encode()):
            raise errors.S3Error('SignatureDoesNotMatch', 'The signature of a chunk is not valid.', 403)


def header_of(environ: dict[str, Any], name: str) -> str | None:
    """A header of a request, by its name in lower case."""
    found = environ.get('HTTP_' + name.upper().replace('-', '_'))
    return str(found) if found is not None else None


def decoded(text: str) -> bytes:
    """:raises S3Error: it is not base64"""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise errors.S3Error('InvalidDigest', 'A digest is not base64.') from None
