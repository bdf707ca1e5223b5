"""The history of deleted servers, for changes-since, deleted=true and usage reports. Its rows expire automatically."""
from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova import exception
from nova.db import statements
from nova.db.tables.cell import instance_action_events
from nova.db.tables.cell import instance_actions
from nova.db.tables.cell import instances_history
from nova.db.tables.cell import migrations

if TYPE_CHECKING:
    from nova.db.tables.rows import InstancesRow


def get(conn: sa.Connection, uuid: str) -> InstancesRow:
    """Return the row of a deleted server.

    :raises InstanceNotFound: the server is not in the history
    """
    row = conn.execute(sa.select(instances_history).where(instances_history.c.uuid == uuid)).mappings().first()
    if row is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    return statements.to_dict(row)


def deleted(conn: sa.Connection, uuids: list[str]) -> set[str]:
    """Return the subset of ``uuids`` that are in the history."""
    statement = sa.select(instances_history.c.uuid).where(instances_history.c.uuid.in_(uuids))
    return set(conn.execute(statement).scalars())


def generations(conn: sa.Connection, uuids: list[str]) -> dict[str, int]:
    """Return {uuid: generation at deletion} of the servers in the history."""
    c = instances_history.c
    return {row.uuid: row.generation for row in conn.execute(
        sa.select(c.uuid, c.generation).where(c.uuid.in_(uuids)))}


def expire(conn: sa.Connection, before: datetime, limit: int = 500) -> int:
    """Delete servers deleted before this time with their actions; return the number of servers, at most ``limit``."""
    table = instances_history
    uuids = list(conn.execute(sa.select(table.c.uuid).where(table.c.deleted_at < before)
                              .order_by(table.c.deleted_at).limit(limit)).scalars())
    if uuids:
        actions = sa.select(instance_actions.c.id).where(instance_actions.c.instance_uuid.in_(uuids))
        conn.execute(sa.delete(instance_action_events).where(instance_action_events.c.action_id.in_(actions)))
        conn.execute(sa.delete(instance_actions).where(instance_actions.c.instance_uuid.in_(uuids)))
        conn.execute(sa.delete(migrations).where(migrations.c.instance_uuid.in_(uuids)))
        conn.execute(sa.delete(table).where(table.c.uuid.in_(uuids)))
    return len(uuids)
