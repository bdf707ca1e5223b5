"""Usage audit: notifications about the servers of a host in the last completed period. A failed audit is repeated."""
import datetime
import logging
import time

from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Context
from nova.conf import audit_period
from nova.db.servers import event_facts
from nova.db.servers import usage
from nova.db.services import task_log
from nova.db.tables.rows import InstancesRow

LOG = logging.getLogger(__name__)

STALE = datetime.timedelta(minutes=15)       # an audit that has not ended after this time is repeated


class UsageAudit:
    """Records usage audits and publishes their notifications."""

    def __init__(self, services: CellServices) -> None:
        self._conf, self._cell_db, self._notifier = services.conf, services.cell_db, services.notifier

    def audit_instance_usage(self, ctx: Context, host: str) -> bool:
        """See interface.py."""
        now = utils.utcnow()
        period = audit_period.last_completed(self._conf.instance_usage_audit_period, now)
        if not self._cell_db.run(task_log.begin, host, period, now - STALE):
            return False
        started, items, errors = time.monotonic(), 0, 0
        events: list[tuple[InstancesRow, event_facts.Attached]] = []
        try:
            with self._cell_db.reader() as conn:
                items = usage.count_on_host(conn, host, *period)
                if self._notifier.on:
                    events = [(row, event_facts.attached(conn, row['uuid'], self._notifier))
                              for row in usage.on_host(conn, host, *period)]
        except Exception:
            LOG.exception('Cannot audit the usage of host %s. It is repeated until the next period has ended.', host)
            errors = 1
        message = (f'Instance usage audit {"failed" if errors else "ran"} for host {host}, {items} instances in '
                   f'{time.monotonic() - started:.2f} seconds.')
        if self._notifier.on:
            about = dict(zip(('audit_period_beginning', 'audit_period_ending'), period, strict=True))
            # publish before task_log.end: after a crash, the audit is repeated and publishes its events again
            for row, attached in events:
                self._notifier.publish(ctx, 'instance.exists', None, row, host, period=about, **attached)
        self._cell_db.run(task_log.end, host, period, items, errors, message)
        days = self._conf.conductor.deleted_servers_kept_days
        if days:
            self._cell_db.run(task_log.expire, min(now - datetime.timedelta(days=days), period[0]))
        return True
