"""Live migration: from the request to the guest at its destination, or the rollback.

The statuses of the migration, and the methods of the compute service:

    accepted        a destination is chosen, claimed and checked
    queued          the migration waits in the queue of the source             live_migrate_instance
    preparing       volumes and network are prepared at the destination
    running         the guest is being copied
    post-migrating  the guest runs at the destination, which owns it now       finish_live_migration
    final statuses: completed, cancelled (on request), error (failed before running), failed (failed while running)

The rows of the server and of the migration record the progress. ``continue_live_migration`` runs the next step that
they show, so it can also continue after a lost message.
"""
import collections.abc
import contextlib
import logging
import typing

from nova import context
from nova import exception
from nova.json_types import Json
from nova.json_types import JsonObject
from nova import objects
from nova import states
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.cell_services import Row
from nova.conductor.events import Events
from nova.conductor.moves import write_batch
from nova.conductor.servers.image_grants import ImageGrants
from nova.conductor.servers.specs import RequestSpecs
from nova.conductor.servers.tasks import Tasks
from nova.conductor.servers.volumes import Volumes
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.placement import compute_nodes
from nova.db.servers import block_devices
from nova.db.servers import console_tokens
from nova.db.servers import event_facts
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables.rows import ComputeNodesRow
from nova.db.tables.rows import InstancesRow
from nova.db.tables.rows import MigrationsRow
from nova.notify.events import END
from nova.notify.events import START
from nova.objects import faults
from nova.objects import pci
from nova.objects.faults import Fault
from nova.virt.driver import MigrationFacts

LOG = logging.getLogger(__name__)

EVENT = 'compute_live_migration'
ABORTED = 'The live migration was aborted.'
_SOURCE = ('queued', 'preparing', 'running')          # statuses in which the source performs the next step


class LiveMigrations:
    """Migrates running servers; interface.py describes the RPC methods."""

    def __init__(self, services: CellServices, events: Events, specs: RequestSpecs, tasks: Tasks,
                 volumes: Volumes, grants: ImageGrants) -> None:
        self._services, self._conf, self._cell_db = services, services.conf, services.cell_db
        self._events, self._specs, self._tasks, self._volumes = events, specs, tasks, volumes
        self._grants = grants
        self._progress = write_batch.WriteBatches(self._cell_db)

    def continue_live_migration(self, ctx: Context, instance_uuid: str) -> None:
        """Run the next step of a live migration, also after a lost message. Failures are recorded in the rows."""
        row, migration = self._live_migration(instance_uuid)
        if row is None:
            return
        if migration is None:
            self._set_free(row)
        elif migration['status'] == 'accepted':
            try:
                self._begin_live_migration(ctx, row, migration)
            except exception.NovaException as error:
                LOG.info('Server %s is not migrated: %s', instance_uuid, error)
        elif migration['claims_swapped']:
            self._finish_arrival(ctx, row, migration)
        elif self._services.host_is_up(row['host']):
            self._to_compute(ctx, row['host'], 'resume_live_migration', row)
        else:
            self._ask_destination(ctx, row, migration)

    def check_and_live_migrate(self, ctx: Context, instance_uuid: str) -> None:
        """Begin a live migration for a request before microversion 2.34; raise errors of the checks to the caller.

        :raises BadRequest: a check failed; the server is unchanged
        """
        row, migration = self._live_migration(instance_uuid)
        if row is not None and migration is not None and migration['status'] == 'accepted':
            self._begin_live_migration(ctx, row, migration)

    def _live_migration(self, uuid: str) -> tuple[InstancesRow | None, MigrationsRow | None]:
        """Return (row, open migration or None) of a server that is being migrated; (None, None) for other servers."""
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [uuid]).get(uuid)
            if row is None or row['task_state'] != states.MIGRATING:
                return None, None
            return row, live_migrations.open_of(conn, uuid, server_migrations.LIVE_MIGRATION)

    def _set_free(self, row: InstancesRow) -> None:
        fault = faults.fault(exception.VirtError(
            operation='migrate the guest', reason='the record of the migration is missing'))
        self._tasks.end_task(None, row['uuid'], 'conductor_reconcile', row['host'], {'task_state': None},
                             {'task_state': states.MIGRATING}, fault, fault['details'])

    # ---- the destination ----

    def _begin_live_migration(self, ctx: Context, row: InstancesRow, migration: MigrationsRow) -> None:
        """Choose, claim and check a destination; then start the source.

        :raises NovaException: the migration failed and is over
        """
        try:
            found = self._find_destination(ctx, row, migration)
            migration = self._cell_db.run(live_migrations.note, migration['id'], ('accepted',), found, status='queued')
        except (exception.InstanceChanged, exception.InvalidMigrationState):
            raise exception.InstanceChanged(instance_id=row['uuid']) from None       # another conductor continues it
        except exception.NovaException as error:
            shown = _for_users(error)
            # Only administrators may see host names: the action's event contains them, the fault for users does not.
            self._over(ctx, migration, 'error', 'conductor_live_migrate_instance', None, faults.fault(shown),
                       traceback=faults.fault(error)['details'])
            raise shown from None
        self._to_compute(ctx, row['host'], 'live_migrate_instance', row, migration=_object(migration))

    def _find_destination(self, ctx: Context, row: InstancesRow, migration: MigrationsRow) -> dict[str, typing.Any]:
        """Choose and claim a destination that can take the guest; return {'facts', 'connector'} (see _ask_hosts())."""
        arguments, ignore = migration['arguments'], [row['host']]
        if not self._services.host_is_up(row['host']):
            raise exception.ComputeServiceUnavailable(host=row['host'])
        if pci.requested(row['flavor']):
            raise exception.MigrationPreCheckError(reason='running servers with PCI devices stay on their host')
        spec, attempts = self._specs.get_request_spec(ctx, row['uuid']), 0
        last: exception.NovaException | None = None
        while True:
            attempts += 1
            if migration['claimed_host'] is None:
                try:
                    chosen = self._services.scheduler.select_move(
                        ctx, spec=spec, migration_id=migration['id'], ignore=ignore, target=arguments['host'],
                        force=arguments['force'])
                except exception.NoValidHost as error:
                    raise last or error from None
                if not chosen:
                    raise exception.InstanceChanged(instance_id=row['uuid'])
                migration = self._move(migration['id'])
            host = migration['dest_compute']
            try:
                return self._ask_hosts(ctx, row, migration)
            except (exception.MigrationPreCheckError, exception.VirtError, exception.Unavailable) as error:
                LOG.info('Server %s cannot be migrated to %s: %s', row['uuid'], host, error.message)
                if arguments['host'] or attempts >= self._conf.scheduler.max_attempts:
                    raise
                last = error
                ignore.append(host)
                self._cell_db.run(server_migrations.release, migration['id'], None, {'status': 'accepted'})
                migration = self._move(migration['id'])

    def _ask_hosts(self, ctx: Context, row: InstancesRow, migration: MigrationsRow) -> dict[str, typing.Any]:
        """Check a migration at the destination and the source; return {'facts', 'connector'}.

        ``facts`` are the data that both hosts report for the migration of this guest. ``connector`` is the volume
        connector of the destination.

        :raises MigrationPreCheckError:
        """
        source, dest = self._nodes_of(migration)
        if source['hypervisor_type'] != dest['hypervisor_type']:
            raise exception.MigrationPreCheckError(
                reason=f'hypervisors of type {source["hypervisor_type"]} and {dest["hypervisor_type"]} cannot exchange '
                       f'running guests')
        if source['hypervisor_version'] > dest['hypervisor_version']:
            raise exception.MigrationPreCheckError(reason='the hypervisor of the destination is older')
        instance, arguments = objects.Instance.from_row(row), migration['arguments']
        checked = self._services.compute.check_live_migration_destination(
            ctx, server=dest['host'], instance=instance, block_migration=arguments['block_migration'],
            disk_over_commit=arguments['disk_over_commit'])
        facts = self._services.compute.check_live_migration_source(ctx, server=source['host'], instance=instance,
                                                                   facts=checked['facts'])
        if migration['claimed_numa_topology'] is not None:
            facts = {**facts, 'numa_topology': migration['claimed_numa_topology']}
        return {'facts': facts, 'connector': checked['connector']}

    def _nodes_of(self, migration: MigrationsRow) -> tuple[ComputeNodesRow, ComputeNodesRow]:
        """Return the nodes of source and destination."""
        def node(host: str | None, name: str | None) -> ComputeNodesRow:
            for found in compute_nodes.by_host(conn, host or ''):
                if found['node'] == name:
                    return found
            raise exception.MigrationPreCheckError(reason=f'node {name} is gone')
        with self._cell_db.reader() as conn:
            return (node(migration['source_compute'], migration['source_node']),
                    node(migration['dest_compute'], migration['dest_node']))

    # ---- called by the source ----

    def prepare_live_migration(self, ctx: Context, migration_id: int) -> MigrationFacts:
        """See interface.py."""
        def recording(phase: str) -> collections.abc.Callable[[Connection, MigrationsRow], None]:
            def record(conn: Connection, migration: MigrationsRow) -> None:
                change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
                if change:
                    change.record('live_migration_pre', phase, instances.get(conn, migration['instance_uuid']),
                                  migration['dest_compute'])
            return record
        migration = self._claimed_by_source(migration_id, status='preparing', record=recording(START))
        uuid, dest = migration['instance_uuid'], migration['dest_compute']
        assert dest is not None                      # the source begins only after the claim of a destination
        with self._cell_db.reader() as conn:
            row = instances.get(conn, uuid)
        devices = self._connect_at_destination(ctx, row, migration)
        instance = objects.Instance.from_row(row)
        instance.image_grant = self._grants.of_arrival(instance, dest)
        facts = self._services.compute.pre_live_migration(
            ctx, server=dest, instance=instance, block_devices=devices, facts=migration['arguments']['facts'])
        self._claimed_by_source(migration_id, record=recording(END), facts=facts)
        return facts

    def _claimed_by_source(self, migration_id: int, status: str | None = None,
                           record: collections.abc.Callable[[Connection, MigrationsRow], None] | None = None,
                           **changes: object) -> MigrationsRow:
        """Update a migration in which the source performs the next step; return its row.

        :raises InstanceChanged: the migration was aborted or is over
        """
        values = {} if status is None else {'status': status}

        def write(conn: Connection) -> MigrationsRow:
            migration = live_migrations.note(conn, migration_id, _SOURCE, changes, **values)
            if record is not None:
                record(conn, migration)
            return migration
        try:
            return self._cell_db.run(write)
        except exception.InvalidMigrationState as error:
            raise exception.InstanceChanged(instance_id=error.kwargs['instance_id']) from None

    def _connect_at_destination(self, ctx: Context, row: InstancesRow, migration: MigrationsRow) -> list[Row]:
        """Connect the volumes for the destination; return the rows of the block devices with these connections."""
        system, made = context.admin_context(ctx.request_id), dict(migration['arguments'].get('volumes') or {})
        with self._cell_db.reader() as conn:
            devices = block_devices.by_instance(conn, row['uuid'])
        shown: list[Row] = []
        for device in devices:
            if device['volume_id'] is None:
                shown.append(device)
                continue
            if device['uuid'] not in made:
                ident, info = self._services.volumes.attach_elsewhere(
                    system, device['volume_id'], row['uuid'], device['attachment_id'],
                    migration['arguments']['connector'], device['device_name'])
                made[device['uuid']] = {'connection_info': info, 'attachment_id': ident}
                try:
                    self._claimed_by_source(migration['id'], volumes=made)
                except exception.InstanceChanged:          # it ended meanwhile, and its rollback misses this attachment
                    self._volumes.release_attachment(system, device['uuid'], ident)
                    raise
                except Exception:                          # it is unknown whether the migration names the attachment
                    self._volumes.doubt_attachment(device['uuid'], ident)
                    raise
            shown.append({**device, **made[device['uuid']]})
        return shown

    def report_live_migration(self, ctx: Context, migration_id: int, host: str, values: dict[str, int],
                              deadline_s: float) -> dict[str, bool]:
        """See interface.py."""
        def write(conn: Connection) -> dict[str, bool]:
            migration = self._noted(conn, migration_id, values)
            # hypervisors send changed pages again, so the processed and the remaining bytes may exceed the total
            left, total = values.get('memory_remaining_bytes'), values.get('memory_total_bytes')
            progress = {'progress': max(0, 100 * (total - left) // total)} if total and left is not None else {}
            if not instances.set_where(conn, migration['instance_uuid'], progress,
                                       {'task_state': states.MIGRATING, 'host': host}):
                raise exception.InstanceChanged(instance_id=migration['instance_uuid'])
            instance_actions.take(conn, migration['instance_uuid'], f'compute:{host}', deadline_s)
            return {name: bool(migration['arguments'].get(name)) for name in ('abort', 'complete')}
        return self._progress.run(migration_id, write)           # batched: hosts report every second

    def _noted(self, conn: Connection, migration_id: int, values: collections.abc.Mapping[str, Json]) -> MigrationsRow:
        migration = server_migrations.get(conn, migration_id)
        instances.lock(conn, migration['instance_uuid'])
        try:
            return live_migrations.note(conn, migration_id, _SOURCE, {}, **values)
        except exception.InvalidMigrationState:
            raise exception.InstanceChanged(instance_id=migration['instance_uuid']) from None

    def live_migration_arrived(self, ctx: Context, migration_id: int, host: str) -> None:
        """Move the server to the destination, where its guest runs now."""
        def write(conn: Connection) -> tuple[InstancesRow, MigrationsRow]:
            migration = server_migrations.get(conn, migration_id)
            if migration['claims_swapped']:
                return instances.get(conn, migration['instance_uuid']), migration            # a repeated call
            if migration['status'] not in _SOURCE:
                raise exception.InstanceChanged(instance_id=migration['instance_uuid'])
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            if change:
                change.record('live_migration_post', START, instances.get(conn, migration['instance_uuid']), host)
            row = server_migrations.swap(conn, migration, forward=True, status='post-migrating', running=True,
                                         expect={'task_state': states.MIGRATING, 'host': host})
            server_migrations.release(conn, migration_id)
            old = self._swap_attachments(conn, migration)
            if old:
                server_migrations.update(conn, migration_id, {
                    'arguments': {**migration['arguments'], 'old_attachments': old}})
            instance_actions.add_event(conn, row['uuid'], EVENT, host=host)
            if change:
                change.record('live_migration_post', END, row, host)
            return row, server_migrations.get(conn, migration_id)
        try:
            row, migration = self._cell_db.run(write)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            # the server was deleted: the guest at the destination must be removed
            migration = self._move(migration_id)
            self._over(ctx, migration, 'cancelled', EVENT, host,
                       faults.fault(exception.InstanceChanged(instance_id=migration['instance_uuid'])))
            raise
        self._finish_arrival(ctx, row, migration)

    def _finish_arrival(self, ctx: Context, row: InstancesRow, migration: MigrationsRow) -> None:
        """Release the volumes of a server that has arrived from its source; then start the last step. Idempotent.

        The last step does not depend on the block storage: without it the guest is paused or has no network.
        """
        system = context.admin_context(ctx.request_id)
        try:
            self._volumes.complete_volumes(ctx, row['uuid'])
        except exception.NovaException as error:
            LOG.warning('Cannot mark all volumes of server %s as in use: %s', row['uuid'], error)
        for attachment_id in migration['arguments'].get('old_attachments', []):
            with contextlib.suppress(exception.NovaException):            # it is released later
                self._volumes.release_attachment(system, row['uuid'], attachment_id)      # no device names it any more
        self._send_finish(ctx, row, migration)

    @staticmethod
    def _swap_attachments(conn: Connection, migration: MigrationsRow) -> list[str]:
        """Switch the server's volumes to the destination's attachments; return the ids of the former attachments."""
        old = []
        for device in block_devices.by_instance(conn, migration['instance_uuid']):
            new = (migration['arguments'].get('volumes') or {}).get(device['uuid'])
            if new:
                old.append(device['attachment_id'])
                block_devices.update(conn, device['uuid'], new)
        return [attachment_id for attachment_id in old if attachment_id]

    def live_migration_failed(self, ctx: Context, migration_id: int, host: str, fault: Fault, traceback: str | None,
                              aborted: bool) -> None:
        """Record a failed migration: the server remains on the source. A repeated call completes the clean-up."""
        migration = self._move(migration_id)
        if migration['status'] in server_migrations.OVER:
            if not migration['claims_swapped'] and 'connector' in migration['arguments']:
                self._clean_up(ctx, migration)             # a repeated call, or an administrator has reset the server
            return
        status = 'cancelled' if aborted else 'failed' if migration['status'] == 'running' else 'error'
        if aborted:
            fault = {**fault, 'message': ABORTED}
        self._over(ctx, migration, status, EVENT, host, fault, traceback=traceback)

    def _over(self, ctx: Context, migration: MigrationsRow, status: str, event: str, host: str | None,
              fault: Fault, *, traceback: str | None = None) -> None:
        """End a migration that has not moved the server, and roll back the destination."""
        uuid, source = migration['instance_uuid'], migration['source_compute']
        unplaced = event == 'conductor_live_migrate_instance'
        spec = self._events.spec(uuid) if unplaced else None

        def write(conn: Connection) -> bool:
            change = self._events.of(conn, ctx, uuid, migration)
            before = event_facts.row(conn, uuid) if change else None
            if not live_migrations.end(conn, migration, status, event=event, host=host, fault=fault,
                                       traceback=traceback or fault['details']):
                return False
            row = event_facts.row(conn, uuid) if before else None
            if change is None or before is None or row is None:
                return True
            if unplaced:
                change.no_host('migrate_server', row, fault, spec)
            else:
                change.record('live_migration_rollback', START, before, source)
                change.record('live_migration_rollback', END, row, source, fault=fault)
            return True
        if self._cell_db.run(write):
            self._clean_up(ctx, self._move(migration['id']))

    def _clean_up(self, ctx: Context, migration: MigrationsRow) -> None:
        """Release the volumes of the destination and roll it back. Idempotent.

        The migration is over. Its arguments have the connector until this method has completed.
        """
        system, volumes = context.admin_context(ctx.request_id), migration['arguments'].get('volumes') or {}
        for bdm_uuid, made in volumes.items():
            with contextlib.suppress(exception.NovaException):            # it is released later
                self._volumes.release_attachment(system, bdm_uuid, made['attachment_id'])
        if volumes:                            # remove the secrets before a rollback that may fail
            self._cell_db.run(server_migrations.update, migration['id'], {
                'arguments': {**migration['arguments'], 'volumes': {}}})
        if migration['arguments'].get('facts') is not None:
            self._roll_back(ctx, migration)
        self._cell_db.run(server_migrations.update, migration['id'], {'arguments': _without_secrets(migration)})

    def _roll_back(self, ctx: Context, migration: MigrationsRow) -> None:
        """Roll back the destination. A destination that is down removes the guest at its next start."""
        instance = objects.Instance(uuid=migration['instance_uuid'], network_info=[])
        try:
            self._services.compute.rollback_live_migration(ctx, server=migration['dest_compute'], instance=instance,
                                                           facts=migration['arguments']['facts'])
        except exception.Unavailable as error:
            LOG.warning('Cannot clean up the failed live migration of server %s on host %s: %s', instance.uuid,
                        migration['dest_compute'], error.message)
            self._services.network.unprepare_for_instance(ctx, instance_uuid=instance.uuid,
                                                          host=migration['dest_compute'])

    # ---- called by the destination ----

    def live_migration_finished(self, ctx: Context, migration_id: int, host: str, values: JsonObject,
                                fault: Fault | None, traceback: str | None) -> None:
        """Complete the migration. If ``fault`` is set, the guest has moved, but a later step failed."""
        def write(conn: Connection) -> None:
            migration = server_migrations.get(conn, migration_id)
            if migration['status'] in server_migrations.OVER and migration['claims_swapped']:
                return                                          # a repeated call
            shown = {**values, 'progress': 0, **({'fault': fault} if fault else {})}
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            row = instances.update(conn, migration['instance_uuid'], shown,
                                   {'task_state': states.MIGRATING, 'host': host}, returning=bool(change))
            instance_actions.finish(conn, migration['instance_uuid'], EVENT, host=host, traceback=traceback,
                                    error=fault['message'] if fault else None, background=False)
            server_migrations.update(conn, migration_id, {
                'status': 'error' if fault else 'completed', 'arguments': _without_secrets(migration)},
                {'status': 'post-migrating'})
            if change:
                change.record('live_migration_post_dest', END, row, host)
            if change and fault:
                change.failure(None, row, host, fault)
        self._cell_db.run(write)
        self._move_consoles(ctx, self._move(migration_id)['instance_uuid'], host)

    def _move_consoles(self, ctx: Context, uuid: str, host: str) -> None:
        """Point the console tokens of a server to its new host. Sessions that cannot follow are closed."""
        with self._cell_db.reader() as conn:
            types = console_tokens.left_behind(conn, uuid, host)
            row = instances.get(conn, uuid) if types else None
        if row is None:
            return
        instance, places = objects.Instance.from_row(row), {}
        for console_type in sorted(types & console_tokens.KINDS.keys()):
            try:
                place = self._services.compute.get_console(ctx, server=host, instance=instance,
                                                           kind=console_tokens.KINDS[console_type])
            except exception.NovaException as error:
                LOG.info('The %s consoles of server %s end with its move: %s', console_type, uuid, error)
                continue
            if place is not None:
                places[console_type] = {name: value for name, value in place.items() if name != 'password'}
        self._cell_db.run(console_tokens.follow, uuid, host, places)

    # ---- after a restart ----

    def resume_live_migration(self, ctx: Context, instance_uuid: str, host: str, has_guest: bool) -> bool:
        """Continue or end the migration after a restart of its source; return whether the guest has left the source."""
        row, migration = self._live_migration(instance_uuid)
        if row is None:
            return False
        if migration is not None and migration['claims_swapped'] and host in (
                row['host'], migration['source_compute']):
            self._finish_arrival(ctx, row, migration)
            return host == migration['source_compute']          # the source repeats a call that had no answer
        if row['host'] != host:
            return False
        if migration is None:
            self._set_free(row)
        elif migration['status'] == 'queued' and has_guest:
            self._to_compute(ctx, host, 'live_migrate_instance', row, migration=_object(migration))
        elif migration['status'] in _SOURCE and has_guest:
            self._interrupted(ctx, migration, host)
        elif migration['status'] in _SOURCE:
            return self._ask_destination(ctx, row, migration)
        return False

    def _ask_destination(self, ctx: Context, row: InstancesRow, migration: MigrationsRow) -> bool:
        """Ask the destination whether the guest has arrived; if so, complete the migration. Return the answer."""
        source = row['host']
        if migration['status'] not in _SOURCE or source is None:
            return False
        if self._services.compute.has_guest(ctx, server=migration['dest_compute'], instance_uuid=row['uuid']):
            self.live_migration_arrived(ctx, migration['id'], source)
            return True
        if self._services.host_is_up(source):
            self._interrupted(ctx, migration, source)
        return False

    def _interrupted(self, ctx: Context, migration: MigrationsRow, host: str) -> None:
        error = exception.VirtError(operation='migrate the guest', reason='its host was restarted meanwhile')
        fault = faults.fault(error, 'The migration was interrupted; the server stays where it was.')
        self._over(ctx, migration, 'failed', EVENT, host, fault)

    # ---- messages and rows ----

    def _move(self, migration_id: int) -> MigrationsRow:
        with self._cell_db.reader() as conn:
            return server_migrations.get(conn, migration_id)

    def _send_finish(self, ctx: Context, row: InstancesRow, migration: MigrationsRow) -> None:
        self._events.publish(ctx, 'live_migration_post_dest', START, row, row['host'], migration)
        self._to_compute(ctx, row['host'], 'finish_live_migration', row, migration=_object(migration))

    def _to_compute(self, ctx: Context, host: str | None, method: str, row: InstancesRow, **arguments: object) -> None:
        send = getattr(self._services.compute, method)
        with self._services.retrying(row['uuid']):
            send(ctx, server=host, instance=objects.Instance.from_row(row), **arguments)


def _object(migration: MigrationsRow) -> objects.Migration:
    return objects.Migration.from_row(migration)


def _without_secrets(migration: MigrationsRow) -> dict[str, typing.Any]:
    """Return the arguments of an ended migration without the connections of volumes, which contain secrets."""
    return {name: value for name, value in migration['arguments'].items() if name not in ('volumes', 'connector')}


def _for_users(error: exception.NovaException) -> exception.NovaException:
    """Convert an error of the checks to the error that the user sees."""
    if isinstance(error, exception.BadRequest):
        return error
    if isinstance(error, exception.HostUnavailable):
        return exception.ComputeServiceUnavailable(**error.kwargs)
    if isinstance(error, (exception.NoValidHost, exception.Conflict, exception.NotFound)):
        return exception.BadRequest(error.message)
    return exception.MigrationPreCheckError(reason='a service failed during the check')
