"""Looking after the audit log: the records of this cell's database and of the API's are sealed, and removed in time."""
import datetime
import logging
import time

from nova import utils
from nova.db.audit import records
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

SEAL_S = 10                  # seconds that a record waits for its seal at most, while nothing is in the way
EXPORT_S = 60                # seconds between two lines of the log that tell the newest seal


class AuditLog:
    """Mixed into the conductor's manager. Conductors that do it at the same time take turns: the chain's row is locked.

    What was sealed is told elsewhere, in the log of the service and as a notification, so that who cuts the end off, or
    writes all of it anew, is found out.
    """

    def _audited(self):
        return [('api', self._api_db), (f'cell {self._cells.default.name}', self._cell_db)]

    def seal_audit_log(self):
        """Seal what waits; the number of records."""
        return sum(self._seal(name, db) for name, db in self._audited())

    def _seal(self, name, db):
        with db.reader() as conn:
            if not records.waits(conn):
                return 0
        key, count, seen = self._conf.audit.key.encode(), 0, self._audit_seals.get(name)
        while True:
            try:
                sealed, seal = db.run(records.seal, key, seen and seen.seq)
            except ValueError:
                metrics.AUDIT_BROKEN.labels(name).inc()
                LOG.critical('The audit log of database %s ends before record %s, up to which it was sealed: its end '
                             'was removed. It is not sealed any further until nova-conductor is started again.',
                             name, seen)
                return count
            if not sealed:
                break
            self._audit_seals[name], seen, count = seal, seal, count + sealed
            metrics.AUDIT_SEALED.labels(name).inc(sealed)
            if sealed < records.PAGE:
                break
        if count:
            self._export(name, seen)
        return count

    def _export(self, name, seal):
        if time.monotonic() < self._audit_told.get(name, 0) + EXPORT_S and name in self._audit_told:
            return
        self._audit_told[name] = time.monotonic()
        LOG.info('The audit log of database %s is sealed up to %s', name, seal)
        if self.notifier.on:
            self.notifier.tell_seal(name, seal)

    def expire_audit_log(self):
        """Remove what was kept for as long as configured; the number of records."""
        days, count = self._conf.audit.keep_days, 0
        if not days:
            return 0
        before = utils.utcnow() - datetime.timedelta(days=days)
        for _name, db in self._audited():
            while removed := db.run(records.expire, self._conf.audit.key.encode(), before):
                count += removed
        return count
