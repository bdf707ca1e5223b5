"""Live migrations and evacuations in progress: rows of the migrations table (see db/moves/migrations.py).

The ``arguments`` of a live migration's row:
    host, block_migration, disk_over_commit, force    parameters of the request
    facts, connector       facts that the hosts report; volume connector of the destination
    volumes                {block device uuid: {'attachment_id', 'connection_info'}} created for the destination
    abort, complete        True if an abort or a forced completion was requested
The ``arguments`` of an evacuation's row: host, force, on_shared_storage, leave_stopped, interrupted (destination of an
interrupted live migration of the server).
"""
from datetime import datetime
from typing import Any, cast

import sqlalchemy as sa

from nova import exception
from nova import states
from nova.db.moves import migrations as server_migrations
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import cell as t
from nova.db.tables.rows import MigrationsRow
from nova.db.types import ColumnValue
from nova.objects.faults import Fault


def open_of(conn: sa.Connection, uuid: str, migration_type: str) -> MigrationsRow | None:
    """Return a server's unfinished move of this type, or None."""
    found = [row for row in server_migrations.open_of(conn, uuid) if row['migration_type'] == migration_type]
    return found[-1] if found else None


def note(conn: sa.Connection, migration_id: int, expect: tuple[str, ...], changes: dict[str, Any], /,
         **values: ColumnValue) -> MigrationsRow:
    """Add arguments and set columns of a move if its status is one of ``expect``; return the row.

    :raises InvalidMigrationState: the move has another status
    """
    row = server_migrations.get(conn, migration_id, lock=True)
    if row['status'] not in expect:
        raise exception.InvalidMigrationState(migration_id=migration_id, instance_id=row['instance_uuid'],
                                              state=row['status'], method='go on')
    values['arguments'] = row['arguments'] | changes
    server_migrations.update(conn, migration_id, values)
    return cast('MigrationsRow', {**row, **values})


def end(conn: sa.Connection, migration: MigrationsRow, status: str, *, event: str, host: str | None,
        fault: Fault | None = None, traceback: str | None = None) -> bool:
    """End a live migration that did not reach its destination: make the server idle and release the claim.

    :param status: new status of the row
    :returns: False if the move was finished before
    """
    uuid = migration['instance_uuid']
    instances.lock(conn, uuid)
    row = server_migrations.get(conn, migration['id'], lock=True)
    if row['status'] in server_migrations.OVER or row['claims_swapped']:
        return False
    server_migrations.release(conn, row['id'], status=status)
    values = {'task_state': None, 'progress': 0, **({'fault': fault} if fault else {})}
    if instances.set_where(conn, uuid, values, {'task_state': states.MIGRATING, 'host': row['source_compute']}):
        instance_actions.finish(conn, uuid, event, host=host, error=fault['message'] if fault else None,
                                traceback=traceback, background=False)
    return True


def list_evacuated(conn: sa.Connection, host: str) -> list[dict[str, Any]]:
    """Return [{'id', 'instance_uuid', 'over', 'home', 'generation', 'shared'}]: evacuations that a host must clean up.

    ``over``: whether the evacuation is done; otherwise another host is still building the server. ``home``: whether the
    server is on this host again. Servers with an open move to this host are left out: their disks may have arrived.
    """
    c, back = t.migrations.c, t.migrations.alias()
    arriving = sa.exists().where(back.c.instance_uuid == c.instance_uuid, back.c.dest_compute == host,
                                 back.c.status.not_in(server_migrations.OVER))
    statement = (sa.select(c.id, c.instance_uuid, c.status, c.arguments, t.instances.c.host, t.instances.c.generation)
                 .select_from(t.migrations.outerjoin(t.instances, t.instances.c.uuid == c.instance_uuid))
                 .where(c.source_compute == host, c.migration_type == server_migrations.EVACUATION,
                        ~arriving, c.status.in_(('done', *server_migrations.OPEN)),
                        sa.or_(c.status == 'done', c.claims_swapped.is_(sa.true()))).order_by(c.id))
    return [{'id': row.id, 'instance_uuid': row.instance_uuid, 'over': row.status == 'done', 'home': row.host == host,
             'generation': row.generation,
             'shared': bool(row.arguments.get('on_shared_storage'))} for row in conn.execute(statement)]


def expedite(conn: sa.Connection, deadline: datetime) -> None:
    """Set an earlier deadline for moves for which a conductor has not chosen a destination yet.

    Moves in progress on a host are excluded, because the host recovers them.
    """
    waiting = sa.select(t.migrations.c.instance_uuid).where(t.migrations.c.status == 'accepted')
    c = t.instance_actions.c
    conn.execute(sa.update(t.instance_actions).where(
        c.finished_at.is_(None), c.deadline > deadline, c.instance_uuid.in_(waiting)).values(deadline=deadline))
