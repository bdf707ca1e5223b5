"""Maintenance of hosts: move servers away, a few at a time, and move them back when the maintenance ends.

A periodic task of any conductor processes the rows of db/moves/maintenance.py. If a conductor dies, another conductor
continues its work after LEASE_S. Servers are moved by ordinary cold and live migrations.
"""
import datetime
import logging
import typing

from nova import actions
from nova import context
from nova.db.tables.rows import InstancesRow
from nova.db.tables.rows import MigrationsRow
from nova import exception
from nova import states
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Row
from nova.conductor.moves.cold import ColdMoves
from nova.conductor.moves.live import LiveMigrations
from nova.db.moves import maintenance
from nova.db.moves import migrations as server_migrations
from nova.db.placement import compute_nodes
from nova.db.servers import instances
from nova.db.servers import shares
from nova.db.tables.rows import HostMaintenanceServersRow
from nova.db.tables.rows import HostMaintenancesRow
from nova.objects import faults
from nova.objects import pci

LOG = logging.getLogger(__name__)

PERIOD_S = 2             # seconds between two checks of a maintenance in which servers are moved
LEASE_S = 120            # seconds for which a conductor reserves a maintenance; longer than one check

Way = tuple[actions.Action, str, str]                # (action, type of its migrations row, first status of this row)
LIVE: Way = (actions.ACTIONS['os-migrateLive'], server_migrations.LIVE_MIGRATION, 'accepted')
COLD: Way = (actions.ACTIONS['migrate'], server_migrations.MIGRATION, 'pre-migrating')
CONFIRM = 'confirm'

_AWAY_ELSEWHERE = 'The server was moved to another host in the meantime.'


def outcome(row: InstancesRow | None, move: MigrationsRow | None) -> str | None:
    """Return the result of a server's move: its new state (db/moves/maintenance.py), CONFIRM, or None while it moves.

    :param row: the server's row, or None if the server is gone
    :param move: the move's migrations row, or None if it is gone
    """
    if row is None:
        return maintenance.DELETED
    if move is None:
        return maintenance.FAILED
    if move['status'] == 'finished' and row['vm_state'] == states.RESIZED and row['task_state'] is None:
        return CONFIRM
    if move['status'] not in server_migrations.OVER:
        return None
    return maintenance.MOVED if row['host'] == move['dest_compute'] else maintenance.FAILED


def plan(row: InstancesRow | None, entry: HostMaintenanceServersRow, host: str,
         capabilities: dict[str, bool], has_shares: bool) -> tuple[str | Way, str | None]:
    """Return what to do with a waiting server: (its new state, reason) without a move, or (LIVE or COLD, None).

    :param row: the server's row, or None if the server is gone
    :param entry: the server's row in the maintenance
    :param host: host in maintenance
    :param capabilities: capabilities of the server's node
    :param has_shares: whether the server has shares
    """
    away = entry['direction'] == maintenance.AWAY
    if row is None:
        return maintenance.DELETED, None
    if away and row['host'] != host:
        return maintenance.SKIPPED, _AWAY_ELSEWHERE
    if not away and row['host'] == host:
        return maintenance.MOVED, None
    if not away and row['host'] != entry['dest']:
        return maintenance.SKIPPED, _AWAY_ELSEWHERE
    if row['task_state'] is not None:
        return maintenance.WAITING, None
    vm_state = row['vm_state']
    for way, feature in ((LIVE, 'live_migration'), (COLD, 'resize')):
        possible = capabilities.get(feature) and not (way is LIVE and pci.requested(row['flavor']))
        if possible and way[0].conditions.allows(vm_state, None):
            if has_shares and way[0].conditions.refused_with_shares:
                return maintenance.FAILED, f'It has shares: {way[0].conditions.refused_with_shares}.'
            return way, None
    if any(way[0].conditions.allows(vm_state, None) for way in (LIVE, COLD)):
        return maintenance.FAILED, f'Its host cannot move servers that are {vm_state}.'
    if vm_state == states.RESIZED:
        return maintenance.FAILED, 'Its resize waits to be confirmed or reverted.'
    return maintenance.FAILED, f'A server that is {vm_state} cannot be moved.'


class Maintenance:
    """Moves servers for maintenance of hosts."""

    def __init__(self, services: CellServices, moves: ColdMoves, live: LiveMigrations) -> None:
        self._services, self._conf, self._cell_db = services, services.conf, services.cell_db
        self._moves, self._live = moves, live

    def maintain_hosts(self) -> int:
        """Continue every maintenance that is due; return their number."""
        now = utils.utcnow()
        with self._cell_db.reader() as conn:
            rows = maintenance.due(conn, now)
        looked = 0
        for row in rows:
            if not self._cell_db.run(maintenance.take, row, now + datetime.timedelta(seconds=LEASE_S)):
                continue
            try:
                self._maintain(row)
            except exception.NovaException as error:
                LOG.warning('The maintenance of host %s is retried later: %s', row['host'], error)
            self._cell_db.run(maintenance.look_again, row['id'],
                              utils.utcnow() + datetime.timedelta(seconds=PERIOD_S))
            looked += 1
        return looked

    def _maintain(self, row: HostMaintenancesRow) -> None:
        at_once = self._conf.conductor.max_concurrent_maintenance_moves
        with self._cell_db.reader() as conn:
            moving = maintenance.in_state(conn, row['id'], maintenance.MOVING)
            rows = instances.get_many(conn, [entry['instance_uuid'] for entry in moving])
            moves = maintenance.moves(conn, moving)
        left = 0
        for each in moving:
            move = None if each['migration_id'] is None else moves.get(each['migration_id'])
            left += not self._watch_moving(row, each, rows.get(each['instance_uuid']), move)
        if row['status'] not in maintenance.DIRECTION:
            return
        if left < at_once:
            self._move_more(row, at_once)
        ended = self._cell_db.run(maintenance.end_phase, row)
        if ended is not None:
            LOG.info('The maintenance of host %s: %s.', ended['host'], ended['message'] or ended['status'])

    # ---- servers that are being moved ----

    def _watch_moving(self, maintained: HostMaintenancesRow, entry: HostMaintenanceServersRow,
                      row: InstancesRow | None, move: MigrationsRow | None) -> bool:
        """Record the result of a server's move; return whether the move is over."""
        found, reason, dest = outcome(row, move), None, None
        if found is None:
            return False
        if row is not None:
            if found == CONFIRM:
                self._confirm_moved(maintained, row['uuid'])
                return False
            if found == maintenance.MOVED:
                dest = row['host']
            elif found == maintenance.FAILED:
                reason = _reason(row, move)
        self._cell_db.run(maintenance.settle, maintained, entry, found, reason, dest)
        return True

    def _confirm_moved(self, maintained: Row, uuid: str) -> None:
        ctx = context.on_behalf_of(maintained)
        try:
            self._cell_db.run(server_migrations.begin_end, ctx, uuid, actions.ACTIONS['confirmResize'], 'confirming',
                              True)
        except exception.NovaException as error:
            LOG.info('The move of server %s is not confirmed: %s', uuid, error)  # e.g. the owner has ended the move
            return
        self._moves.continue_move(ctx, uuid)

    # ---- servers that wait ----

    def _move_more(self, row: HostMaintenancesRow, at_once: int) -> None:
        with self._cell_db.reader() as conn:
            # read more than can start now: some may be busy or deleted
            waiting = maintenance.in_state(conn, row['id'], maintenance.WAITING, 4 * at_once)
            servers = instances.get_many(conn, [entry['instance_uuid'] for entry in waiting])
            hosts = {server['host'] for server in servers.values() if server['host']} | {row['host']}
            up = {host for host in hosts if self._services.host_is_up(host, conn)}
            capabilities = {host: _capabilities(conn, host) for host in hosts}
            with_shares = shares.having(conn, servers.keys())
        if row['host'] not in up and not self._worth_waiting(row):
            self._give_up_waiting(row, waiting)
            return
        if row['host'] not in up:
            return
        for entry in waiting:
            server = servers.get(entry['instance_uuid'])
            host = None if server is None else server['host']
            what, reason = plan(server, entry, row['host'], capabilities.get(host or '', {}),
                                entry['instance_uuid'] in with_shares)
            if not isinstance(what, str) and host not in up:
                what, reason = maintenance.FAILED, f'Host {host} is down.'
            if what == maintenance.WAITING:
                self._cell_db.run(maintenance.postpone, entry)
            elif isinstance(what, str):
                self._cell_db.run(maintenance.settle, row, entry, what, reason)
            elif not self._begin_to_move(row, entry, what, at_once):
                return

    def _worth_waiting(self, row: Row) -> bool:
        """Return whether servers move back to this host, which is down but may still be starting."""
        most = datetime.timedelta(seconds=self._conf.conductor.task_deadline)
        return row['status'] == maintenance.REBALANCING and utils.utcnow() < row['stopped_at'] + most

    def _give_up_waiting(self, row: HostMaintenancesRow, waiting: list[HostMaintenanceServersRow]) -> None:
        reason = f'Host {row["host"]} is down' + (
            ': its servers can be evacuated, not moved.' if row['status'] == maintenance.DRAINING else '.')
        for entry in waiting:
            self._cell_db.run(maintenance.settle, row, entry, maintenance.FAILED, reason)

    def _begin_to_move(self, row: HostMaintenancesRow, entry: HostMaintenanceServersRow, way: Way,
                       at_once: int) -> bool:
        """Start the move of a server; return False if the maintenance has changed or ``at_once`` servers are moving."""
        # each move is a separate request
        ctx, uuid = context.on_behalf_of(row), entry['instance_uuid']
        back = entry['direction'] == maintenance.BACK
        arguments: dict[str, typing.Any] = {'host': row['host'] if back else None,
                                            'aggregate': None if back else row['aggregate_id']}
        if way is LIVE:
            arguments.update(force=False, block_migration=None, disk_over_commit=False)
        try:
            action, kind, status = way
            if not self._cell_db.run(maintenance.begin_move, ctx, row, entry, action, kind, status, arguments, at_once):
                return False
        except (exception.Conflict, exception.InstanceNotFound) as error:
            LOG.info('Server %s is not moved now: %s', uuid, error.message)  # the server has changed or is deleted
            self._cell_db.run(maintenance.postpone, entry)
            return True
        if way is LIVE:
            self._live.continue_live_migration(ctx, uuid)
        else:
            self._moves.continue_move(ctx, uuid)
        return True


def _capabilities(conn: Connection, host: str) -> dict[str, bool]:
    return next((node['capabilities'] for node in compute_nodes.by_host(conn, host)), {})


def _reason(row: Row, move: Row | None) -> str:
    """Return the reason of a failed move, for administrators."""
    fault = row['fault']
    if fault and move is not None and str(fault.get('created', '')) >= move['created_at'].isoformat()[:19]:
        return faults.for_administrators(fault['message'], fault.get('details'))
    return f'Its move ended with the status {move["status"]}.' if move else 'The record of its move is missing.'
