"""ClientToken support in the EC2 API: the request that inserts the row of a token creates the resource.
"""
from collections.abc import Callable
import datetime
import hashlib
import hmac

import orjson

from nova import exception
from nova import utils
from nova.db.engine import Connection
from nova.db.projects import attempts
from nova.ec2 import errors
from nova.ec2 import operations

TOKENS = attempts.CLIENT_TOKENS
MAX_TOKEN = 64                   # characters
Find = Callable[[datetime.datetime | None], str | None]
Finish = Callable[[Connection, str], None]


def once(req: operations.Request, operation: str, given: operations.Given, find: Find, make: Callable[[], str],
         complete: Callable[[str], object] = lambda _uuid: None) -> str:
    """Create a resource, unless an earlier request with the same token has created it; return its UUID.

    :param find: function(start) that returns the UUID of the resource that an interrupted attempt has created, or None.
     ``start`` is the start of the attempt in naive UTC, or None if there was none.
    :param make: creates the resource and returns its UUID
    :param complete: function(UUID) that makes the other changes to the created or found resource, such as its tags
    :raises Ec2Error: the parameters differ, the first request is still running, or the project has too many tokens
    """
    def completed(found: str) -> str:
        complete(found)
        return found
    return _once(req, operation, given, lambda since: (found := find(since)) and completed(found),
                 lambda _finish: completed(make()))


def once_written(req: operations.Request, operation: str, given: operations.Given,
                 write: Callable[[Connection], str]) -> str:
    """Change the API database, unless an earlier request with the same token has done so; return the result.

    :param write: changes the database and returns the result; the same transaction stores the result for the token
    :raises Ec2Error: see ``once``
    """
    def both(conn: Connection, finish: Finish) -> str:
        finish(conn, result := write(conn))
        return result

    def make(finish: Finish) -> str:
        req.writes()
        return req.api_db.run(both, finish)
    return _once(req, operation, given, lambda _since: None, make)


def _once(req: operations.Request, operation: str, given: operations.Given, find: Find,
          make: Callable[[Finish], str]) -> str:
    token = given.get('ClientToken')
    if not token:
        return make(lambda _conn, _result: None)
    if len(token) > MAX_TOKEN or not token.isascii() or not token.isprintable():
        raise errors.invalid('ClientToken', token)
    req.writes()
    key = hashlib.sha256(f'{operation}\0{token}'.encode()).hexdigest()
    mark = hmac.digest(token.encode(), orjson.dumps(given, default=str, option=orjson.OPT_SORT_KEYS), 'sha256').hex()
    now = utils.utcnow()
    try:
        row = req.api_db.run(TOKENS.begin, req.project_id, key, mark, now)
    except exception.TooManyKeys as error:
        raise errors.Ec2Error('RequestLimitExceeded', error.message, 503) from None
    if row is not None:
        if row['request_hash'] != mark:
            raise errors.Ec2Error('IdempotentParameterMismatch', 'This ClientToken was already used with different '
                                  'parameters.')
        if row['uuid'] is not None:
            return str(row['uuid'])
        if not req.api_db.run(TOKENS.take_over, row, now):
            raise errors.Ec2Error('Unavailable', 'The first request with this ClientToken is still in progress. '
                                  'Retry later.', 503)

    def finish(conn: Connection, result: str) -> None:
        TOKENS.finish(conn, req.project_id, key, now, result)
    try:
        uuid = find(None if row is None else row['created_at']) or make(finish)
    except (errors.Ec2Error, errors.ServiceRefused) as error:
        if error.status < 500:                  # after a server error the resource may exist: keep the row
            req.api_db.run(TOKENS.forget, req.project_id, key, now)
        raise
    req.api_db.run(finish, uuid)
    return uuid
