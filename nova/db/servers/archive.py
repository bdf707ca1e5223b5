"""Archive of deleted servers and old usage audits, and the purge of the archive.

Deleting a server moves its row to the history, where changes-since, deleted=true and usage reports find it. Archiving
moves rows from the history to shadow tables. Only administrators can read archived rows, with SQL, until the purge.
"""
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nova.db import types
from nova.db.engine import Database
from nova.db.servers import history
from nova.db.services import task_log
from nova.db.tables import cell as tables_cell
from nova.db.tables import cell as t
from nova.db.tables.shadow import SHADOWS

# servers archived in one transaction; the number keeps locks short and is within SQLite's limit of parameters
BATCH = 100
PURGE_BATCH = 1000               # rows purged in one transaction
FREE = frozenset({'pci_devices'})      # tables with rows that may have no server, such as free devices


def servers(db: Database, before: datetime | None = None, limit: int | None = None) -> dict[Any, int]:
    """Move deleted servers with their actions, events and migrations to the shadow tables, unless a host needs them.

    :param before: only servers deleted before this time
    :param limit: maximum number of servers, or None for all
    :return: {name of the table: rows moved}
    """
    moved: dict[Any, Any] = {}
    while limit is None or moved.get(t.instances_history.name, 0) < limit:
        most = BATCH if limit is None else min(BATCH, limit - moved.get(t.instances_history.name, 0))
        batch = db.run(_servers, before, most)
        for name, count in batch.items():
            moved[name] = moved.get(name, 0) + count
        if batch.get(t.instances_history.name, 0) < most:
            break
    return moved


def _servers(conn: sa.Connection, before: datetime | None, limit: int) -> dict[Any, int]:
    table = t.instances_history
    # the rows are locked, so that a second archiving process waits and then finds other rows
    statement = sa.select(table.c.id, table.c.uuid, table.c.deleted_at).where(
        table.c.deleted_at.is_not(None), sa.not_(history.NEEDED_BY_HOST)).order_by(
        table.c.deleted_at).limit(limit).with_for_update()
    if before is not None:
        statement = statement.where(table.c.deleted_at < before)
    rows = conn.execute(statement).all()
    if not rows:
        return {}
    ended_at = {row.uuid: row.deleted_at for row in rows}
    uuids = list(ended_at)
    moved = {table.name: _move(conn, table, table.c.id, {row.id: row.deleted_at for row in rows})}
    actions = _owned(conn, t.instance_actions, t.instance_actions.c.instance_uuid, uuids)
    actions = {ident: ended_at[owner] for ident, owner in actions.items()}
    events = _owned(conn, t.instance_action_events, t.instance_action_events.c.action_id, list(actions))
    events = {ident: actions[owner] for ident, owner in events.items()}
    moves = _owned(conn, t.migrations, t.migrations.c.instance_uuid, uuids)
    moves = {ident: ended_at[owner] for ident, owner in moves.items()}
    for original, keys in ((t.instance_action_events, events), (t.instance_actions, actions), (t.migrations, moves)):
        count = _move(conn, original, original.c.id, keys)
        if count:
            moved[original.name] = count
    return moved


def _chunks(values: dict[int, datetime] | list[int | str], size: int = PURGE_BATCH) -> list[list[int | str]]:
    values = list(values)
    return [values[start:start + size] for start in range(0, len(values), size)]


def _owned(conn: sa.Connection, table: sa.Table, column: sa.Column[Any], owners: list[int | str]) -> dict[int, Any]:
    """Return {id of a row: owner} of the rows with these owners in ``column``."""
    found: dict[Any, Any] = {}
    for some in _chunks(owners):
        found.update(conn.execute(sa.select(table.c.id, column).where(column.in_(some))).all())
    return found


def _move(conn: sa.Connection, original: types.Table[Any], key: sa.Column[Any], ended_at: dict[int, datetime]) -> int:
    """Move the rows with these keys to the shadow table; return the number of moved rows."""
    names = [column.name for column in original.columns]
    shadow, moved = SHADOWS[original], 0
    for some in _chunks(ended_at):
        rows = [dict(row) for row in conn.execute(sa.select(original).where(key.in_(some))).mappings()]
        conn.execute(sa.insert(shadow), [{**{name: row[name] for name in names}, 'ended_at': ended_at[row[key.name]]}
                                         for row in rows])
        moved += conn.execute(sa.delete(original).where(key.in_(some))).rowcount
    return moved


def audits(db: Database, before: datetime | None = None, limit: int | None = None) -> dict[Any, int]:
    """Move records of finished usage audits to their shadow table; see ``servers``."""
    return db.run(_audits, before, limit)


def _audits(conn: sa.Connection, before: datetime | None, limit: int | None) -> dict[Any, int]:
    table = tables_cell.task_log
    statement = sa.select(table).where(table.c.state == task_log.DONE).order_by(table.c.period_ending).with_for_update()
    if before is not None:
        statement = statement.where(table.c.period_ending < before)
    rows = [dict(row) for row in conn.execute(statement.limit(limit)).mappings()]
    if not rows:
        return {}
    conn.execute(sa.insert(SHADOWS[table]), [{**row, 'ended_at': row['period_ending']} for row in rows])
    keys = ('host', 'period_beginning', 'period_ending')
    conn.execute(sa.delete(table).where(sa.and_(*(table.c[name] == sa.bindparam(f'key_{name}') for name in keys))),
                 [{f'key_{name}': row[name] for name in keys} for row in rows])
    return {table.name: len(rows)}


def purge(db: Database, before: datetime | None = None) -> dict[Any, int]:
    """Delete all rows of the shadow tables, or those with ``ended_at`` before a time; return {name of the table: number
    of rows}.
    """
    removed = {}
    for shadow in SHADOWS.values():
        count = 0
        while (batch := db.run(_purge, shadow, before)):
            count += batch
        if count:
            removed[shadow.name] = count
    return removed


def _purge(conn: sa.Connection, shadow: sa.Table, before: datetime | None) -> int:
    statement = sa.select(shadow.c.shadow_id).order_by(shadow.c.ended_at).limit(PURGE_BATCH)
    if before is not None:
        statement = statement.where(shadow.c.ended_at < before)
    keys = list(conn.execute(statement).scalars())
    return conn.execute(sa.delete(shadow).where(shadow.c.shadow_id.in_(keys))).rowcount if keys else 0


def without_server(conn: sa.Connection, delete: bool = False) -> dict[Any, int]:
    """Count the rows with NULL as instance_uuid, and optionally delete them; return {name of the table: number of
    rows}.
    """
    found = {}
    for table in t.metadata.sorted_tables:
        if 'instance_uuid' not in table.c or table.name in FREE or table in SHADOWS.values():
            continue
        condition = table.c.instance_uuid.is_(None)
        count = conn.execute(sa.select(sa.func.count()).select_from(table).where(condition)).scalar()
        if count:
            found[table.name] = count
            if delete:
                conn.execute(sa.delete(table).where(condition))
    return found
