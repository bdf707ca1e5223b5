"""Retention of the actions and moves of existing servers. Those of deleted servers are in the history."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova.db.moves import migrations as moves
from nova.db.tables.cell import instance_action_events
from nova.db.tables.cell import instance_actions
from nova.db.tables.cell import migrations

BATCH = 500              # rows of one transaction
SERVERS = 1000           # servers of one search
FIRST = 'create'         # name of the action that is always kept, because it shows the creator of a server
# Conditions on removable rows: no service works on them or needs them. An evacuation in status 'done' is needed,
# because its source host may still have the guest.
_OVER: dict[sa.Table, sa.ColumnElement[bool]] = {
    instance_actions: sa.and_(instance_actions.c.finished_at.is_not(None), instance_actions.c.action != FIRST),
    migrations: sa.and_(migrations.c.status.in_([each for each in moves.OVER if each != 'done']),
                        migrations.c.held_host.is_(None))}
TABLES: tuple[sa.Table, ...] = tuple(_OVER)


def newest(conn: sa.Connection, table: sa.Table) -> int:
    """Return the highest id, or 0."""
    return int(conn.execute(sa.select(sa.func.coalesce(sa.func.max(table.c.id), 0))).scalar_one())


def with_more(conn: sa.Connection, table: sa.Table, kept: int, after: int) -> list[str]:
    """Return at most SERVERS servers that have more than ``kept`` removable rows and a row with an id above ``after``.

    ``trim`` removes at least one row of each server, so that the search makes progress.
    """
    statement = sa.select(table.c.instance_uuid).where(_OVER[table]).group_by(table.c.instance_uuid).having(
        sa.func.count() > kept).limit(SERVERS)
    if after:
        statement = statement.where(table.c.instance_uuid.in_(
            sa.select(table.c.instance_uuid).where(table.c.id > after).distinct()))
    return list(conn.execute(statement).scalars())


def trim(conn: sa.Connection, table: sa.Table, uuid: str, kept: int) -> int:
    """Delete the oldest rows of a server if it has more than ``kept``; return the number of deleted rows, at most
    BATCH.
    """
    own: Any = table.c.instance_uuid == uuid
    last = conn.execute(sa.select(table.c.id).where(own).order_by(table.c.id.desc()).offset(kept).limit(1)).scalar()
    if last is None:
        return 0
    old = list(conn.execute(sa.select(table.c.id).where(own, table.c.id <= last, _OVER[table]).order_by(
        table.c.id).limit(BATCH)).scalars())
    if old and table is instance_actions:
        conn.execute(sa.delete(instance_action_events).where(instance_action_events.c.action_id.in_(old)))
    if old:
        conn.execute(sa.delete(table).where(table.c.id.in_(old)))
    return len(old)
