"""Route, rule and request types of the identity API."""
from __future__ import annotations

import collections.abc
import dataclasses
import typing
import urllib.parse

from nova import context
from nova.identity.tokens import TokenData
from nova.web import request
from nova.web import routes

if typing.TYPE_CHECKING:
    from nova.identity.embedded.service import IdentityService


@dataclasses.dataclass(frozen=True)
class Row(routes.Route):
    """One operation; ``policy`` is a key of RULES, ``body`` a schemas.Body.

    hashes   an unauthenticated operation that computes a slow hash
    """

    hashes: bool = False


Rule = collections.abc.Callable[[TokenData, dict[str, str]], bool]


def _is_admin(caller: TokenData, parts: dict[str, str]) -> bool:
    return 'admin' in caller.roles


def _is_self(caller: TokenData, parts: dict[str, str]) -> bool:
    return caller.user_id == parts['user_id']


# rule: predicate of the caller (TokenData) and path parameters; 'public' needs no token
RULES: dict[str | None, Rule | None] = {
    'public': None,
    'any': lambda caller, parts: True,
    'admin': _is_admin,
    'self': _is_self,
    'service': lambda caller, parts: bool({'admin', 'service'} & set(caller.roles)),
    'self_or_admin': lambda caller, parts: _is_self(caller, parts) or _is_admin(caller, parts),
    'self_or_service': lambda caller, parts: (
        _is_self(caller, parts) or _is_admin(caller, parts) or 'service' in caller.roles),
    'project_or_service': lambda caller, parts: (
        caller.project_id == parts['project_id'] or _is_admin(caller, parts) or 'service' in caller.roles),
}


class Request(request.BaseRequest):
    """Argument of the handlers.

    caller    not set for 'public' operations
    query     {name: last value}
    """

    __slots__ = ('service', 'caller')

    def __init__(self, environ: dict[str, typing.Any], service: IdentityService) -> None:
        super().__init__(environ)
        self.service = service
        self.caller: TokenData
        # replace the logging context of the previous request in this thread
        context.RequestContext(request_id=environ.get('openstack.request_id'), remote_address=self.remote_address,
                               overwrite=True)

    @property
    def remote_address(self) -> str:
        """Client address."""
        return self.environ.get('REMOTE_ADDR') or ''


def url_of(req: Request) -> str:
    """Return the request's URL for the self link of a list."""
    query = urllib.parse.urlencode(req.query)
    return req.url + (f'?{query}' if query else '')
