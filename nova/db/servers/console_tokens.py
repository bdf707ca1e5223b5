"""Console tokens: what opens a console for a while."""
from __future__ import annotations

import datetime
import hashlib
from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import statements
from nova.db.tables.cell import instances
from nova.db.tables.console import console_auth_tokens as table

if TYPE_CHECKING:
    from nova.db.tables.rows import ConsoleAuthTokensRow

_DELETE = sa.delete(table).where(table.c.instance_uuid.in_(sa.bindparam('uuids', expanding=True)))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def insert(conn: sa.Connection, token: str, ttl_s: int, values: dict[str, str]) -> None:
    """Store a token that is good for so many seconds.

    :param values: the other columns of the table
    """
    now = utils.utcnow()
    conn.execute(sa.insert(table).values(token_hash=_hash(token), created_at=now,
                                         expires_at=now + datetime.timedelta(seconds=ttl_s), **values))


def get(conn: sa.Connection, token: str) -> ConsoleAuthTokensRow:
    """The row of a token that is good: not expired, and its server is where it was when the token was made.

    :raises ConsoleTokenNotFound:
    """
    statement = sa.select(table).join(instances, sa.and_(
        instances.c.uuid == table.c.instance_uuid, instances.c.host == table.c.instance_host)).where(
        table.c.token_hash == _hash(token), table.c.expires_at > utils.utcnow())
    row = conn.execute(statement).mappings().first()
    if row is None:
        raise exception.ConsoleTokenNotFound()
    return statements.to_dict(row)


def delete(conn: sa.Connection, *instance_uuids: str) -> None:
    """Nothing opens a console of these servers any more."""
    conn.execute(_DELETE, {'uuids': list(instance_uuids)})


def expire(conn: sa.Connection) -> int:
    """Remove those whose time is over; their number."""
    return conn.execute(sa.delete(table).where(table.c.expires_at <= utils.utcnow())).rowcount
