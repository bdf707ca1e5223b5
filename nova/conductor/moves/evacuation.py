"""Evacuation: if a host is down, rebuild its servers on other hosts, with the same addresses and volumes.

The statuses of the migration, and the method of the destination's compute service:

    accepted        a destination is chosen and claimed
    pre-migrating   the destination owns and builds the server                                  evacuate_instance
    done            the server runs; when the old host is back, it removes its guest, if it has one
    completed       the old guest is removed

The old host keeps its claim until ``done``, so that the server can return. Servers of a host that is up are not
evacuated. The transaction that moves a server checks that the server's host is down. Heartbeats of this host wait until
the transaction ends.
"""
import logging
import typing

from nova import exception
from nova import objects
from nova import states
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.events import Change
from nova.conductor.events import Events
from nova.conductor.servers.specs import RequestSpecs
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.services import services
from nova.db.tables.rows import InstancesRow
from nova.db.tables.rows import MigrationsRow
from nova.notify.events import END
from nova.objects import faults
from nova.objects.faults import Fault
from nova.db.types import ColumnValues

LOG = logging.getLogger(__name__)

EVENT = 'compute_rebuild_instance'


class Evacuations:
    """Evacuates servers; interface.py describes the RPC methods."""

    def __init__(self, services: CellServices, events: Events, specs: RequestSpecs) -> None:
        self._services, self._conf, self._cell_db = services, services.conf, services.cell_db
        self._events, self._specs = events, specs

    def continue_evacuation(self, ctx: Context, instance_uuid: str) -> None:
        """Continue an evacuation from the state in the database rows. Failures are recorded in the rows."""
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [instance_uuid]).get(instance_uuid)
            migration = live_migrations.open_of(conn, instance_uuid, server_migrations.EVACUATION) if row else None
        if row is None or migration is None or row['task_state'] != states.REBUILDING:
            return
        if not migration['claims_swapped']:
            try:
                row, migration = self._take_over_server(ctx, row, migration)
            except exception.Unavailable as error:
                self._services.retry_soon(error, instance_uuid)
                return
            except exception.InstanceChanged:
                LOG.info('Another conductor continues the evacuation of server %s.', instance_uuid)
                return
            except exception.NovaException as error:
                LOG.info('Server %s is not evacuated: %s', instance_uuid, error)
                fault, spec = faults.fault(error), self._events.spec(instance_uuid)

                def write(conn: Connection) -> None:
                    change = self._events.of(conn, ctx, instance_uuid, migration)
                    ended = _end(conn, change, migration, 'conductor_evacuate_instance', None, fault)
                    if change and ended:
                        change.no_host('rebuild_server', ended, fault, spec)
                self._cell_db.run(write)
                return
        with self._services.retrying(instance_uuid):
            self._services.compute.evacuate_instance(
                ctx, server=row['host'], instance=objects.Instance.from_row(row),
                spec=self._specs.get_request_spec(ctx, row['uuid']), migration=objects.Migration.from_row(migration))

    def _take_over_server(self, ctx: Context, row: InstancesRow,
                          migration: MigrationsRow) -> tuple[InstancesRow, MigrationsRow]:
        """Choose and claim a destination and move the server there; return the new (row, migration)."""
        self._forget_live_migration(ctx, row, migration['arguments'].get('interrupted'))
        if migration['claimed_host'] is None:
            spec = self._specs.get_request_spec(ctx, row['uuid'])
            if not self._services.scheduler.select_move(
                    ctx, spec=spec, migration_id=migration['id'], ignore=[row['host']],
                    target=migration['arguments']['host'], force=migration['arguments']['force']):
                raise exception.InstanceChanged(instance_id=row['uuid'])
        return self._cell_db.run(self._swap_to_destination, ctx, migration['id'])

    def _swap_to_destination(self, conn: Connection, ctx: Context,
                             migration_id: int) -> tuple[InstancesRow, MigrationsRow]:
        migration = server_migrations.get(conn, migration_id)
        source = migration['source_compute']
        assert source is not None                # every evacuation has a source host
        if not services.host_is_down(conn, source, self._conf.service_down_time):
            raise exception.ComputeServiceInUse(host=source)
        change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
        row = server_migrations.swap(conn, migration, forward=True, status='pre-migrating',
                                     expect={'task_state': states.REBUILDING, 'host': source})
        if change:
            change.record('rebuild_scheduled', None, row)
        return row, server_migrations.get(conn, migration_id)

    def _forget_live_migration(self, ctx: Context, row: InstancesRow,
                               interrupted: dict[str, typing.Any] | None) -> None:
        """Cancel an interrupted live migration before a destination is chosen."""
        if interrupted:
            try:
                self._services.compute.rollback_live_migration(
                    ctx, server=interrupted['host'], facts=interrupted['facts'],
                    instance=objects.Instance(uuid=row['uuid'], network_info=[]))
            except exception.Unavailable:
                LOG.info('Host %s is down; it searches for orphaned guests when it is back.', interrupted['host'])

    # ---- called by the destination ----

    def evacuation_finished(self, ctx: Context, migration_id: int, host: str, values: ColumnValues) -> None:
        """Mark the server as rebuilt and release the claim at the old host."""
        def write(conn: Connection) -> str | None:
            migration = server_migrations.get(conn, migration_id)
            if migration['status'] in ('done', 'completed'):
                return migration['source_compute']              # a repeated call
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            row = instances.update(conn, migration['instance_uuid'], values,
                                   {'task_state': states.REBUILDING, 'host': host}, returning=bool(change))
            instance_actions.finish(conn, migration['instance_uuid'], EVENT, host=host, background=False)
            server_migrations.release(conn, migration_id, status='done')
            if change:
                change.record('rebuild', END, row, host)
            return migration['source_compute']
        source = self._cell_db.run(write)
        if source is None:
            return
        try:
            # if the old host is up again, it can remove its guests now
            self._services.compute.remove_evacuated_guests(ctx, server=source)
        except exception.Unavailable:
            LOG.debug('Host %s is down; it removes evacuated guests when it is back.', source)

    def evacuation_failed(self, ctx: Context, migration_id: int, host: str, fault: Fault,
                          traceback: str | None) -> None:
        """Return the server to its old host after a failed build. The old host may come back with the disks."""
        def write(conn: Connection) -> None:
            migration = server_migrations.get(conn, migration_id)
            if migration['status'] in server_migrations.OVER:
                return
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            if migration['claims_swapped']:
                server_migrations.swap(conn, migration, forward=False, expect={
                    'task_state': states.REBUILDING, 'host': host})
            ended = _end(conn, change, server_migrations.get(conn, migration_id), EVENT, host, fault, traceback)
            if change and ended:
                change.failure('rebuild', ended, host, fault)
        self._cell_db.run(write)

    # ---- called by the old host when it is back ----

    def list_evacuated(self, ctx: Context, host: str) -> list[dict[str, typing.Any]]:
        with self._cell_db.reader() as conn:
            return live_migrations.list_evacuated(conn, host)

    def evacuated_guest_removed(self, ctx: Context, migration_id: int, host: str) -> None:
        self._cell_db.run(server_migrations.update, migration_id, {'status': 'completed'},
                          {'status': 'done', 'source_compute': host})


def _end(conn: Connection, change: Change | None, migration: MigrationsRow, event: str, host: str | None, fault: Fault,
         traceback: str | None = None) -> InstancesRow | None:
    """End a failed evacuation: the server is idle on its old host and the destination's claim is released.

    :returns: the server's row for recording events, or None if another request has changed the server
    """
    uuid = migration['instance_uuid']
    instances.lock(conn, uuid)
    if not server_migrations.release(conn, migration['id'], 'error', {'status': ['accepted', 'pre-migrating']}):
        return None
    values = {'task_state': None, 'fault': fault}
    expect = {'task_state': states.REBUILDING, 'host': migration['source_compute']}
    row = instances.update_where(conn, uuid, values, expect) if change else None
    if row is not None or not change and instances.set_where(conn, uuid, values, expect):
        instance_actions.finish(conn, uuid, event, host=host, error=fault['message'],
                                traceback=traceback or fault['details'], background=False)
    return row
