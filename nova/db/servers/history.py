"""The history of deleted servers, and the retention of the actions and moves of existing servers.

changes-since, deleted=true and usage reports read the history. Rows of the history expire automatically.
"""
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nova import exception
from nova import states
from nova.db import statements
from nova.db.tables import cell as t
from nova.db.tables.rows import InstancesRow

BATCH = 500              # maximum number of rows that one transaction deletes
SERVERS = 1000           # maximum number of servers that one search returns
FIRST = 'create'         # name of the action that is always kept, because it shows the creator of a server
# Conditions that select the rows that no service needs any more. An evacuation in status 'done' is still
# needed, because the source host may still have the guest.
_OVER: dict[sa.Table, sa.ColumnElement[bool]] = {
    t.instance_actions: sa.and_(t.instance_actions.c.finished_at.is_not(None), t.instance_actions.c.action != FIRST),
    t.migrations: sa.and_(t.migrations.c.status.in_([each for each in states.ENDED_MOVES if each != 'done']),
                          t.migrations.c.claimed_host.is_(None))}
TABLES: tuple[sa.Table, ...] = tuple(_OVER)
# Condition on rows of the history: a host may still have the guest, and asks about it when it returns. The server was
# evacuated from it, or was deleted while it was down.
NEEDED_BY_HOST = sa.or_(
    sa.exists().where(t.migrations.c.instance_uuid == t.instances_history.c.uuid,
                      t.migrations.c.migration_type == 'evacuation', t.migrations.c.status == 'done',
                      t.services.c.host == t.migrations.c.source_compute, t.services.c.topic == 'compute'),
    sa.exists().where(t.services.c.host == t.instances_history.c.host, t.services.c.topic == 'compute',
                      t.services.c.last_seen_at < t.instances_history.c.deleted_at))


def get(conn: sa.Connection, uuid: str) -> InstancesRow:
    """Return the row of a deleted server.

    :raises InstanceNotFound: the server is not in the history
    """
    row = conn.execute(sa.select(t.instances_history).where(t.instances_history.c.uuid == uuid)).mappings().first()
    if row is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    return statements.to_dict(row)


def deleted(conn: sa.Connection, uuids: list[str]) -> set[str]:
    """Return the subset of ``uuids`` that are in the history."""
    statement = sa.select(t.instances_history.c.uuid).where(t.instances_history.c.uuid.in_(uuids))
    return set(conn.execute(statement).scalars())


def generations(conn: sa.Connection, uuids: list[str]) -> dict[str, int]:
    """Return {uuid: generation at deletion} of the servers in the history."""
    c = t.instances_history.c
    return {row.uuid: row.generation for row in conn.execute(
        sa.select(c.uuid, c.generation).where(c.uuid.in_(uuids)))}


def expire(conn: sa.Connection, before: datetime, limit: int = BATCH) -> int:
    """Remove servers that were deleted before this time, with their actions and moves, unless a host needs them.

    :returns: number of removed servers, at most ``limit``
    """
    table = t.instances_history
    uuids = list(conn.execute(sa.select(table.c.uuid).where(table.c.deleted_at < before, sa.not_(NEEDED_BY_HOST))
                              .order_by(table.c.deleted_at).limit(limit)).scalars())
    if uuids:
        actions = sa.select(t.instance_actions.c.id).where(t.instance_actions.c.instance_uuid.in_(uuids))
        conn.execute(sa.delete(t.instance_action_events).where(t.instance_action_events.c.action_id.in_(actions)))
        conn.execute(sa.delete(t.instance_actions).where(t.instance_actions.c.instance_uuid.in_(uuids)))
        conn.execute(sa.delete(t.migrations).where(t.migrations.c.instance_uuid.in_(uuids)))
        conn.execute(sa.delete(table).where(table.c.uuid.in_(uuids)))
    return len(uuids)


# ---- retention for existing servers

def newest(conn: sa.Connection, table: sa.Table) -> int:
    """Return the highest id in a table, or 0."""
    return int(conn.execute(sa.select(sa.func.coalesce(sa.func.max(table.c.id), 0))).scalar_one())


def with_more(conn: sa.Connection, table: sa.Table, kept: int, after: int) -> list[str]:
    """Return at most SERVERS servers that have more than ``kept`` removable rows and a row with an id above ``after``.

    ``trim`` removes at least one row of each returned server, so repeated searches make progress.
    """
    statement = sa.select(table.c.instance_uuid).where(_OVER[table]).group_by(table.c.instance_uuid).having(
        sa.func.count() > kept).limit(SERVERS)
    if after:
        statement = statement.where(table.c.instance_uuid.in_(
            sa.select(table.c.instance_uuid).where(table.c.id > after).distinct()))
    return list(conn.execute(statement).scalars())


def trim(conn: sa.Connection, table: sa.Table, uuid: str, kept: int) -> int:
    """Delete removable rows of a server that are older than its newest ``kept`` rows, at most BATCH; return their
    number.
    """
    own: Any = table.c.instance_uuid == uuid
    last = conn.execute(sa.select(table.c.id).where(own).order_by(table.c.id.desc()).offset(kept).limit(1)).scalar()
    if last is None:
        return 0
    old = list(conn.execute(sa.select(table.c.id).where(own, table.c.id <= last, _OVER[table]).order_by(
        table.c.id).limit(BATCH)).scalars())
    if old and table is t.instance_actions:
        conn.execute(sa.delete(t.instance_action_events).where(t.instance_action_events.c.action_id.in_(old)))
    if old:
        conn.execute(sa.delete(table).where(table.c.id.in_(old)))
    return len(old)
