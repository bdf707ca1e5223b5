"""Upkeep of the audit logs of the cell database and the API database: seal new records, and remove old ones."""
import datetime
import logging
import time

from nova import utils
from nova.conductor.cell_services import CellServices
from nova.db import engine
from nova.db.audit import records
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

SEAL_S = 10                  # longest time in seconds until a record is sealed
EXPORT_S = 60                # seconds between two log lines with the newest seal


class AuditLog:
    """Seals the audit log: chains the hashes of new records. A lock lets only one conductor at a time do this.

    A seal is published in the service's log and as a notification, so that a truncated or rewritten chain is detected.
    """

    def __init__(self, services: CellServices) -> None:
        self._services, self._conf, self._notifier = services, services.conf, services.notifier
        self._seals: dict[str, records.Seal] = {}         # {name of a database: its newest seal}
        self._exported_at: dict[str, float] = {}          # {name of a database: monotonic time of its last publication}
        self._waits_since: dict[str, datetime.datetime | None] = {}       # {name: time of its oldest unsealed record}
        self._cut_off: set[str] = set()  # names of databases with a truncated chain, which are not sealed
        for name, _db in self._databases():
            metrics.AUDIT_LOG_TRUNCATED.labels(name)  # 0 from the start, so that alert rules detect the first increase
        metrics.AUDIT_LOG_UNSEALED.watch(self, AuditLog._unsealed)

    def _unsealed(self) -> dict[tuple[str], float]:
        now = utils.utcnow()
        return {(name,): 0.0 if since is None else max(0.0, (now - since).total_seconds())
                for name, since in self._waits_since.items()}

    def _databases(self) -> list[tuple[str, engine.Database]]:
        return [('api', self._services.api_db), (f'cell {self._services.cell.name}', self._services.cell_db)]

    def seal_audit_log(self) -> int:
        """Seal the unsealed records; return their number."""
        return sum(self._seal(name, db) for name, db in self._databases())

    def _seal(self, name: str, db: engine.Database) -> int:
        with db.reader() as conn:
            self._waits_since[name] = records.waits_since(conn)
        if self._waits_since[name] is None:
            return 0
        key, count, seen = self._conf.audit.key.encode(), 0, self._seals.get(name)
        while True:
            try:
                sealed, seal = db.run(records.seal, key, None if seen is None else seen.seq)
            except ValueError:
                metrics.AUDIT_LOG_TRUNCATED.labels(name).inc()
                if name in self._cut_off:
                    return count
                self._cut_off.add(name)
                LOG.critical('The newest records of the audit log of database %s were removed: record %s, up to which '
                             'it was sealed, is missing. New records are not sealed until nova-conductor restarts.',
                             name, seen)
                return count
            if not sealed:
                break
            self._seals[name], seen, count = seal, seal, count + sealed
            metrics.AUDIT_LOG_SEALED.labels(name).inc(sealed)
            if sealed < records.PAGE:
                self._waits_since[name] = None
                break
        if count and seen is not None:
            self._export(name, seen)
        return count

    def _export(self, name: str, seal: records.Seal) -> None:
        if time.monotonic() < self._exported_at.get(name, 0) + EXPORT_S and name in self._exported_at:
            return
        self._exported_at[name] = time.monotonic()
        LOG.info('The audit log of database %s is sealed up to %s', name, seal)
        if self._notifier.on:
            self._notifier.publish_seal(name, str(seal))

    def expire_audit_log(self) -> int:
        """Remove records older than the configured retention; return their number."""
        days, count = self._conf.audit.keep_days, 0
        if not days:
            return 0
        before = utils.utcnow() - datetime.timedelta(days=days)
        for _name, db in self._databases():
            while removed := db.run(records.expire, self._conf.audit.key.encode(), before):
                count += removed
        return count
