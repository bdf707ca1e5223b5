"""Rows of requests that have the same outcome when they are sent again: who writes the row first does the work."""
from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import exception
from nova.db import engine
from nova.db import statements
from nova.db.tables.api import idempotency_keys
from nova.db.tables.ec2 import ec2_client_tokens

MOST = 20_000            # rows of one project: a day's requests of a busy one, and at their largest some GiB
AGAIN_S = 600            # rows expire so often
ABANDONED_S = 240        # longer than a request lasts: the process that began it has ended


class Attempts:
    """What is done with the rows of one table: project_id, a key, request_hash, created_at, tried_at, an outcome.

    :param key: name of the column with the hash of what the client calls the request
    :param outcome: name of the column that is empty until an attempt has come to its end
    :param more: retry_after, the seconds after which a project with too many rows may have fewer, where it is said
    """

    def __init__(self, table: sa.Table, key: str, outcome: str, **more: Any) -> None:
        self._table, self._key, self._outcome, self._more, self.most = table, key, outcome, more, MOST

    def begin(self, conn: sa.Connection, project_id: str, key_hash: str, request_hash: str, now: datetime.datetime,
              counted: bool = True) -> dict[str, Any] | None:
        """Make the row of a request that begins; None when it was made here, else the row that was there.

        :param counted: False where another row of the same request was counted
        :raises TooManyKeys: the project has so many that no row is made
        :raises RetryRequest: the row that was there is gone, its request was refused; ask again
        """
        made = engine.insert_ignore(conn, self._table, {
            'project_id': project_id, self._key: key_hash, 'request_hash': request_hash, 'created_at': now,
            'tried_at': now})
        if made.rowcount:
            if counted and statements.more_than(conn, self._table, self.most, project_id=project_id):
                raise exception.TooManyKeys(limit=self.most, **self._more)
            return None
        row = conn.execute(sa.select(self._table).where(*self._is(project_id, key_hash))).mappings().first()
        if row is None:
            raise db_exc.RetryRequest(None)
        return dict(row)

    def take_over(self, conn: sa.Connection, row: dict[str, Any], now: datetime.datetime) -> bool:
        """Take over what another process began and never finished; False when another one was faster, or may be at it
        still."""
        if row['tried_at'] > now - datetime.timedelta(seconds=ABANDONED_S):
            return False
        found = conn.execute(sa.update(self._table).where(
            *self._is(row['project_id'], row[self._key], row['tried_at']),
            self._table.c[self._outcome].is_(None)).values(tried_at=now))
        return bool(found.rowcount)

    def finish(self, conn: sa.Connection, project_id: str, key_hash: str, tried_at: datetime.datetime,
               outcome: str) -> None:
        """Keep what an attempt has made or answered, unless another one has taken over."""
        conn.execute(sa.update(self._table).where(*self._is(project_id, key_hash, tried_at)).values(
            {self._outcome: outcome}))

    def forget(self, conn: sa.Connection, project_id: str, key_hash: str, tried_at: datetime.datetime) -> None:
        """An attempt was refused: the request may be sent again, unless another attempt has taken over."""
        conn.execute(sa.delete(self._table).where(*self._is(project_id, key_hash, tried_at)))

    def expire(self, conn: sa.Connection, before: datetime.datetime) -> int:
        """Remove the rows of requests that came before a time; their number."""
        return conn.execute(sa.delete(self._table).where(self._table.c.created_at < before)).rowcount

    def _is(self, project_id: str, key_hash: str, tried_at: datetime.datetime | None = None) -> list[Any]:
        columns = self._table.c
        found = [columns.project_id == project_id, columns[self._key] == key_hash]
        return found if tried_at is None else [*found, columns.tried_at == tried_at]


IDEMPOTENCY_KEYS = Attempts(idempotency_keys, 'key_hash', 'answer', retry_after=AGAIN_S)
CLIENT_TOKENS = Attempts(ec2_client_tokens, 'token_hash', 'uuid')            # of the EC2 API
