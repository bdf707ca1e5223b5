"""What is recorded of the requests to the compute API: every one of a caller that writes, and who looks at a screen."""
import dataclasses
from collections.abc import Callable, Sequence

from nova.api import request as api_request
from nova.db.audit import log
from nova.web.request import Response
from nova.web.routes import Route

_PROJECT = 'tenant_id'           # the part of a path that says whose, not what
READS = frozenset({'nova:scheduler:explain'})            # rules of what changes nothing, though it is a POST
SHOWN = frozenset({'nova:os-console-screenshot'})       # rules of GETs that show what is on a screen
REPLAYED = 'IdempotentReplay'    # reason of an answer that was given before


def begin(req: api_request.Request, parts: dict[str, str], code: int) -> None:
    """Make the record of a request whose route is known.

    :param parts: {name: value} of the path's parts, in their order
    :param code: of success
    """
    row = req.route
    if not has_record(row) or req.context is None:
        return
    ids = [value for name, value in parts.items() if name != _PROJECT]
    req.record = log.Record(
        row.method, f'{row.path}:{row.action}' if row.action else row.path, action_of(row), target_type=target_of(row),
        target_id=ids[0] if ids else None, target_part='/'.join(ids[1:]) or None, context=req.context,
        request_id=req.request_id,
        remote_address=req.environ.get('REMOTE_ADDR'), code=code)


def has_record(row: Route) -> bool:
    """Whether requests for an operation are recorded."""
    return row.policy in SHOWN or row.method in log.WRITES and row.policy not in READS


def begin_refused(req: api_request.Request, row: Route, parts: dict[str, str]) -> None:
    """The same of a request that is refused before its body, which may say what is requested, was read.

    :param row: the first route of its method and path
    """
    req.route = row if row.action is None else dataclasses.replace(row, action=None, policy=None, checks=())
    begin(req, parts, row.code(req.version))


def action_of(row: Route) -> str:
    """What an operation is called in the log: the rule that guards it, or the first that its handler asks."""
    if row.policy or row.checks:
        return row.policy or row.checks[0]
    return f'compute:{row.method.lower()} {row.path}' + (f':{row.action}' if row.action else '')


def target_of(row: Route) -> str:
    """The nouns of a path: ``servers``, ``servers/os-volume_attachments``."""
    return '/'.join(part for part in row.path.strip('/').split('/')
                    if part[:1] != '{' and part not in ('action', 'v3.0'))


def recorded(req: api_request.Request, work: Callable[[], Response]) -> Callable[[], Response]:
    """``work`` as a function in whose first write transaction the record is."""
    def run() -> Response:
        with log.recording(req.record):
            return work()
    return run


def finish(req: api_request.Request, code: int, error: Exception | None, headers: Sequence[tuple[str, str]]) -> None:
    """The request is answered."""
    if req.record is None:
        return
    if ('Idempotency-Replayed', 'true') in headers:
        req.record.values['reason'] = REPLAYED
    req.services.auditor.finish(req.record, code, error)
