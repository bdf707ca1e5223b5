"""An operation is a row: method, path, handler, policy, versions, codes, body and query.

The rows of an API feed its dispatcher, the policy file, the OpenAPI document and the tests.
"""
import collections.abc
import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Route:
    """One operation.

    path     below the root of the API, ``{name}`` for a part that the handler gets as argument
    handler  ``handler(req, **parts)`` -> a JSON-able dict, None for no body, or a web.request.Response
    policy   rule checked before the handler against the caller's own project, or None where the handler checks it
             against the resource's project (name it in ``checks`` then)
    checks   rules that the handler itself checks with req.authorize or req.allows
    since, until   first and last minor version
    status   code of success, or {minor version: code} (the newest at or below the request's counts)
    also     other codes of success that the handler chooses
    errors   documented error codes
    body     has ``validate(document, version, relaxed)``, as web.params.Object; None where no body is accepted
    query    has ``validate(query string, version, relaxed)``, as web.params.Query; None where it is not checked
    action   key of the body for POST …/action rows
    public   served without a caller: version documents
    any_scope   served also to a caller whose token has no project: it shows nothing of any project
    api      False: the path is below the mount point, not below the path of a version
    streams  the handler reads the body itself, in chunks
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

    def at(self, version: int) -> bool:
        """Whether the row is served at a minor version."""
        return self.since <= version and (self.until is None or version <= self.until)

    def code(self, version: int) -> int:
        """The code of success at a minor version."""
        if isinstance(self.status, int):
            return self.status
        return self.status[max(since for since in self.status if since <= version)]
