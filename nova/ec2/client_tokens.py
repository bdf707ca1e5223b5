"""ClientToken support in the EC2 API: the first request that inserts the row of a token creates the resource.
"""
from collections.abc import Callable
import datetime
import hashlib
import hmac

import orjson

from nova import exception
from nova import utils
from nova.db.projects import attempts
from nova.ec2 import errors
from nova.ec2 import operations

TOKENS = attempts.CLIENT_TOKENS
MAX_TOKEN = 64                   # characters


def once(req: operations.Request, operation: str, given: operations.Given,
         find: Callable[[datetime.datetime | None], str | None], make: Callable[[], str]) -> str:
    """Create a resource, unless an earlier request with the same token has created it; return its UUID.

    :param find: function(start) that returns the UUID of the resource that an interrupted attempt has created, or None.
     ``start`` is the start of the attempt in naive UTC, or None if unknown.
    :param make: creates the resource and returns its UUID
    :raises Ec2Error: the parameters differ, the first request is still running, or the project has too many tokens
    """
    token = given.get('ClientToken')
    if not token:
        return make()
    if len(token) > MAX_TOKEN:
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
    try:
        uuid = find(None if row is None else row['created_at']) or make()
    except (errors.Ec2Error, errors.ServiceRefused) as error:
        if error.status < 500:                  # after a server error the resource may exist: keep the row
            req.api_db.run(TOKENS.forget, req.project_id, key, now)
        raise
    req.api_db.run(TOKENS.finish, req.project_id, key, now, uuid)
    return uuid
