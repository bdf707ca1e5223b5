"""Queries for image tasks, which record the imports of images."""
from collections.abc import Mapping

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import statements
from nova.db.tables import image as t
from nova.db.tables.rows import ImageTasksRow
from nova.db.types import ColumnValues

_TASKS, _C = t.image_tasks, t.image_tasks.c
_UNFINISHED = _C.status.in_(('pending', 'processing'))


def insert(conn: sa.Connection, values: ImageTasksRow, keep: int) -> None:
    """Insert a task of an image, and delete the image's oldest tasks if it has more than ``keep``.

    :param keep: number of tasks that an image keeps
    """
    conn.execute(statements.insert(_TASKS), values)
    for row in of_image(conn, values['image_id'])[:-keep]:
        statements.delete(conn, _TASKS, id=row['id'])


def update(conn: sa.Connection, task_id: str, values: ColumnValues) -> None:
    statements.update(conn, _TASKS, values, id=task_id)


def of_image(conn: sa.Connection, image_id: str) -> list[ImageTasksRow]:
    """Return the tasks of an image, oldest first."""
    return statements.dicts(conn.execute(
        sa.select(_TASKS).where(_C.image_id == image_id).order_by(_C.created_at, _C.id)))


def page(conn: sa.Connection, owner: str | None, match: Mapping[str, str], limit: int | None = None,
         marker: str | None = None) -> list[ImageTasksRow]:
    """Return the tasks that have the column values ``match``, newest first.

    :param owner: a project; None: all
    :param marker: id of the task before the page
    :raises InvalidMarker: the marker is not one of these tasks
    """
    query = sa.select(_TASKS).filter_by(**match, **({} if owner is None else {'owner': owner}))
    if marker is not None:
        last = conn.execute(query.where(_C.id == marker)).mappings().first()
        if last is None:
            raise exception.InvalidMarker(marker=marker)
        query = query.where(sa.or_(_C.created_at < last['created_at'],
                                   sa.and_(_C.created_at == last['created_at'], _C.id < last['id'])))
    return statements.dicts(conn.execute(query.order_by(_C.created_at.desc(), _C.id.desc()).limit(limit)))


def end_interrupted(conn: sa.Connection, message: str) -> None:
    """End unfinished tasks: with success if the image has data, otherwise with failure and this message."""
    stored = sa.exists().where(t.images.c.id == _C.image_id, t.images.c.data_id.is_not(None))
    for condition, values in ((stored, {'status': 'success'}), (sa.true(), {'status': 'failure', 'message': message})):
        conn.execute(sa.update(_TASKS).where(_UNFINISHED, condition).values(**values, updated_at=utils.utcnow()))
