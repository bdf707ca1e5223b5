"""What an operation of the identity API is made of: its row, its rule, its request and its reply."""
import dataclasses
import typing
import urllib.parse

import orjson
import webob


@dataclasses.dataclass(frozen=True)
class Row:
    """One operation.

    path     ``{name}`` for a part that the handler gets as argument
    handler  ``handler(req, **parts)`` -> a JSON-able dict, None for no body, or a webob.Response
    rule     key of RULES: who may
    body     schemas.Body, or None where the body is ignored
    hashes   True where nobody is known yet and a slow hash says who it is
    """

    method: str
    path: str
    handler: typing.Callable
    rule: str
    status: int = 200
    body: object = None
    hashes: bool = False


def _is_admin(caller, parts):
    return 'admin' in caller.roles


def _is_self(caller, parts):
    return caller.user_id == parts['user_id']


# rule: may this caller (TokenData) ask for these path parts? 'public' takes no token at all.
RULES = {
    'public': None,
    'any': lambda caller, parts: True,
    'admin': _is_admin,
    'self': _is_self,
    'self_or_admin': lambda caller, parts: _is_self(caller, parts) or _is_admin(caller, parts),
    'self_or_service': lambda caller, parts: (
        _is_self(caller, parts) or _is_admin(caller, parts) or 'service' in caller.roles),
    'project_or_service': lambda caller, parts: (
        caller.project_id == parts['project_id'] or _is_admin(caller, parts) or 'service' in caller.roles),
}


class Request(webob.Request):
    """A request with what the handlers need: the service, the caller, query and checked body."""

    service = None           # set as webob ad-hoc attributes
    caller = None
    data = None
    query = None

    @property
    def base(self):
        """Where this face is, as the client reached it."""
        return self.application_url


def reply_of(body, status, headers=()):
    reply = webob.Response(status=status, headerlist=list(headers))
    if body is not None:
        reply.content_type, reply.charset = 'application/json', None
        reply.body = orjson.dumps(body)
    return reply


def url_of(req):
    """The request's own URL, for the self link of a list."""
    query = urllib.parse.urlencode(req.query)
    return req.path_url + (f'?{query}' if query else '')
