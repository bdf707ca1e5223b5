"""Live migrations and evacuations in progress: what is noted of them, and who may go on with them.

Rows are those of db/moves/migrations.py; ``arguments`` of a live migration's row has

    host, block_migration, disk_over_commit, force    the request
    facts, connector       what the hosts found out, of the destination's reach to volumes
    volumes                {block device uuid: {'attachment_id', 'connection_info'}} made for the destination
    abort, complete        True: it was requested

and of an evacuation's: host, force, on_shared_storage, leave_stopped, interrupted (where a live migration was
about to bring the server).
"""
from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast, TYPE_CHECKING

import sqlalchemy as sa

from nova import exception
from nova import states
from nova.db.moves import migrations as server_migrations
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables.cell import instance_actions as actions
from nova.db.tables.cell import instances as servers
from nova.db.tables.cell import migrations

if TYPE_CHECKING:
    from nova.db.tables.rows import MigrationsRow


def open_of(conn: sa.Connection, uuid: str, migration_type: str) -> MigrationsRow | None:
    """The move of this type of a server that is not over, or None."""
    found = [row for row in server_migrations.open_of(conn, uuid) if row['migration_type'] == migration_type]
    return found[-1] if found else None


def note(conn: sa.Connection, migration_id: int, expect: tuple[str, ...], changes: dict[str, Any], /,
         **values: Any) -> MigrationsRow:
    """Add to a move's arguments, and set other columns, while its status is one of ``expect``; its row then.

    :raises InvalidMigrationState: it is not
    """
    row = server_migrations.get(conn, migration_id, lock=True)
    if row['status'] not in expect:
        raise exception.InvalidMigrationState(migration_id=migration_id, instance_id=row['instance_uuid'],
                                              state=row['status'], method='go on')
    values = {**values, 'arguments': {**row['arguments'], **changes}}
    server_migrations.update(conn, migration_id, values)
    return cast('MigrationsRow', {**row, **values})


def end(conn: sa.Connection, migration: Mapping[str, Any], status: str, *, event: str, host: str | None,
        fault: dict[str, Any] | None = None, traceback: str | None = None) -> bool:
    """A live migration that has not come to its destination is over: the server is idle, the claim given back.

    :param migration: its ``id`` and its ``instance_uuid``
    :param status: of the row then
    :returns: False when it was over before, or has arrived
    """
    uuid = migration['instance_uuid']
    instances.lock(conn, uuid)
    row = server_migrations.get(conn, migration['id'], lock=True)
    if row['status'] in server_migrations.OVER or row['swapped']:
        return False
    server_migrations.release(conn, row['id'], status=status)
    values = {'task_state': None, 'progress': 0, **({'fault': fault} if fault else {})}
    if instances.set_where(conn, uuid, values, {'task_state': states.MIGRATING, 'host': row['source_compute']}):
        instance_actions.finish(conn, uuid, event, host=host, error=fault['message'] if fault else None,
                                traceback=traceback, background=False)
    return True


def evacuated_from(conn: sa.Connection, host: str) -> list[dict[str, Any]]:
    """[{'instance_uuid', 'over', 'shared', 'id'}] of evacuations from a host that it has not cleaned up after.

    ``over``: the server lives elsewhere, or is deleted; else it is being built elsewhere.
    """
    c = migrations.c
    statement = (sa.select(c.id, c.instance_uuid, c.status, c.arguments, servers.c.host, servers.c.generation)
                 .select_from(migrations.outerjoin(servers, servers.c.uuid == c.instance_uuid))
                 .where(c.source_compute == host, c.migration_type == server_migrations.EVACUATION,
                        sa.or_(c.status == 'done', c.swapped.is_(sa.true()) & c.status.not_in(
                            server_migrations.OVER))).order_by(c.id))
    return [{'id': row.id, 'instance_uuid': row.instance_uuid, 'over': row.status == 'done', 'home': row.host == host,
             'generation': row.generation,
             'shared': bool(row.arguments.get('on_shared_storage'))} for row in conn.execute(statement)]


def expedite(conn: sa.Connection, deadline: datetime) -> None:
    """Give those that a conductor was choosing a destination for this deadline, unless theirs comes first.

    What a compute works on is that host's to take up.
    """
    waiting = sa.select(migrations.c.instance_uuid).where(migrations.c.status == 'accepted')
    conn.execute(sa.update(actions).where(actions.c.finished_at.is_(None), actions.c.deadline > deadline,
                                          actions.c.instance_uuid.in_(waiting)).values(deadline=deadline))
