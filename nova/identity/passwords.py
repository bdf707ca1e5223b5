"""Passwords and secrets at rest: bcrypt over SHA-256, so that the whole of a long password counts."""
import base64
import hashlib
import secrets

import bcrypt

from nova.runtime import concurrency


def _digest(password: str) -> bytes:
    # bcrypt reads 72 bytes and stops at NUL; 44 characters of base64 have neither problem.
    return base64.b64encode(hashlib.sha256(password.encode()).digest())


def hashed(password: str, rounds: int) -> str:
    """The hash to store.

    :param rounds: bcrypt's cost, a power of two
    """
    return concurrency.blocking(bcrypt.hashpw, _digest(password), bcrypt.gensalt(rounds)).decode()


def matches(password: str, stored: str | None, rounds: int) -> bool:
    """Whether the password is the one that was hashed; takes as long when there is none to compare with.

    :param stored: what ``hashed`` returned, or None for an unknown user
    :param rounds: the cost at which to pretend for an unknown user
    """
    against = stored or bcrypt.gensalt(rounds).decode() + 31 * '.'       # well-formed, of no password
    found = concurrency.blocking(bcrypt.checkpw, _digest(password), against.encode())
    return found and stored is not None


def generate() -> str:
    """A random password."""
    return secrets.token_urlsafe(24)
