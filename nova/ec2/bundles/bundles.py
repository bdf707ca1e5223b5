"""Unbundling of images: parts are joined, decrypted and unpacked as a stream.

    manifest = manifests.parse(data)
    key, iv = (cert.decrypt_text(ctx, project_id=…, text=text) for text in (manifest.encrypted_key,
                                                                            manifest.encrypted_iv))
    for piece in bundles.unbundle(manifest, key, iv, open_part, limit): …

A bundle is a tar archive with one file, compressed (gzip), encrypted (AES-128-CBC), and split into parts. Bundles are
untrusted: digests are verified, and sizes are limited to those in the manifest. A bundle is encrypted for nova-cert,
not for one user, so any user who can read its manifest and parts may unpack it. RegisterImage checks the signature of
the manifest.
"""
from collections.abc import Callable, Iterable, Iterator
import hashlib
import hmac
import re
from typing import NoReturn
import zlib

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

from nova import exception
from nova.ec2.bundles import archives
from nova.ec2.bundles import manifests

PIECE = 1 << 16                 # bytes that are unpacked at a time
_SYMMETRIC = re.compile(r'[0-9A-Fa-f]{32}')


def unbundle(manifest: manifests.Manifest, key: str, iv: str, open_part: Callable[[str], Iterable[bytes]],
             limit: int) -> Iterator[bytes]:
    """Yield the image of a bundle.

    The last piece is only yielded after all digests were verified, so a complete image is valid.

    :param key: decrypted key in hexadecimal digits, like ``iv``
    :param open_part: function(name) -> pieces of an object
    :param limit: maximum size of an image in bytes
    :raises InvalidInput: the bundle does not match the manifest, or is too large
    """
    if not (_SYMMETRIC.fullmatch(key) and _SYMMETRIC.fullmatch(iv)):
        _refuse('its key is not an AES-128 key')
    if manifest.size > limit:
        _refuse(f'the image has {manifest.size} bytes; the limit is {limit}')
    digest = hashlib.sha1(usedforsecurity=False)
    encrypted = _pieces(manifest, open_part)
    unpacked = _unpacked(_decrypted(encrypted, bytes.fromhex(key), bytes.fromhex(iv)), digest.update)
    last = b''
    for piece in archives.extract(unpacked, manifest.size):
        if last:
            yield last
        last = piece
    if not hmac.compare_digest(digest.digest(), manifest.digest):
        _refuse('the digest of the image differs from the manifest')
    yield last


def _pieces(manifest: manifests.Manifest, open_part: Callable[[str], Iterable[bytes]]) -> Iterator[bytes]:
    """Yield the encrypted bytes; a part with a wrong digest is detected at its end."""
    left = manifest.bundled_size
    for part in manifest.parts:
        digest = hashlib.sha1(usedforsecurity=False)
        for piece in open_part(part.name):
            left -= len(piece)
            if left < 0:
                _refuse('its parts are larger than stated in the manifest')
            digest.update(piece)
            yield piece
        if not hmac.compare_digest(digest.digest(), part.digest):
            _refuse(f'the digest of {part.name} differs from the manifest')
    if left:
        _refuse('its parts are smaller than stated in the manifest')


def _decrypted(pieces: Iterable[bytes], key: bytes, iv: bytes) -> Iterator[bytes]:
    decryptor = Cipher(algorithms.AES128(key), modes.CBC(iv)).decryptor()
    unpadder = padding.PKCS7(128).unpadder()
    try:
        for piece in pieces:
            yield unpadder.update(decryptor.update(piece))
        yield unpadder.update(decryptor.finalize()) + unpadder.finalize()
    except ValueError:
        _refuse('it was encrypted with another key')


def _unpacked(pieces: Iterable[bytes], note: Callable[[bytes], object]) -> Iterator[bytes]:
    """Decompress one gzip stream in pieces of at most PIECE bytes."""
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    for piece in pieces:
        while piece and not stream.eof:
            try:
                found = stream.decompress(piece, PIECE)
            except zlib.error:
                _refuse('it was encrypted with another key, or is not compressed')
            note(found)
            yield found
            piece = stream.unconsumed_tail
        if stream.eof and (piece or stream.unused_data):
            _refuse('it has data after the archive')
    if not stream.eof:
        _refuse('it is truncated')


def _refuse(reason: str) -> NoReturn:
    raise exception.InvalidInput(reason=f'the bundle of the image is invalid: {reason}.')
