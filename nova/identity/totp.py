"""Time-based one-time passwords (RFC 6238) as in Keystone: steps of 30 s, 6 digits, SHA-1."""
import base64
import hmac

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.twofactor import totp

STEP_S = 30
DIGITS = 6
BACK = 1                     # number of earlier steps with accepted codes, for clock skew and typing time
MIN_BYTES, MAX_BYTES = 16, 64        # length of a secret in bytes; RFC 4226 requires 128 bits


def secret_of(text: str) -> bytes:
    """Decode a base32 secret, case-insensitive and with optional padding.

    :raises ValueError: the secret is malformed or has the wrong length; the message does not contain it
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
    """Return the code of a time step; steps are counted from the epoch."""
    return totp.TOTP(secret, DIGITS, hashes.SHA1(), STEP_S).generate(step * STEP_S).decode()


def step_of(secrets: list[bytes], given: str, now: float) -> int | None:
    """Return the time step of a code, or None. Checks the present step and BACK earlier steps.

    :param now: seconds since the epoch
    """
    present, found = int(now // STEP_S), None
    for step in range(present - BACK, present + 1):
        for secret in secrets:           # check all secrets, for constant time
            if hmac.compare_digest(code(secret, step).encode(), given.encode('utf-8', 'replace')):
                found = step
    return found
