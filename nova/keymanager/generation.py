"""Generate the keys that clients order."""
from __future__ import annotations

import secrets

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from nova import exception

KEY, ASYMMETRIC = 'key', 'asymmetric'
_HMAC_BITS = range(64, 4097, 8)
# {type of an order: {algorithm: lengths in bits}}; generating an RSA key of more than 4096 bits takes minutes
ALGORITHMS: dict[str, dict[str, tuple[int, ...] | range]] = {
    KEY: {'aes': (128, 192, 256), **dict.fromkeys(('hmacsha1', 'hmacsha256', 'hmacsha384', 'hmacsha512'), _HMAC_BITS)},
    ASYMMETRIC: {'rsa': (2048, 3072, 4096)},
}


def check(kind: str, algorithm: str, bits: int) -> None:
    """Check that a key can be generated.

    :param kind: KEY or ASYMMETRIC
    :raises BadRequest: the algorithm or the length is not supported
    """
    known = ALGORITHMS[kind]
    lengths = known.get(algorithm.lower())
    if lengths is None:
        raise exception.BadRequest(f'Cannot generate a key for the algorithm {algorithm[:40]!r}. Orders of type {kind} '
                                   f'support {", ".join(known)}.')
    if bits not in lengths:
        text = 'multiples of 8 from 64 to 4096' if lengths is _HMAC_BITS else ', '.join(map(str, lengths))
        raise exception.BadRequest(f'Cannot generate a key of {bits} bits for {algorithm}. Supported lengths: {text}.')


def random_key(bits: int) -> bytes:
    """Return a random symmetric key."""
    return secrets.token_bytes(bits // 8)


def rsa_pair(bits: int) -> tuple[bytes, bytes]:
    """Return (private key as PKCS#8, public key), both in PEM."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    return (made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                               serialization.NoEncryption()),
            made.public_key().public_bytes(serialization.Encoding.PEM,
                                           serialization.PublicFormat.SubjectPublicKeyInfo))
