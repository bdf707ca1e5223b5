"""Images that hosts were asked to fetch ahead of time: rows until the host has said what became of it."""
import datetime

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db.tables_placement import image_cache_tasks

PAGE = 1000


def add(conn, ctx, hosts, image_ids, deadline_s):
    """Ask hosts to fetch images; what they were asked already is asked once.

    :param deadline_s: seconds after which a host that said nothing is asked again
    """
    now = utils.utcnow()
    for host in hosts:
        for image_id in image_ids:
            engine.insert_ignore(conn, image_cache_tasks, {
                'host': host, 'image_id': image_id, 'request_id': ctx.request_id, 'project_id': ctx.project_id,
                'user_id': ctx.user_id, 'created_at': now,
                'deadline': now + datetime.timedelta(seconds=deadline_s)})


def done(conn, host, image_id):
    """The host has it, or never will."""
    conn.execute(sa.delete(image_cache_tasks).where(
        image_cache_tasks.c.host == host, image_cache_tasks.c.image_id == image_id))


def overdue(conn, now):
    """Rows of which the host has said nothing in time, oldest first."""
    statement = (sa.select(image_cache_tasks).where(image_cache_tasks.c.deadline < now)
                 .order_by(image_cache_tasks.c.id).limit(PAGE))
    return [dict(row) for row in conn.execute(statement).mappings()]


def postpone(conn, ids, deadline):
    conn.execute(sa.update(image_cache_tasks).where(image_cache_tasks.c.id.in_(ids)).values(deadline=deadline))


def remove(conn, ids):
    conn.execute(sa.delete(image_cache_tasks).where(image_cache_tasks.c.id.in_(ids)))
