"""An operation is a row: method, path, handler, policy, versions, codes, body and query.

The rows of ``api/resources/*.py`` feed the dispatcher, the policy file, the OpenAPI document and the tests.
"""
import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Route:
    """One operation.

    path     below /v2.1 (and the optional project id), ``{name}`` for a part that the handler gets as argument
    handler  ``handler(req, **parts)`` -> a JSON-able dict, None for no body, or an api.Response
    policy   rule checked before the handler against the caller's own project, or None where the handler checks it
             against the resource's project (name it in ``checks`` then)
    checks   rules that the handler itself asks with req.authorize or req.allows
    since, until   first and last minor version (2.since .. 2.until)
    status   code of success, or {minor version: code} (the newest at or below the request's counts)
    also     other codes of success that the handler chooses
    errors   documented error codes
    body, query   api.params.Schema, or None where nothing is accepted (a body) or checked (a query)
    action   key of the body for POST …/action rows
    public   served without a caller: version documents
    any_scope   served to a caller whose token has no project, too: it shows nothing of any project
    api      False: the path is below the mount point, not below /v2.1
    """

    method: str
    path: str
    handler: typing.Callable
    policy: str | None = None
    checks: tuple = ()
    since: int = 1
    until: int | None = None
    status: int | dict = 200
    also: tuple = ()
    errors: tuple = ()
    body: object = None
    query: object = None
    action: str | None = None
    public: bool = False
    any_scope: bool = False
    api: bool = True
