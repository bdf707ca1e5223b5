"""Rows of the client tokens of the EC2 API: who writes one first makes the thing, all others get it."""
from __future__ import annotations

from datetime import datetime
from typing import Any

from oslo_db import exception as db_exc
import sqlalchemy as sa

from nova import exception
from nova.db import engine
from nova.db import statements
from nova.db.tables.ec2 import ec2_client_tokens as table


MOST = 20_000            # rows of one project


def begin(conn: sa.Connection, project_id: str, token_hash: str, request_hash: str,
          now: datetime) -> dict[str, Any] | None:
    """Make the row of a request that begins; None when it was made here, else the row that was there.

    :raises TooManyKeys: the project has so many that no row is made
    :raises RetryRequest: the row that was there is gone, its request was refused; ask again
    """
    made = engine.insert_ignore(conn, table, {
        'project_id': project_id, 'token_hash': token_hash, 'request_hash': request_hash, 'created_at': now,
        'tried_at': now})
    if made.rowcount:
        if statements.more_than(conn, table, MOST, project_id=project_id):
            raise exception.TooManyKeys(limit=MOST)
        return None
    row = conn.execute(sa.select(table).where(*_is(project_id, token_hash))).mappings().first()
    if row is None:
        raise db_exc.RetryRequest(None)
    return dict(row)


def take_over(conn: sa.Connection, row: dict[str, Any], now: datetime) -> bool:
    """Take over what another process began and never finished; False when another process was faster."""
    found = conn.execute(sa.update(table).where(
        *_is(row['project_id'], row['token_hash'], row['tried_at']), table.c.uuid.is_(None)).values(tried_at=now))
    return bool(found.rowcount)


def finish(conn: sa.Connection, project_id: str, token_hash: str, tried_at: datetime, uuid: str) -> None:
    """Keep what an attempt has made, unless another one has taken over."""
    conn.execute(sa.update(table).where(*_is(project_id, token_hash, tried_at)).values(uuid=uuid))


def forget(conn: sa.Connection, project_id: str, token_hash: str, tried_at: datetime) -> None:
    """An attempt was refused: the request may be sent again, unless another attempt has taken over."""
    conn.execute(sa.delete(table).where(*_is(project_id, token_hash, tried_at)))


def expire(conn: sa.Connection, before: datetime) -> int:
    """Remove the rows of requests that came before a time; their number."""
    return conn.execute(sa.delete(table).where(table.c.created_at < before)).rowcount


def _is(project_id: str, token_hash: str, tried_at: datetime | None = None) -> list[Any]:
    found = [table.c.project_id == project_id, table.c.token_hash == token_hash]
    return found if tried_at is None else [*found, table.c.tried_at == tried_at]
