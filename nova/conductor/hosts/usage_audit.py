"""The record of what servers a host ran in a period, made once for each."""
import datetime
import logging
import time

from nova import utils
from nova.conductor import notices
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Context
from nova.conf import audit_period
from nova.db.servers import usage
from nova.db.services import task_log

LOG = logging.getLogger(__name__)

STALE = datetime.timedelta(hours=1)          # an audit that runs for so long has died


class UsageAudit:
    """Audits usage."""

    def __init__(self, services: CellServices, notices: notices.Notices) -> None:
        self._conf, self._cell_db, self.notices = services.conf, services.cell_db, notices

    @notices.observed
    def audit_instance_usage(self, ctx: Context, host: str) -> bool:
        """See interface.py."""
        now = utils.utcnow()
        period = audit_period.last_completed(self._conf.instance_usage_audit_period, now)
        if not self._cell_db.run(task_log.begin, host, period, now - STALE):
            return False
        started, items, errors = time.monotonic(), 0, 0
        try:
            with self._cell_db.reader() as conn:
                items = usage.count_on_host(conn, host, *period)
        except Exception:
            LOG.exception('The usage of host %s is not known.', host)
            errors = 1
        message = (f'Instance usage audit ran for host {host}, {items} instances in '
                   f'{time.monotonic() - started:.2f} seconds.')
        self._cell_db.run(task_log.end, host, period, items, errors, message)
        days = self._conf.conductor.deleted_servers_kept_days
        if days:
            self._cell_db.run(task_log.expire, min(now - datetime.timedelta(days=days), period[0]))
        return True
