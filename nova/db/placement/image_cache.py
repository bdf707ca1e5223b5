"""Requests to prefetch images on hosts. There is one row for each host and image, with the result.

The state is ``waiting`` until the host responds, then ``cached`` or ``failed`` with a reason. Results are deleted after
``RETENTION``.
"""
from collections.abc import Collection, Sequence
import datetime
from typing import Any

import sqlalchemy as sa

from nova import utils
from nova.context import RequestContext
from nova.db import engine
from nova.db import statements
from nova.db.tables.cell import image_cache_tasks as table
from nova.db.tables.rows import ImageCacheTasksRow

PAGE = 1000
RETENTION = datetime.timedelta(days=1)      # retention of results
WAITING, CACHED, FAILED = 'waiting', 'cached', 'failed'
STATES = (WAITING, CACHED, FAILED)
UNABLE = 'The host cannot fetch images ahead of time.'
SILENT = 'The host did not fetch the image in time.'


def add(conn: sa.Connection, ctx: RequestContext, hosts: list[str], image_ids: list[str], deadline_s: int,
        unable: Collection[Any] = ()) -> None:
    """Insert requests that hosts prefetch images. A pending request is not inserted again.

    :param deadline_s: seconds after which a pending request is sent again
    :param unable: hosts without this feature; their requests are recorded as failed
    """
    now = utils.utcnow()
    conn.execute(sa.delete(table).where(
        table.c.host.in_([*hosts, *unable]), table.c.image_id.in_(image_ids), table.c.state != WAITING))
    shared = {'request_id': ctx.request_id, 'project_id': ctx.project_id, 'user_id': ctx.user_id, 'created_at': now}
    pending = {'state': WAITING, 'reason': None, 'finished_at': None,
             'deadline': now + datetime.timedelta(seconds=deadline_s)}
    noted = {'state': FAILED, 'reason': UNABLE, 'finished_at': now, 'deadline': now}
    rows = [{'host': host, 'image_id': image_id, **shared, **values}
            for some, values in ((hosts, pending), (unable, noted)) for host in some for image_id in image_ids]
    if rows:
        engine.insert_many_ignore(conn, table, rows)


def done(conn: sa.Connection, host: str, image_id: str, reason: str | None = None) -> None:
    """Record the success of a host, or the reason of its permanent failure."""
    conn.execute(sa.update(table).where(table.c.host == host, table.c.image_id == image_id).values(
        state=FAILED if reason else CACHED, reason=reason, finished_at=utils.utcnow()))


def overdue(conn: sa.Connection, now: datetime.datetime) -> list[ImageCacheTasksRow]:
    """Return the requests with an expired deadline, oldest first."""
    statement = (sa.select(table).where(table.c.deadline < now, table.c.state == WAITING)
                 .order_by(table.c.id).limit(PAGE))
    return statements.dicts(conn.execute(statement))


def postpone(conn: sa.Connection, ids: list[int], deadline: datetime.datetime) -> None:
    conn.execute(sa.update(table).where(table.c.id.in_(ids)).values(deadline=deadline))


def give_up(conn: sa.Connection, ids: list[int]) -> None:
    """Mark requests as failed after the last attempt."""
    conn.execute(sa.update(table).where(table.c.id.in_(ids), table.c.state == WAITING).values(
        state=FAILED, reason=SILENT, finished_at=utils.utcnow()))


def expire(conn: sa.Connection, now: datetime.datetime) -> None:
    """Delete results older than RETENTION."""
    conn.execute(sa.delete(table).where(table.c.state != WAITING, table.c.finished_at < now - RETENTION))


def progress(conn: sa.Connection, hosts: list[str] | tuple[str, ...]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return ([(image id, state, number of hosts)], failures [(image id, host, reason)]) of these hosts."""
    mine = table.c.host.in_(hosts)
    numbers = conn.execute(sa.select(table.c.image_id, table.c.state, sa.func.count()).where(mine).group_by(
        table.c.image_id, table.c.state)).all()
    failures = conn.execute(sa.select(table.c.image_id, table.c.host, table.c.reason).where(
        mine, table.c.state == FAILED).order_by(table.c.image_id, table.c.host).limit(PAGE)).all()
    return numbers, failures
