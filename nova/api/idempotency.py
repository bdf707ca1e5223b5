"""Idempotency-Key: a repeated create request gets the response of the first attempt.

The key is a secret of the client. The database stores hashes of the key and the request. The response may contain a
password or private key, so it is encrypted with a key derived from the Idempotency-Key. Refusals are not stored. For
a response longer than ``MAX_ANSWER``, only the response without the representation that the client preferred is stored,
or the fact that it was sent.

If a process fails between its first write and its response, the row of the key has no response. After this row has
expired, a request with the same key repeats the work. ``IdempotentRequest.uuid`` then returns the UUIDs of the first
attempt, so that existing servers are found (see nova/api/servers/create.py).
"""
import logging
from collections.abc import Callable
from wsgiref.types import WSGIEnvironment

import orjson

from nova import exception
from nova import utils
from nova.api import request as api_request
from nova.api.idempotent_request import IdempotentRequest
from nova.db import engine
from nova.db.projects import attempts
from nova.json_types import Json
from nova.web import preferences
from nova.web.request import Content
from nova.web.request import Response
from nova.web.routes import Route

LOG = logging.getLogger(__name__)

HEADER = 'HTTP_IDEMPOTENCY_KEY'
KEYS = attempts.IDEMPOTENCY_KEYS
MAX_KEY = 255
MAX_ANSWER = 256 * 1024          # bytes; longer responses are not stored
OF_USERS = ('/os-keypairs', '/os-certificates')     # responses contain private keys of one user


def wanted(environ: WSGIEnvironment, row: Route) -> bool:
    """Return True if a request has the header and its route creates a resource."""
    return HEADER in environ and applies(row)


def applies(row: Route) -> bool:
    return row.method == 'POST' and row.action is None and not row.public


def serve(req: api_request.Request, document: Json, work: Callable[[], Response]) -> Response:
    """Run ``work``, or replay the response of an earlier attempt.

    :param document: the parsed body, or None if there is none
    :param work: () -> Response
    :raises BadRequest: the key is malformed
    :raises IdempotencyKeyInUse: the key is that of another request or a running one, or the response was not stored
    :raises TooManyKeys: the project has too many keys
    """
    key = req.environ[HEADER]
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise exception.BadRequest(f'The Idempotency-Key must have 1 to {MAX_KEY} printable ASCII characters.')
    database, now = req.services.api_db, utils.utcnow()
    req.attempt = attempt = IdempotentRequest(req.project_id, key, now)
    mark = attempt.derived(_described(req, document)).hex()
    row = database.run(KEYS.begin, req.project_id, attempt.key_hash, mark, now, counted=not req.of_ec2)
    if row is not None:
        if row['request_hash'] != mark:
            raise exception.IdempotencyKeyInUse('This Idempotency-Key was already used for another request.')
        if row['answer'] is not None:
            return _replay(attempt, row['answer'])
        if not database.run(KEYS.take_over, row, now):
            raise exception.IdempotencyKeyInUse('The first request with this Idempotency-Key is still in progress.',
                                                retry_after=1)
        attempt.again, attempt.created_at = True, row['created_at']
    try:
        answer = work()
    except engine.CommitUnanswered:
        raise        # keep the key: the transaction may be committed, and a repeated request finds its result
    except BaseException:
        database.run(KEYS.forget, req.project_id, attempt.key_hash, attempt.attempted_at)
        raise
    _keep(req, attempt, answer)
    return answer


def _keep(req: api_request.Request, attempt: IdempotentRequest, answer: Response) -> None:
    try:
        body, headers = _encoded(answer.body), answer.headers
        if len(body) > MAX_ANSWER and answer.brief is not None:
            body = _encoded(answer.brief)
            headers = [header for header in headers if header[0] != preferences.APPLIED]
        kept = None if len(body) > MAX_ANSWER else body.decode()
        sealed = attempt.seal(orjson.dumps([answer.status, headers, kept]))
        req.services.api_db.run(KEYS.finish, req.project_id, attempt.key_hash, attempt.attempted_at, sealed)
    except Exception:
        # The request has succeeded: a repeated request finds its result (see the module's docstring).
        LOG.exception('Cannot store the response of request %s for its Idempotency-Key.', req.request_id)


def _encoded(body: Content) -> bytes:
    return body if isinstance(body, bytes) else b'' if body is None else utils.encode_json(body)


def _replay(attempt: IdempotentRequest, sealed: str) -> Response:
    code, headers, body = orjson.loads(attempt.open(sealed))
    if body is None:
        raise exception.IdempotencyKeyInUse(
            'The request with this Idempotency-Key has succeeded; its response was too long to be stored.')
    return Response(body.encode(), code, [*map(tuple, headers), ('Idempotency-Replayed', 'true')])


def _described(req: api_request.Request, document: Json) -> bytes:
    """Serialize what identifies a request: path, version, body and, for resources owned by users, the user."""
    owner = req.user_id if req.route.path.startswith(OF_USERS) else None
    named = [owner, req.base_path, req.environ.get('PATH_INFO', ''), req.environ.get('QUERY_STRING', ''),
             req.version, document]
    return b'request:' + orjson.dumps(named, option=orjson.OPT_SORT_KEYS)
