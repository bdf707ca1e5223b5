"""What an operation of the identity API is made of: its row, its rule and its request."""
import collections.abc
import dataclasses
import typing
import urllib.parse

from nova import context
from nova.web import request
from nova.web import routes


@dataclasses.dataclass(frozen=True)
class Row(routes.Route):
    """One operation; ``policy`` is a key of RULES, ``body`` a schemas.Body.

    hashes   there is no caller yet, and a slow hash finds out who it is
    """

    hashes: bool = False


Rule = collections.abc.Callable[[typing.Any, dict[str, str]], bool]


def _is_admin(caller: typing.Any, parts: dict[str, str]) -> bool:
    return 'admin' in caller.roles


def _is_self(caller: typing.Any, parts: dict[str, str]) -> bool:
    return caller.user_id == parts['user_id']


# rule: may this caller (TokenData) ask for these parts of the path? 'public' takes no token at all.
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


class Request(request.Request):
    """What a handler gets.

    service   IdentityService
    caller    TokenData of the caller; None where the rule is 'public'
    query     {name: last value}
    """

    __slots__ = ('service', 'caller')

    def __init__(self, environ: dict[str, typing.Any], service: typing.Any) -> None:
        super().__init__(environ)
        self.service = service
        self.caller: typing.Any = None
        # The lines that this thread logs belong to this request, not to the one before it.
        context.RequestContext(request_id=environ.get('openstack.request_id'), remote_address=self.remote_address,
                               overwrite=True)

    @property
    def remote_address(self) -> str:
        """Where the request came from."""
        return self.environ.get('REMOTE_ADDR') or ''


def url_of(req: Request) -> str:
    """The request's own URL, for the self link of a list."""
    query = urllib.parse.urlencode(req.query)
    return req.url + (f'?{query}' if query else '')
