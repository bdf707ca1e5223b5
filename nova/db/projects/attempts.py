"""Answers that are given again: rows of requests that came with an Idempotency-Key."""
from __future__ import annotations

from datetime import datetime
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import exception
from nova.db import engine
from nova.db import statements
from nova.db.tables.api import idempotency_keys as table

if TYPE_CHECKING:
    from nova.db.tables.rows import IdempotencyKeysRow


MOST = 20_000            # rows of one project: a day's requests of a busy one, and at their largest some GiB
AGAIN_S = 600            # rows expire so often


def begin(conn: sa.Connection, project_id: str, key_hash: str, request_hash: str,
          now: datetime, counted: bool = True) -> IdempotencyKeysRow | None:
    """Make the row of a request that begins; None when it was made here, else the row that was there, as a dict.

    :param counted: False of a key of the EC2 API in this process, which has counted its token
    :raises TooManyKeys: the project has so many that no row is made
    :raises RetryRequest: the row that was there is gone, its request was refused; ask again
    """
    made = engine.insert_ignore(conn, table, {
        'project_id': project_id, 'key_hash': key_hash, 'request_hash': request_hash, 'created_at': now,
        'tried_at': now})
    if made.rowcount:
        if counted and statements.more_than(conn, table, MOST, project_id=project_id):
            raise exception.TooManyKeys(limit=MOST, retry_after=AGAIN_S)
        return None
    row = conn.execute(sa.select(table).where(*_is(project_id, key_hash))).mappings().first()
    if row is None:
        raise db_exc.RetryRequest(None)
    return statements.to_dict(row)


def take_over(conn: sa.Connection, row: IdempotencyKeysRow, now: datetime) -> bool:
    """Take over what another process began and never finished; False when another process was faster."""
    found = conn.execute(sa.update(table).where(
        *_is(row['project_id'], row['key_hash'], row['tried_at']), table.c.answer.is_(None)).values(tried_at=now))
    return bool(found.rowcount)


def finish(conn: sa.Connection, project_id: str, key_hash: str, tried_at: datetime, answer: str) -> None:
    """Keep the answer of an attempt, unless another one has taken over."""
    conn.execute(sa.update(table).where(*_is(project_id, key_hash, tried_at)).values(answer=answer))


def forget(conn: sa.Connection, project_id: str, key_hash: str, tried_at: datetime) -> None:
    """An attempt was refused: the request may be sent again with this key, unless another attempt has taken over."""
    conn.execute(sa.delete(table).where(*_is(project_id, key_hash, tried_at)))


def expire(conn: sa.Connection, before: datetime) -> int:
    """Remove the rows of requests that came before a time; their number."""
    return conn.execute(sa.delete(table).where(table.c.created_at < before)).rowcount


def _is(project_id: str, key_hash: str, tried_at: datetime | None = None) -> list[Any]:
    found = [table.c.project_id == project_id, table.c.key_hash == key_hash]
    return found if tried_at is None else [*found, table.c.tried_at == tried_at]
