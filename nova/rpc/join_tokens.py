"""What a host and the control plane prove to each other with a join token: that both have it, without sending it."""
from __future__ import annotations

import base64
import hmac
from typing import Any

TOKENS_OF = '.'


def split(token: Any) -> tuple[Any, Any]:
    """(id, secret) of a token as nova-manage prints it.

    :raises ValueError: it has no such form
    """
    ident, found, secret = token.strip().partition(TOKENS_OF)
    if not (ident and found and secret):
        raise ValueError('it is no token of nova-manage host token')
    return ident, secret


def succession(public: bytes) -> bytes:
    """The text under the signature of the deployment's key for its successor."""
    return b'the next key of the deployment\0' + public


def proof(secret: Any, what: Any, *facts: Any) -> Any:
    """A MAC over facts (texts), for one direction: ``what`` is 'host' or 'deployment'."""
    made = hmac.digest(secret.encode(), '\0'.join((what, *facts)).encode(), 'sha256')
    return base64.b64encode(made).decode()


def is_proved(given: Any, secret: Any, what: Any, *facts: Any) -> Any:
    return hmac.compare_digest(str(given).encode(), proof(secret, what, *facts).encode())
