"""Mutual authentication of a host and the control plane with a join token. The token's secret is never sent."""
import base64
import hmac

TOKENS_OF = '.'


def split(token: str) -> tuple[str, str]:
    """Split a token of nova-manage into (id, secret).

    :raises ValueError: the token is malformed
    """
    ident, found, secret = token.strip().partition(TOKENS_OF)
    if not (ident and found and secret):
        raise ValueError('it is not a join token from the command "nova-manage host token"')
    return ident, secret


def succession(public: bytes) -> bytes:
    """Return the text that the deployment's current key signs to confirm the next key."""
    return b'the next key of the deployment\0' + public


def proof(secret: str, what: str, *facts: str) -> str:
    """Return a MAC of ``facts`` and of the sender's role ``what``, 'host' or 'deployment', to prevent reflection."""
    made = hmac.digest(secret.encode(), '\0'.join((what, *facts)).encode(), 'sha256')
    return base64.b64encode(made).decode()


def is_proved(given: str | None, secret: str, what: str, *facts: str) -> bool:
    return hmac.compare_digest(str(given).encode(), proof(secret, what, *facts).encode())
