"""What is kept of a living server's past: its newest actions and moves. The past of a deleted one is history's."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova.db.moves import migrations as moves
from nova.db.tables.cell import instance_action_events
from nova.db.tables.cell import instance_actions
from nova.db.tables.cell import migrations

BATCH = 500              # rows of one transaction
SERVERS = 1000           # of one look
FIRST = 'create'         # who has made a server is always known
# What may go: no service works on it, and nothing else is known by it. An evacuation that is 'done' says that its
# source may still have the guest.
_OVER = {
    instance_actions: sa.and_(instance_actions.c.finished_at.is_not(None), instance_actions.c.action != FIRST),
    migrations: sa.and_(migrations.c.status.in_([each for each in moves.OVER if each != 'done']),
                        migrations.c.held_host.is_(None))}
TABLES: tuple[sa.Table, ...] = tuple(_OVER)


def newest(conn: sa.Connection, table: sa.Table) -> int:
    """The highest number of a row, 0 where there is none."""
    return int(conn.execute(sa.select(sa.func.coalesce(sa.func.max(table.c.id), 0))).scalar_one())


def with_more(conn: sa.Connection, table: sa.Table, kept: int, after: int) -> list[str]:
    """Servers with more rows that may go than are kept, of those that have got one after this number; at most SERVERS.

    ``trim`` removes one row of each of them at least: they are not found again and again in the place of others.
    """
    statement = sa.select(table.c.instance_uuid).where(_OVER[table]).group_by(table.c.instance_uuid).having(
        sa.func.count() > kept).limit(SERVERS)
    if after:
        statement = statement.where(table.c.instance_uuid.in_(
            sa.select(table.c.instance_uuid).where(table.c.id > after).distinct()))
    return list(conn.execute(statement).scalars())


def trim(conn: sa.Connection, table: sa.Table, uuid: str, kept: int) -> int:
    """Remove the oldest of a server's rows beyond those kept; their number, BATCH at most."""
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
