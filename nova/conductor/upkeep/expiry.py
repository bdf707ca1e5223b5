"""Expiry of rows: history, actions, console tokens, idempotency keys."""
import datetime

from nova import utils
from nova.conductor.cell_services import CellServices
from nova.db.projects import attempts
from nova.db.servers import console_tokens
from nova.db.servers import history


class Expiry:
    """Removes expired rows."""

    def __init__(self, services: CellServices) -> None:
        self._conf, self._cell_db, self._api_db = services.conf, services.cell_db, services.api_db
        self._looked_at = dict.fromkeys(history.TABLES, 0)         # {table: newest id in the last complete check}

    def expire_history(self) -> None:
        """Remove deleted servers from the history after the configured retention."""
        days = self._conf.conductor.deleted_servers_kept_days
        before = utils.utcnow() - datetime.timedelta(days=days)
        while days and self._cell_db.run(history.expire, before):
            pass

    def expire_old_actions(self) -> int:
        """Remove the oldest actions and moves of existing servers beyond the retained number; return their number."""
        kept, removed = self._conf.conductor.server_actions_kept, 0
        for table in history.TABLES:
            with self._cell_db.reader() as conn:
                newest = history.newest(conn, table)
                uuids = history.with_more(conn, table, kept, self._looked_at[table])
            for uuid in uuids:
                while found := self._cell_db.run(history.trim, table, uuid, kept):
                    removed += found
            if len(uuids) < history.SERVERS:
                self._looked_at[table] = newest
        return removed

    def expire_console_tokens(self) -> int:
        """Remove expired console tokens; return their number."""
        return self._cell_db.run(console_tokens.expire)

    def expire_idempotency_keys(self) -> None:
        """Remove the rows of idempotent requests that clients may no longer repeat."""
        lifetime = datetime.timedelta(seconds=self._conf.api.idempotency_key_lifetime)
        for rows in (attempts.IDEMPOTENCY_KEYS, attempts.CLIENT_TOKENS):
            self._api_db.run(rows.expire, utils.utcnow() - lifetime)
