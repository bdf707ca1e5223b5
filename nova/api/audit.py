"""Audit records of the compute API: requests that write, and reads of a server's screen."""
import dataclasses
from collections.abc import Callable, Sequence

from nova.api import request as api_request
from nova.db.audit import log
from nova.web.request import Response
from nova.web.routes import Route

_PROJECT = 'tenant_id'           # path parameter with the project ID, never a target
READS = frozenset({'nova:scheduler:explain'})            # rules of POST operations without a record: they only read
SHOWN = frozenset({'nova:os-console-screenshot'})       # rules of GET operations with a record: they show a screen
REPLAYED = 'IdempotentReplay'    # reason in the record of a replayed response


def begin(req: api_request.Request, parts: dict[str, str], code: int) -> None:
    """Create the audit record of a request after its route was found.

    :param parts: {name: value} of the path parameters, in their order
    :param code: success code
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
    """Return True if requests for an operation are recorded."""
    return row.policy in SHOWN or row.method in log.WRITES and row.policy not in READS


def begin_refused(req: api_request.Request, row: Route, parts: dict[str, str]) -> None:
    """Create the audit record of a request that is refused before the body, which names the action, was read.

    :param row: first route of the method and path
    """
    req.route = row if row.action is None else dataclasses.replace(row, action=None, policy=None, checks=())
    begin(req, parts, row.code(req.version))


def action_of(row: Route) -> str:
    """Return an action's name in the audit log: the route's rule, else its handler's first rule, else the operation."""
    if row.policy or row.checks:
        return row.policy or row.checks[0]
    return f'compute:{row.method.lower()} {row.path}' + (f':{row.action}' if row.action else '')


def target_of(row: Route) -> str:
    """Return the names of the resources in a path: ``servers``, ``servers/os-volume_attachments``."""
    return '/'.join(part for part in row.path.strip('/').split('/')
                    if part[:1] != '{' and part not in ('action', 'v3.0'))


def recorded(req: api_request.Request, work: Callable[[], Response]) -> Callable[[], Response]:
    """Wrap ``work`` so that its first write transaction stores the audit record."""
    def run() -> Response:
        with log.recording(req.record):
            return work()
    return run


def finish(req: api_request.Request, code: int, error: Exception | None, headers: Sequence[tuple[str, str]]) -> None:
    """Complete the audit record of a request with the outcome."""
    if req.record is None:
        return
    if ('Idempotency-Replayed', 'true') in headers:
        req.record.values['reason'] = REPLAYED
    req.services.auditor.finish(req.record, code, error)
