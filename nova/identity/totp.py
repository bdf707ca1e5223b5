"""One-time codes by the clock (RFC 6238) as Keystone and common devices have them: steps of 30 s, 6 digits, SHA-1."""
import base64
import hmac

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.twofactor import totp

STEP_S = 30
DIGITS = 6
BACK = 1                     # steps that a clock may be late, or that typing may take
MIN_BYTES, MAX_BYTES = 16, 64        # of a secret: RFC 4226 demands 128 bits


def secret_of(text: str) -> bytes:
    """The secret that a device has as base32, with or without its padding, in capitals or not.

    :raises ValueError: it is no base32, or has not MIN_BYTES to MAX_BYTES; the text is not repeated
    """
    bare = text.rstrip('=').upper()
    try:
        secret = base64.b32decode(bare + '=' * (-len(bare) % 8))
    except ValueError:
        raise ValueError('not base32') from None
    if not MIN_BYTES <= len(secret) <= MAX_BYTES:
        raise ValueError('length')
    return secret


def code(secret: bytes, step: int) -> str:
    """The digits of one step since the epoch."""
    return totp.TOTP(secret, DIGITS, hashes.SHA1(), STEP_S).generate(step * STEP_S).decode()


def step_of(secrets: list[bytes], given: str, now: float) -> int | None:
    """The step whose code is the given one, by any of the secrets: the present one, or BACK before it; else None.

    :param now: seconds since the epoch
    """
    present, found = int(now // STEP_S), None
    for step in range(present - BACK, present + 1):
        for secret in secrets:           # all of them: how long it takes says nothing
            if hmac.compare_digest(code(secret, step).encode(), given.encode('utf-8', 'replace')):
                found = step
    return found
