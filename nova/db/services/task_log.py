"""Usage audits of hosts: periods and results."""
import datetime

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.rows import TaskLogRow
from nova.db.tables.cell import task_log

RUNNING, DONE = 'RUNNING', 'DONE'

Period = tuple[datetime.datetime, datetime.datetime]         # (beginning, ending)


def _which(host: str, period: Period) -> sa.ColumnElement[bool]:
    c = task_log.c
    return sa.and_(c.host == host, c.period_beginning == period[0], c.period_ending == period[1])


def begin(conn: sa.Connection, host: str, period: Period, stale_before: datetime.datetime) -> bool:
    """Reserve an audit; return False if it is done, or if it is in progress and began after ``stale_before``.

    A failed audit can be reserved again without this wait.
    """
    now = utils.utcnow()
    if engine.insert_ignore(conn, task_log, {
            'host': host, 'period_beginning': period[0], 'period_ending': period[1], 'state': RUNNING,
            'updated_at': now, 'task_items': 0, 'errors': 0, 'message': ''}).rowcount:
        return True
    return bool(conn.execute(sa.update(task_log).where(
        _which(host, period), task_log.c.state == RUNNING,
        sa.or_(task_log.c.errors > 0, task_log.c.updated_at < stale_before)).values(
            errors=0, updated_at=now)).rowcount)


def end(conn: sa.Connection, host: str, period: Period, items: int, errors: int, message: str) -> None:
    """Record the result of an audit that is in progress. An audit with errors is not done."""
    conn.execute(sa.update(task_log).where(_which(host, period), task_log.c.state == RUNNING).values(
        state=RUNNING if errors else DONE, updated_at=utils.utcnow(), task_items=items, errors=errors,
        message=message[:255]))


def of_period(conn: sa.Connection, period: Period) -> dict[str, TaskLogRow]:
    """Return {host: row of its audit} for a period."""
    c = task_log.c
    return {row['host']: row for row in statements.dicts(conn.execute(sa.select(task_log).where(
        c.period_beginning == period[0], c.period_ending == period[1])))}


def expire(conn: sa.Connection, before: datetime.datetime) -> None:
    """Delete audits of periods that ended before a time."""
    conn.execute(sa.delete(task_log).where(task_log.c.period_ending < before))
