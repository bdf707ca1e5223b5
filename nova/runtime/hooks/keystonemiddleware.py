"""Private parts of keystonemiddleware 13.0.1."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from keystonemiddleware import auth_token

# Keys of the environ that auth_token sets, but does not remove from a request; two are for keystoneauth plugins.
_MORE = ('HTTP_OPENSTACK_SYSTEM_SCOPE', 'keystone.token_auth', 'keystone.token_info')


def keys_of_caller() -> tuple[str, ...]:
    """Return the keys of the WSGI environ in which auth_token describes the caller."""
    from keystonemiddleware.auth_token import _request
    request = _request._AuthTokenRequest.blank('/')
    return (*('HTTP_' + name.upper().replace('-', '_') for name in request._all_auth_headers()), *_MORE)


def challenge(protocol: auth_token.AuthProtocol) -> list[tuple[str, str]]:
    """Return the headers that auth_token adds if the application returns 401."""
    return list(protocol._reject_auth_headers)


def verify(protocol: auth_token.AuthProtocol, token: str) -> list[str]:
    """Verify a token with Keystone now, without the caches of auth_token; return the names of its roles."""
    return [role['name'] for role in protocol._identity_server.verify_token(token)['token'].get('roles', ())]


def option(protocol: auth_token.AuthProtocol, name: str) -> Any:
    """Return an option of auth_token, from the paste file or from [keystone_authtoken]."""
    return protocol._conf.get(name)
