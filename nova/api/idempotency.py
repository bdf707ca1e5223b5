"""Idempotency-Key: a request that creates something and is sent again gets the first answer again.

The key is the client's secret. The database has hashes of it and of the request, made with it, and the answer, which
may hold a password or a private key, encrypted with a key derived from it: who reads the database reads no answer.
What was refused is not kept, and of an answer longer than ``MAX_ANSWER`` only that it was given.

A process that dies between its first write and its answer, or loses its database at a commit, leaves a row without an
answer. When it is abandoned, a request with the same key does the work again; ``Once.uuid`` then names the same servers
as the first time, so that what is there already is found (see server_create).
"""
from __future__ import annotations

import base64
import datetime
import hmac
import logging
import uuid
from collections.abc import Callable
from typing import Any

import orjson
from cryptography import fernet

from nova import exception
from nova import utils
from nova.api import request as api_request
from nova.db import engine
from nova.db.projects import attempts
from nova.web import bodies
from nova.web.request import Response
from nova.web.routes import Route

LOG = logging.getLogger(__name__)

HEADER = 'HTTP_IDEMPOTENCY_KEY'
KEYS = attempts.IDEMPOTENCY_KEYS
MAX_KEY = 255
MAX_ANSWER = 256 * 1024          # bytes; of a longer one it is kept alone that it was given
OF_USERS = ('/os-keypairs', '/os-certificates')     # a private key is its user's alone, not even the project's


class Once:
    """One request with a key.

    again        True where an earlier attempt may have been broken off half-way
    created_at   when its first attempt began
    tried_at     when this attempt began
    """

    def __init__(self, project_id: str, key: str, now: datetime.datetime) -> None:
        self._project_id, self._secret, self.again = project_id, key.encode(), False
        self.created_at = self.tried_at = now
        self.key_hash = self.derived(b'name').hex()
        self._made = 0

    def derived(self, purpose: bytes) -> bytes:
        return hmac.digest(self._secret, purpose + b':' + self._project_id.encode(), 'sha256')

    def uuid(self) -> str:
        """A new uuid; the same ones in the same order at each attempt, others when the key's row was removed."""
        self._made += 1
        name = f'uuid:{self._made}:{self.created_at.isoformat()}'
        return str(uuid.UUID(bytes=self.derived(name.encode())[:16], version=4))

    def seal(self, answer: bytes) -> str:
        return self._cipher().encrypt(answer).decode()

    def open(self, sealed: str) -> bytes:
        return self._cipher().decrypt(sealed.encode())

    def _cipher(self) -> fernet.Fernet:
        return fernet.Fernet(base64.urlsafe_b64encode(self.derived(b'answer')))


def wanted(environ: bodies.Environ, row: Route) -> bool:
    """Whether a request asks for it and its row creates something."""
    return HEADER in environ and applies(row)


def applies(row: Route) -> bool:
    return row.method == 'POST' and row.action is None and not row.public


def serve(req: api_request.Request, document: Any, work: Callable[[], Response]) -> Response:
    """What ``work()`` answers, or has answered to the same request before.

    :param document: the body as it came, parsed; None without one
    :param work: () -> Response
    :raises BadRequest: the key is none
    :raises IdempotencyKeyInUse: the key came with another request, that one is still being served, or was done and its
        answer was too long to be kept
    :raises TooManyKeys: the project has too many
    """
    key = req.environ[HEADER]
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise exception.BadRequest(f'The Idempotency-Key has 1 to {MAX_KEY} printable ASCII characters.')
    database, now = req.services.api_db, utils.utcnow()
    req.once = once = Once(req.project_id, key, now)
    mark = once.derived(_described(req, document)).hex()
    row = database.run(KEYS.begin, req.project_id, once.key_hash, mark, now, counted=not req.of_ec2)
    if row is not None:
        if row['request_hash'] != mark:
            raise exception.IdempotencyKeyInUse('This Idempotency-Key was sent with another request before.')
        if row['answer'] is not None:
            return _replay(once, row['answer'])
        if not database.run(KEYS.take_over, row, now):
            raise exception.IdempotencyKeyInUse('The first request with this Idempotency-Key is still being served.',
                                                retry_after=1)
        once.again, once.created_at = True, row['created_at']
    try:
        answer = work()
    except engine.CommitUnanswered:
        raise                            # it may be done: who asks again finds it
    except BaseException:
        database.run(KEYS.forget, req.project_id, once.key_hash, once.tried_at)
        raise
    _keep(req, once, answer)
    return answer


def _keep(req: api_request.Request, once: Once, answer: Response) -> None:
    body = answer.body if isinstance(answer.body, bytes) else (
        b'' if answer.body is None else utils.encode_json(answer.body))
    kept = None if len(body) > MAX_ANSWER else body.decode()
    sealed = once.seal(orjson.dumps([answer.status, answer.headers, kept]))
    try:
        req.services.api_db.run(KEYS.finish, req.project_id, once.key_hash, once.tried_at, sealed)
    except Exception:
        # The request is done: a client that repeats it finds it done (see the module).
        LOG.exception('The answer of request %s could not be kept.', req.request_id)


def _replay(once: Once, sealed: str) -> Response:
    code, headers, body = orjson.loads(once.open(sealed))
    if body is None:
        raise exception.IdempotencyKeyInUse(
            'The request with this Idempotency-Key was done; its answer was too long to be kept.')
    return Response(body.encode(), code, [*map(tuple, headers), ('Idempotency-Replayed', 'true')])


def _described(req: api_request.Request, document: Any) -> bytes:
    """What makes two requests the same: path, version and body, and the user where what is made is the user's own."""
    owner = req.user_id if req.route.path.startswith(OF_USERS) else None
    named = [owner, req.base_path, req.environ.get('PATH_INFO', ''), req.environ.get('QUERY_STRING', ''),
             req.version, document]
    return b'request:' + orjson.dumps(named, option=orjson.OPT_SORT_KEYS)
