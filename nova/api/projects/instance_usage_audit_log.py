"""Usage audits: compute hosts that recorded a period, and their number of servers."""
import datetime
from typing import Any

from nova import exception
from nova import utils
from nova.api import cell_queries
from nova.api import request as api_request
from nova.conf import audit_period
from nova.db.services import services
from nova.db.services import task_log
from nova.json_types import JsonDocument
from nova.web import formats
from nova.web.params import Query
from nova.web.routes import Route

_RULE = 'os_compute_api:os-instance-usage-audit-log:'
_NOTHING = Query(closed=102)


def _audits(req: api_request.Request, before: datetime.datetime) -> JsonDocument:
    """Return the audits of the last period that ended before a time.

    :raises BadRequest: no such period
    """
    try:
        period = audit_period.last_completed(req.services.conf.instance_usage_audit_period, before)
    except (ValueError, OverflowError):
        raise exception.BadRequest('No audit period ended before this time.') from None
    hosts: set[str] = set()
    rows: dict[str, Any] = {}
    for _cell, (here, log) in cell_queries.ask(req, lambda conn: (services.list(conn, binary='nova-compute'),
                                                              task_log.of_period(conn, period)))[0]:
        hosts |= {row['host'] for row in here} | log.keys()          # the log also has hosts that were deleted later
        rows |= log
    done = sum(row['state'] == task_log.DONE for row in rows.values())
    errors = sum(row['errors'] for row in rows.values())
    missing = sorted(hosts - rows.keys())
    which = 'ALL hosts' if done == len(hosts) else f'{done} of {len(hosts)} hosts'
    return {
        'period_beginning': str(period[0]), 'period_ending': str(period[1]), 'num_hosts': len(hosts),
        'num_hosts_done': done, 'num_hosts_running': len(rows) - done, 'num_hosts_not_run': len(missing),
        'hosts_not_run': missing, 'total_instances': sum(row['task_items'] for row in rows.values()),
        'total_errors': errors, 'overall_status': f'{which} done. {errors} errors.',
        'log': {host: {'state': row['state'], 'instances': row['task_items'], 'errors': row['errors'],
                       'message': row['message']} for host, row in sorted(rows.items())}}


def index(req: api_request.Request) -> JsonDocument:
    return {'instance_usage_audit_logs': _audits(req, utils.utcnow())}


def show(req: api_request.Request, id: str) -> JsonDocument:
    try:
        before = formats.parse_time(id)
    except ValueError:
        raise exception.BadRequest(f'Invalid timestamp for date {id[:40]}') from None
    return {'instance_usage_audit_log': _audits(req, before)}


_PATH = '/os-instance_usage_audit_log'
ROUTES = (
    Route('GET', _PATH, index, policy=_RULE + 'list', query=_NOTHING, errors=(401, 403)),
    Route('GET', _PATH + '/{id}', show, policy=_RULE + 'show', query=_NOTHING, errors=(400, 401, 403)),
)
