"""Rows of requests that clients may repeat with a key. The process that inserts the row performs the request; a
repeated request gets the stored outcome.
"""
import datetime
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import exception
from nova.db import engine
from nova.db import statements
from nova.db.tables.api import idempotency_keys
from nova.db.tables.ec2 import ec2_client_tokens

MAX_ROWS = 20_000            # maximum rows of a project: enough for a busy day, at most some GiB of outcomes
EXPIRY_INTERVAL_S = 600            # interval at which expired rows are deleted
# age after which an attempt counts as abandoned: no request takes so long, so its process must have ended
ABANDONED_S = 240


class Attempts:
    """Operations on a table with the columns project_id, key, request_hash, created_at, attempted_at and outcome.

    :param key: column with the hash of the client's key for the request
    :param outcome: column that is NULL until an attempt has finished
    :param more: retry_after, the seconds after which a project over the limit may retry
    """

    def __init__(self, table: sa.Table, key: str, outcome: str, **more: int) -> None:
        self._table, self._key, self._outcome, self.most = table, key, outcome, MAX_ROWS
        self._more: dict[str, Any] = more

    def begin(self, conn: sa.Connection, project_id: str, key_hash: str, request_hash: str, now: datetime.datetime,
              counted: bool = True) -> dict[str, Any] | None:
        """Insert the row of a new request and return None, or return the existing row.

        :param counted: whether the row counts towards the limit; False if another row of the request was counted
        :raises TooManyKeys: the project has too many rows
        :raises RetryRequest: the existing row was just deleted, because its request was refused; the caller may retry
        """
        made = engine.insert_ignore(conn, self._table, {
            'project_id': project_id, self._key: key_hash, 'request_hash': request_hash, 'created_at': now,
            'attempted_at': now})
        if made.rowcount:
            if counted and statements.more_than(conn, self._table, self.most, project_id=project_id):
                raise exception.TooManyKeys(limit=self.most, **self._more)
            return None
        row = conn.execute(sa.select(self._table).where(*self._is(project_id, key_hash))).mappings().first()
        if row is None:
            raise db_exc.RetryRequest(None)
        return dict(row)

    def take_over(self, conn: sa.Connection, row: dict[str, Any], now: datetime.datetime) -> bool:
        """Take over an abandoned attempt; return False if another process was faster or may still work on it."""
        if row['attempted_at'] > now - datetime.timedelta(seconds=ABANDONED_S):
            return False
        found = conn.execute(sa.update(self._table).where(
            *self._is(row['project_id'], row[self._key], row['attempted_at']),
            self._table.c[self._outcome].is_(None)).values(attempted_at=now))
        return bool(found.rowcount)

    def finish(self, conn: sa.Connection, project_id: str, key_hash: str, attempted_at: datetime.datetime,
               outcome: str) -> None:
        """Store the outcome of an attempt, unless another process has taken over the request."""
        conn.execute(sa.update(self._table).where(*self._is(project_id, key_hash, attempted_at)).values(
            {self._outcome: outcome}))

    def forget(self, conn: sa.Connection, project_id: str, key_hash: str, attempted_at: datetime.datetime) -> None:
        """Delete the row of a refused attempt, unless another process has taken over the request."""
        conn.execute(sa.delete(self._table).where(*self._is(project_id, key_hash, attempted_at)))

    def expire(self, conn: sa.Connection, before: datetime.datetime) -> int:
        """Delete the rows of requests that were created before a time; return their number."""
        return conn.execute(sa.delete(self._table).where(self._table.c.created_at < before)).rowcount

    def _is(self, project_id: str, key_hash: str,
            attempted_at: datetime.datetime | None = None) -> list[sa.ColumnElement[bool]]:
        columns = self._table.c
        found = [columns.project_id == project_id, columns[self._key] == key_hash]
        return found if attempted_at is None else [*found, columns.attempted_at == attempted_at]


IDEMPOTENCY_KEYS = Attempts(idempotency_keys, 'key_hash', 'answer', retry_after=EXPIRY_INTERVAL_S)
CLIENT_TOKENS = Attempts(ec2_client_tokens, 'token_hash', 'uuid')            # ClientToken of the EC2 API
