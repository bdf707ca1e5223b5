"""Private parts of keystonemiddleware 13.0.1."""
from __future__ import annotations

from typing import Any


# Keys that auth_token sets in addition to the headers that it also removes, and keys for plugins of keystoneauth.
_MORE = ('HTTP_OPENSTACK_SYSTEM_SCOPE', 'keystone.token_auth', 'keystone.token_info')


def keys_of_caller() -> tuple[str, ...]:
    """Return the keys of the WSGI environ that auth_token sets for the caller; it removes those of a client."""
    from keystonemiddleware.auth_token import _request
    request = _request._AuthTokenRequest.blank('/')
    return (*('HTTP_' + name.upper().replace('-', '_') for name in request._all_auth_headers()), *_MORE)


def challenge(protocol: Any) -> list[tuple[str, str]]:
    """Return the headers that auth_token adds to a 401 of the application behind it."""
    return list(protocol._reject_auth_headers)


def verify(protocol: Any, token: str) -> dict[str, Any]:
    """Verify a token with Keystone now, without the caches of auth_token."""
    found: dict[str, Any] = protocol._identity_server.verify_token(token)
    return found


def option(protocol: Any, name: str) -> Any:
    """Return an option of auth_token, from the paste file or from [keystone_authtoken]."""
    return protocol._conf.get(name)
