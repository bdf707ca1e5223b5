"""Bundled images back into images: parts are joined, decrypted, and unpacked, in one pass and little memory.

    manifest = manifests.parse(data)
    key, iv = (cert.decrypt_text(ctx, project_id=…, text=text) for text in (manifest.encrypted_key,
                                                                           manifest.encrypted_iv))
    for piece in bundles.unbundle(manifest, key, iv, open_part, limit): …

A bundle is an archive (tar) with one file, compressed (gzip), encrypted (AES-128-CBC), and cut into parts. What is in
it is a stranger's: nothing is believed before its digest is right, and nothing gets larger than the manifest said.

Who has the manifest and the parts may have the image: a cloud opens bundles for any of its users who can read them, as
far as they are for the same authority. Whose signature the manifest has is looked at by who registers it.
"""
from __future__ import annotations

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
from nova.cert import archives
from nova.cert import manifests

PIECE = 1 << 16                 # bytes that are unpacked at once
_SYMMETRIC = re.compile(r'[0-9A-Fa-f]{32}')


def unbundle(manifest: manifests.Manifest, key: str, iv: str, open_part: Callable[[str], Iterable[bytes]],
             limit: int) -> Iterator[bytes]:
    """The image of a bundle, in pieces.

    A digest may be wrong at the very end. So the last piece is given when all of them are right: who got so many bytes
    as the manifest says has the image.

    :param key: decrypted, hexadecimal; so is ``iv``
    :param open_part: function(name) -> pieces of an object
    :param limit: bytes that an image may have
    :raises InvalidInput: the bundle is not what the manifest says, or too large
    """
    if not (_SYMMETRIC.fullmatch(key) and _SYMMETRIC.fullmatch(iv)):
        _refuse('its key is none of AES-128')
    if manifest.size > limit:
        _refuse(f'an image of {manifest.size} bytes is too large: {limit} at most')
    digest = hashlib.sha1(usedforsecurity=False)
    encrypted = _pieces(manifest, open_part)
    unpacked = _unpacked(_decrypted(encrypted, bytes.fromhex(key), bytes.fromhex(iv)), digest.update)
    last = b''
    for piece in archives.extract(unpacked, manifest.size):
        if last:
            yield last
        last = piece
    if not hmac.compare_digest(digest.digest(), manifest.digest):
        _refuse('the digest of the image is another one')
    yield last


def _pieces(manifest: manifests.Manifest, open_part: Callable[[str], Iterable[bytes]]) -> Iterator[bytes]:
    """The encrypted bytes; those of a part whose digest is wrong have been given by then."""
    left = manifest.bundled_size
    for part in manifest.parts:
        digest = hashlib.sha1(usedforsecurity=False)
        for piece in open_part(part.name):
            left -= len(piece)
            if left < 0:
                _refuse('its parts are larger than the manifest says')
            digest.update(piece)
            yield piece
        if not hmac.compare_digest(digest.digest(), part.digest):
            _refuse(f'the digest of {part.name} is another one')
    if left:
        _refuse('its parts are smaller than the manifest says')


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
    """The bytes behind one gzip stream, PIECE of them at most at once."""
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
            _refuse('something follows the archive')
    if not stream.eof:
        _refuse('it is cut off')


def _refuse(reason: str) -> NoReturn:
    raise exception.InvalidInput(reason=f'the bundle of the image cannot be used: {reason}.')
