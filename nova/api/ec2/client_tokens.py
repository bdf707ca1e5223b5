"""ClientToken of operations whose own service knows none: the first writer of the token's row makes the thing."""
from __future__ import annotations

from collections.abc import Callable
import datetime
import hashlib
import hmac

import orjson

from nova import exception
from nova import utils
from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.db.projects import attempts

TOKENS = attempts.CLIENT_TOKENS
LONGEST = 64                     # characters


def once(req: operations.Request, operation: str, given: operations.Given,
         find: Callable[[datetime.datetime | None], str | None], make: Callable[[], str]) -> str:
    """The uuid of what a request with a ClientToken makes, or one with the same token has made.

    :param find: gives the uuid of what an attempt made that began at a moment (naive UTC; None: it is not known of) and
        did not come to its end; None where there is none
    :param make: makes the thing, gives its uuid
    :raises Ec2Error: the token came with other parameters, its first request is still being served, or the project has
        too many tokens
    """
    token = given.get('ClientToken')
    if not token:
        return make()
    if len(token) > LONGEST:
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
            raise errors.Ec2Error('IdempotentParameterMismatch', 'This ClientToken was sent with other parameters '
                                  'before.')
        if row['uuid'] is not None:
            return str(row['uuid'])
        if not req.api_db.run(TOKENS.take_over, row, now):
            raise errors.Ec2Error('Unavailable', 'The first request with this ClientToken is still being served: '
                                  'send it again.', 503)
    try:
        uuid = find(None if row is None else row['created_at']) or make()
    except (errors.Ec2Error, errors.ServiceRefused) as error:
        if error.status < 500:                  # else it may be done: the row stays until the thing can be found
            req.api_db.run(TOKENS.forget, req.project_id, key, now)
        raise
    req.api_db.run(TOKENS.finish, req.project_id, key, now, uuid)
    return uuid
