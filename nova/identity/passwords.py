"""Password hashing: bcrypt over SHA-256, so that all characters of a long password count."""
import base64
import hashlib
import secrets

import bcrypt

from nova.runtime import concurrency


def _digest(password: str) -> bytes:
    # bcrypt reads at most 72 bytes and stops at NUL; the digest has 44 characters of base64.
    return base64.b64encode(hashlib.sha256(password.encode()).digest())


def hashed(password: str, rounds: int) -> str:
    """Hash a password.

    :param rounds: bcrypt's cost, a power of two
    """
    return concurrency.blocking(bcrypt.hashpw, _digest(password), bcrypt.gensalt(rounds)).decode()


def matches(password: str, stored: str | None, rounds: int) -> bool:
    """Verify a password in constant time, also for an unknown user.

    :param stored: result of ``hashed``, or None for an unknown user
    :param rounds: cost for an unknown user
    """
    against = stored or bcrypt.gensalt(rounds).decode() + 31 * '.'       # a well-formed hash that no password has
    found = concurrency.blocking(bcrypt.checkpw, _digest(password), against.encode())
    return found and stored is not None


def generate() -> str:
    """Generate a random password."""
    return secrets.token_urlsafe(24)
