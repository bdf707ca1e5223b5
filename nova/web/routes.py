"""Route: one API operation as a row with method, path, handler, policy, versions, codes, body and query.

The dispatcher, the policy file, the OpenAPI document and the tests read these rows.
"""
import collections.abc
import dataclasses
import typing


class Versioned:
    """Base of rows that apply to the minor versions from ``since`` to ``until``; None: to all later ones, too."""

    since: int
    until: int | None

    def at(self, version: int) -> bool:
        """Return whether the row applies to a minor version."""
        return self.since <= version and (self.until is None or version <= self.until)


@dataclasses.dataclass(frozen=True)
class Route(Versioned):
    """One operation.

    path     below the root of the API, ``{name}`` for a part that is passed to the handler
    handler  ``handler(req, **parts)`` -> a JSON-able dict, None for no body, or a web.request.Response
    policy   rule checked before the handler against the caller's project; None if the handler checks it against the
             resource's project (list the rule in ``checks``)
    checks   rules that the handler checks with req.authorize or req.allows
    since, until   first and last minor version
    status   success code, or {minor version: code} (the newest at or below the request's version applies)
    also     other success codes that the handler may choose
    errors   documented error codes
    body     has ``validate(document, version, relaxed)``, like web.params.Object; None: no body is accepted
    query    has ``validate(query string, version, relaxed)``, like web.params.Query; None: not checked
    action   key of the body for POST …/action rows
    public   served without authentication, for version documents
    any_scope   also served to a token without a project; the response must show no project's data
    api      False: the path is relative to the mount point, not to the path of a version such as /v2.1
    streams  the handler reads and validates the body
    answer   has ``schema(version)`` and ``render(req, result)``, like web.resource.Document; None: no body, or the
             response is described elsewhere
    name     name in the audit log and the OpenAPI document; default: the handler's name
    """

    method: str
    path: str
    handler: collections.abc.Callable[..., typing.Any]
    policy: str | None = None
    checks: tuple[str, ...] = ()
    since: int = 1
    until: int | None = None
    status: int | dict[int, int] = 200
    also: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    body: typing.Any = None
    query: typing.Any = None
    action: str | None = None
    public: bool = False
    any_scope: bool = False
    api: bool = True
    streams: bool = False
    answer: typing.Any = None
    name: str = ''

    @property
    def called(self) -> str:
        """Name of the operation."""
        return self.name or getattr(self.handler, '__name__', '')

    def code(self, version: int) -> int:
        """Return the success code at a minor version."""
        if isinstance(self.status, int):
            return self.status
        return self.status[max(since for since in self.status if since <= version)]
