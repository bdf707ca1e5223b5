"""Maintenance of hosts: a row with the status of a host's last maintenance, and a row for each affected server.

    draining      the host is disabled, its servers are being moved to other hosts of the aggregate
    maintenance   all servers have been moved
    incomplete    some servers remain; ``message`` and the ``reason`` of each failed server explain why
    rebalancing   the host is enabled again, moved servers are being moved back
    ended         all moved servers are back, or could not be moved back

A server's row has a direction, ``away`` or ``back``, and a state: ``waiting``, ``moving``, ``moved``, ``failed``,
``skipped`` (not moved, no further attempt) or ``deleted``. Every function takes a connection in a transaction.
``start``, ``stop``, ``begin_move`` and ``end_phase`` lock the maintenance's row, to exclude concurrent changes.
"""
import collections
from datetime import datetime
import uuid as uuidlib

import sqlalchemy as sa

from nova import exception
from nova.json_types import JsonDocument
from nova import utils
from nova.actions import Action
from nova.context import RequestContext
from nova.db import statements
from nova.db.moves import migrations as server_migrations
from nova.db.servers import tasks
from nova.db.services import services
from nova.db.tables import cell as t
from nova.db.tables.cell import host_maintenance_servers as servers
from nova.db.tables.cell import host_maintenances as table
from nova.db.tables.rows import HostMaintenanceServersRow, HostMaintenancesRow, MigrationsRow
from nova.db.types import ColumnValues

DRAINING, MAINTENANCE, INCOMPLETE, REBALANCING, ENDED = (
    'draining', 'maintenance', 'incomplete', 'rebalancing', 'ended')
AWAY, BACK = 'away', 'back'
WAITING, MOVING, MOVED, FAILED, SKIPPED, DELETED = 'waiting', 'moving', 'moved', 'failed', 'skipped', 'deleted'
STATES = (WAITING, MOVING, MOVED, FAILED, SKIPPED, DELETED)
DIRECTION = {DRAINING: AWAY, REBALANCING: BACK}      # {status in which servers are moved: direction}


# ---- requests ------------------------------------------------------------

def start(conn: sa.Connection, ctx: RequestContext, host: str, aggregate_id: int, reason: str) -> HostMaintenancesRow:
    """Disable a host and schedule the moves of its servers, unless a maintenance is in progress; return the row.

    :param reason: why the host is disabled, for administrators
    :raises ComputeHostNotFound: the host has no compute service
    :raises HostInMaintenance: the host is in maintenance in another aggregate
    """
    service = _lock_service(conn, host)
    row, now = _of_host(conn, host), utils.utcnow()
    if row is not None and row['status'] != ENDED:
        if row['aggregate_id'] != aggregate_id:
            raise exception.HostInMaintenance(host=host, aggregate_id=row['aggregate_id'])
        if row['status'] == DRAINING:
            return row
        _turn_away(conn, row['id'])
        changes = {'status': DRAINING, 'message': None, 'stopped_at': None, 'updated_at': now, 'next_check_at': now}
        _set(conn, row['id'], changes)
    else:
        if row is not None:
            statements.delete(conn, servers, maintenance_id=row['id'])
            statements.delete(conn, table, id=row['id'])
        conn.execute(sa.insert(table).values(
            uuid=str(uuidlib.uuid4()), host=host, aggregate_id=aggregate_id, status=DRAINING, created_at=now,
            updated_at=now, next_check_at=now, project_id=ctx.project_id, user_id=ctx.user_id))
    services.update(conn, service['id'], {'disabled': True, 'disabled_reason': reason})
    started = _of_host(conn, host)
    assert started is not None                   # inserted above
    add_servers(conn, started)
    return started


def stop(conn: sa.Connection, host: str, aggregate_id: int) -> HostMaintenancesRow | None:
    """Enable a host and schedule the return of moved servers, unless it is already scheduled; return the row.

    :raises ComputeHostNotFound: the host has no compute service
    :raises HostNotInMaintenance: the host is not in maintenance in this aggregate
    """
    service = _lock_service(conn, host)
    row, now = _of_host(conn, host), utils.utcnow()
    if row is None or row['status'] == ENDED or row['aggregate_id'] != aggregate_id:
        raise exception.HostNotInMaintenance(host=host, aggregate_id=aggregate_id)
    if row['status'] == REBALANCING:
        return row
    mine = servers.c.maintenance_id == row['id']
    conn.execute(sa.update(servers).where(mine, servers.c.state.in_((WAITING, FAILED))).values(
        state=SKIPPED, updated_at=now))
    conn.execute(sa.update(servers).where(mine, servers.c.state == MOVED, servers.c.dest.is_not(None)).values(
        direction=BACK, state=WAITING, reason=None, updated_at=now))
    _set(conn, row['id'], {'status': REBALANCING, 'message': None, 'stopped_at': now, 'updated_at': now,
                           'next_check_at': now})
    services.update(conn, service['id'], {'disabled': False, 'disabled_reason': None})
    return _of_host(conn, host)


def aggregate_of(conn: sa.Connection, host: str) -> int | None:
    """Return the aggregate in which a host is being maintained, or None."""
    row = _of_host(conn, host)
    return None if row is None or row['status'] in (REBALANCING, ENDED) else row['aggregate_id']


def forget(conn: sa.Connection, host: str) -> None:
    """Remove the maintenance of a deleted host."""
    row = _of_host(conn, host, lock=True)
    if row is not None:
        statements.delete(conn, servers, maintenance_id=row['id'])
        statements.delete(conn, table, id=row['id'])


def _turn_away(conn: sa.Connection, maintenance_id: int) -> None:
    """Prepare another drain: servers that have not returned count as moved; rows with other results are removed."""
    mine, now = servers.c.maintenance_id == maintenance_id, utils.utcnow()
    conn.execute(sa.update(servers).where(mine, servers.c.direction == BACK, servers.c.state.in_(
        (WAITING, FAILED))).values(direction=AWAY, state=MOVED, reason=None, updated_at=now))
    conn.execute(sa.delete(servers).where(mine, sa.or_(
        servers.c.state.in_((FAILED, SKIPPED, DELETED)),
        sa.and_(servers.c.direction == BACK, servers.c.state == MOVED))))


def _lock_service(conn: sa.Connection, host: str) -> sa.RowMapping:
    """Return the compute service of a host; the lock of its row serializes start and stop.

    :raises ComputeHostNotFound: the host has no compute service
    """
    c = t.services.c
    row = conn.execute(sa.select(t.services).where(c.host == host, c.topic == 'compute')
                       .with_for_update()).mappings().first()
    if row is None:
        raise exception.ComputeHostNotFound(host=host)
    return row


def _of_host(conn: sa.Connection, host: str, lock: bool = False) -> HostMaintenancesRow | None:
    statement = sa.select(table).where(table.c.host == host)
    row = conn.execute(statement.with_for_update() if lock else statement).mappings().first()
    return None if row is None else statements.to_dict(row)


def _set(conn: sa.Connection, maintenance_id: int, values: ColumnValues) -> None:
    statements.update(conn, table, values, id=maintenance_id)


# ---- views -----------------------------------------------------------

class Counted(HostMaintenancesRow):
    """A maintenance with the number of its servers in each state."""

    counts: dict[str, int]


class Whole(Counted):
    """A maintenance with its servers."""

    servers: list[HostMaintenanceServersRow]


def of_aggregate(conn: sa.Connection, aggregate_id: int) -> list[Counted]:
    """Return the maintenances in an aggregate, sorted by host name."""
    return _counted(conn, statements.dicts(conn.execute(sa.select(table).where(
        table.c.aggregate_id == aggregate_id).order_by(table.c.host))))


def of_host(conn: sa.Connection, host: str, aggregate_id: int) -> Whole | None:
    """Return the maintenance of a host in an aggregate, or None."""
    row = _of_host(conn, host)
    if row is None or row['aggregate_id'] != aggregate_id:
        return None
    return {**_counted(conn, [row])[0], 'servers': statements.rows(
        conn, servers, ('instance_uuid',), maintenance_id=row['id'])}


def _counted(conn: sa.Connection, rows: list[HostMaintenancesRow]) -> list[Counted]:
    counts = {row['id']: dict.fromkeys(STATES, 0) for row in rows}
    for number, state, count in conn.execute(
            sa.select(servers.c.maintenance_id, servers.c.state, sa.func.count())
            .where(servers.c.maintenance_id.in_(counts)).group_by(servers.c.maintenance_id, servers.c.state)):
        counts[number][state] = count
    return [{**row, 'counts': counts[row['id']]} for row in rows]


# ---- conductor ------------------------------------------------------

def due(conn: sa.Connection, now: datetime) -> list[HostMaintenancesRow]:
    """Return the maintenances that a conductor should process now."""
    return statements.dicts(conn.execute(
        sa.select(table).where(table.c.next_check_at <= now).order_by(table.c.next_check_at)))


def take(conn: sa.Connection, row: HostMaintenancesRow, until: datetime) -> bool:
    """Reserve a maintenance for the caller until ``until``; return False if another process has reserved it."""
    return bool(conn.execute(sa.update(table).where(
        table.c.id == row['id'], table.c.next_check_at == row['next_check_at']).values(next_check_at=until)).rowcount)


def look_again(conn: sa.Connection, maintenance_id: int, moment: datetime) -> None:
    """Schedule the next processing, unless the maintenance has ended."""
    conn.execute(sa.update(table).where(table.c.id == maintenance_id, table.c.next_check_at.is_not(None)).values(
        next_check_at=moment))


def in_state(conn: sa.Connection, maintenance_id: int, state: str,
             limit: int | None = None) -> list[HostMaintenanceServersRow]:
    """Return the rows of the servers in a state; those changed least recently are first."""
    statement = sa.select(servers).where(servers.c.maintenance_id == maintenance_id, servers.c.state == state)
    return statements.dicts(conn.execute(statement.order_by(
        servers.c.updated_at, servers.c.instance_uuid).limit(limit)))


def add_servers(conn: sa.Connection, row: HostMaintenancesRow) -> int:
    """Add, in state waiting, the servers that are on the host now; return the number of added servers."""
    here = set(conn.execute(sa.select(t.instances.c.uuid).where(t.instances.c.host == row['host'])).scalars())
    known = {found.instance_uuid: found for found in conn.execute(
        sa.select(servers.c.instance_uuid, servers.c.state).where(servers.c.maintenance_id == row['id']))}
    now, new = utils.utcnow(), sorted(here - known.keys())
    again = [uuid for uuid in here & known.keys() if known[uuid].state in (MOVED, SKIPPED, DELETED)]
    values = {'direction': AWAY, 'state': WAITING, 'reason': None, 'dest': None, 'updated_at': now}
    if new:
        conn.execute(sa.insert(servers), [
            {'maintenance_id': row['id'], 'instance_uuid': uuid, **values} for uuid in new])
    if again:
        conn.execute(sa.update(servers).where(
            servers.c.maintenance_id == row['id'], servers.c.instance_uuid.in_(again)).values(**values))
    return len(new) + len(again)


def begin_move(conn: sa.Connection, ctx: RequestContext, row: HostMaintenancesRow, entry: HostMaintenanceServersRow,
               action: Action, kind: str, status: str, arguments: JsonDocument, at_once: int) -> bool:
    """Begin the move of a waiting server if fewer than ``at_once`` are moving; return whether it has begun.

    :param row: row of the maintenance as last read
    :param entry: row of the server
    :param action: action from actions.ACTIONS
    :param kind, status: type and status of the move
    :raises Conflict, InstanceNotFound: the server cannot be moved now; nothing was changed
    """
    now = _of_host(conn, row['host'], lock=True)
    moving = conn.execute(sa.select(sa.func.count()).where(
        servers.c.maintenance_id == row['id'], servers.c.state == MOVING)).scalar_one()
    if now is None or now['id'] != row['id'] or now['status'] != row['status'] or moving >= at_once:
        return False
    if not _mark(conn, entry, {'state': MOVING}, WAITING):
        return False
    server = tasks.begin(conn, ctx, entry['instance_uuid'], action, values={'progress': 0}, admin=True)
    if row['status'] == DRAINING and server['host'] != row['host']:
        raise exception.InstanceChanged(instance_id=server['uuid'])
    old = {} if kind == server_migrations.LIVE_MIGRATION else {
        'old_vm_state': server['vm_state'], 'ignored_hosts': [server['host']]}
    move = server_migrations.create(conn, ctx, server, kind, status, arguments={**old, **arguments})
    _mark(conn, entry, {'migration_id': move['id'], 'dest': None}, MOVING)
    return True


def settle(conn: sa.Connection, row: HostMaintenancesRow, entry: HostMaintenanceServersRow, state: str,
           reason: str | None = None, dest: str | None = None) -> bool:
    """Record the result for a waiting or moving server; return whether it was still in that state.

    If ``stop`` or ``start`` reversed the direction during the move, a moved server is queued for the new direction.
    """
    now = _of_host(conn, row['host'], lock=True)
    direction = now and DIRECTION.get(now['status'])
    values = {'state': state, 'reason': reason, 'dest': dest if dest is not None else entry['dest']}
    if entry['direction'] != direction and now is not None and now['id'] == row['id']:
        if state == MOVED and direction == BACK:
            values = {**values, 'direction': BACK, 'state': WAITING}
        elif state == MOVED and direction == AWAY:
            values = {**values, 'direction': AWAY, 'state': WAITING, 'dest': None}
        elif state == FAILED and direction == AWAY:       # the server's return failed, so it is still away
            values = {**values, 'direction': AWAY, 'state': MOVED, 'reason': None}
        elif state == FAILED:
            values['state'] = SKIPPED
    return _mark(conn, entry, values, entry['state'])


def _mark(conn: sa.Connection, entry: HostMaintenanceServersRow, values: ColumnValues, expect: str) -> bool:
    return bool(statements.update(
        conn, servers, {**values, 'updated_at': utils.utcnow()}, maintenance_id=entry['maintenance_id'],
        instance_uuid=entry['instance_uuid'], direction=entry['direction'], state=expect))


def postpone(conn: sa.Connection, entry: HostMaintenanceServersRow) -> None:
    """Move a busy server to the end of the queue."""
    _mark(conn, entry, {}, WAITING)


def end_phase(conn: sa.Connection, row: HostMaintenancesRow) -> HostMaintenancesRow | None:
    """End draining or rebalancing if no server is waiting or moving; return the new row, or None if work remains."""
    now = _of_host(conn, row['host'], lock=True)
    if now is None or now['id'] != row['id'] or now['status'] != row['status']:
        return None
    draining = now['status'] == DRAINING
    if draining and (add_servers(conn, now) or _coming(conn, now['host'])):
        return None
    counts = _counted(conn, [now])[0]['counts']
    if counts[WAITING] or counts[MOVING]:
        return None
    failed = in_state(conn, now['id'], FAILED)
    status = ENDED if not draining else INCOMPLETE if failed else MAINTENANCE
    message = _sentence(now['host'], draining, failed, sum(counts.values()) - counts[DELETED])
    _set(conn, now['id'], {'status': status, 'message': message, 'updated_at': utils.utcnow(), 'next_check_at': None})
    return _of_host(conn, now['host'])


def _coming(conn: sa.Connection, host: str) -> bool:
    """Tell whether a server is moving to the host and has not arrived yet."""
    return conn.execute(sa.select(t.migrations.c.id).where(
        t.migrations.c.claimed_host == host, t.migrations.c.claims_swapped.is_(sa.false()),
        t.migrations.c.status.not_in(server_migrations.OVER)).limit(1)).first() is not None


def _sentence(host: str, draining: bool, failed: list[HostMaintenanceServersRow], total: int) -> str | None:
    if not failed:
        return None
    what = f'stay on host {host}' if draining else f'have not come back to host {host}'
    reasons = collections.Counter(entry['reason'] or '' for entry in failed).most_common()
    return f'{len(failed)} of {total} servers {what}: ' + ' '.join(
        f'{count} because: {reason.rstrip(".")}.' for reason, count in reasons)


def moves(conn: sa.Connection, entries: list[HostMaintenanceServersRow]) -> dict[int, MigrationsRow]:
    """Return {migration id: row} of the last move of each server in ``entries``."""
    numbers = [entry['migration_id'] for entry in entries if entry['migration_id'] is not None]
    return {row['id']: statements.to_dict(row) for row in conn.execute(
        sa.select(t.migrations).where(t.migrations.c.id.in_(numbers))).mappings()} if numbers else {}
