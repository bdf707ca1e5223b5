"""Live migration on the source host and on the destination host.

The conductor coordinates both: it writes the database rows, and calls the destination for preparation, completion and
rollback.
"""
import contextlib
import functools
import logging
import time
import typing

from nova import actions
from nova import context
from nova import exception
from nova.json_types import JsonObject
from nova import objects
from nova.objects.block_device import BlockDevice
from nova import states
from nova.compute import clients
from nova.compute import notifications
from nova.compute import orphans
from nova.compute import queue
from nova.compute import records
from nova.compute import tasks
from nova.compute import volumes
from nova.compute.host import Host
from nova.objects import faults
from nova.runtime import fairness
from nova.runtime import queues
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

REPORT_S = 1             # seconds between two progress reports, which the conductor writes to the database


class DestinationReport(typing.TypedDict):
    """Report of a destination. ``connector``: connector for volume services, None without volume support."""

    facts: virt.MigrationFacts
    connector: JsonObject | None


class LiveMigration:
    """Sends and receives running guests.

    :param max_outgoing: concurrent outgoing migrations
    """

    def __init__(self, host: Host, volumes: volumes.Volumes, notifier: notifications.Notifier,
                 orphans: orphans.Orphans, max_outgoing: int) -> None:
        self._host, self._volumes, self._notifier, self._orphans = host, volumes, notifier, orphans
        self._outgoing: fairness.FairQueue[typing.Callable[[], None]] = fairness.FairQueue(max_outgoing, spare=False)
        queues.watch(queues.LIVE_MIGRATIONS, self._outgoing, lambda each: queues.Size(each.waiting, each.running))

    # ---- at the destination ----

    def check_live_migration_destination(self, ctx: context.RequestContext, instance: objects.Instance,
                                         block_migration: bool | None, disk_over_commit: bool,
                                         ) -> DestinationReport:
        """Check whether this host can receive the guest; return facts for the source.

        :raises MigrationPreCheckError: the host cannot take the server
        """
        host = self._host
        migration = host.driver.get_feature(virt.LiveMigration)
        if migration is None:
            raise exception.MigrationPreCheckError(reason=f'host {host.name} cannot take running guests')
        facts = migration.check_destination(instance, block_migration, disk_over_commit)
        return {'facts': facts, 'connector': self._volumes.connector()}

    def pre_live_migration(self, ctx: context.RequestContext, instance: objects.Instance,
                           block_devices: list[BlockDevice], facts: virt.MigrationFacts,
                           ) -> virt.MigrationFacts:
        """Prepare to receive the guest; return facts for the source."""
        host = self._host
        vifs = host.network.prepare_for_instance(ctx, instance=instance, host=host.name)
        grant = instance.image_grant if instance.obj_attr_is_set('image_grant') else None
        return host.driver_with(virt.LiveMigration).pre_live_migration(
            ctx.granted(grant), instance, vifs, block_devices, facts)

    def has_guest(self, ctx: context.RequestContext, instance_uuid: str) -> bool:
        """Return whether the guest of this server has arrived at the hypervisor."""
        migration = self._host.driver.get_feature(virt.LiveMigration)
        return migration is not None and migration.has_arrived(instance_uuid)

    def finish_live_migration(self, ctx: context.RequestContext, instance: objects.Instance,
                              migration: objects.Migration) -> None:
        self._host.submit(instance, self._finish_live_migration, ctx, instance, migration)

    def _finish_live_migration(self, ctx: context.RequestContext, instance: objects.Instance,
                               migration: objects.Migration) -> None:
        host = self._host

        def end(fault: faults.Fault | None = None, traceback: str | None = None, **values: clients.Value) -> None:
            host.moves.live_migration_finished(
                ctx, migration_id=migration.id, host=host.name, values={'task_state': None, **values}, fault=fault,
                traceback=traceback)

        def failed(task: tasks.Task, error: Exception) -> None:
            trace = faults.trace(error)
            end(faults.fault(error, details=trace), trace)

        with tasks.task(host, ctx, instance, actions.LIVE_MIGRATION.frame, give_up=failed) as task:
            vifs = host.network.setup_for_instance(ctx, instance=task.instance, host=host.name)
            host.driver_with(virt.LiveMigration).post_live_migration_at_destination(ctx, task.instance, vifs)
            task.ends(network_info=vifs, power_state=host.driver.power_state(task.instance))
            task.ends_with(lambda: end(**task.values))

    def rollback_live_migration(self, ctx: context.RequestContext, instance: objects.Instance,
                                facts: virt.MigrationFacts) -> None:
        self._host.submit(instance, self._rollback_live_migration, ctx, instance, facts)

    def _rollback_live_migration(self, ctx: context.RequestContext, instance: objects.Instance,
                                 facts: virt.MigrationFacts) -> None:
        """Remove the prepared resources and a guest that has arrived, unless the server already belongs to this
        host."""
        host = self._host
        what = records.GUEST if host.records.get(instance.uuid) else records.INCOMING
        if not self._orphans.may_remove(ctx, instance.uuid, what):
            LOG.info('Server %s may belong to this host: nothing is rolled back.', instance.uuid)
            return
        with self._notifier.event(ctx, instance, 'live_migration_rollback_dest'):
            host.driver_with(virt.LiveMigration).rollback_live_migration(ctx, instance, instance.network_info, facts)
            host.driver.destroy(ctx, instance, instance.network_info)
            host.network.unprepare_for_instance(ctx, instance_uuid=instance.uuid, host=host.name)

    # ---- at the source ----

    def check_live_migration_source(self, ctx: context.RequestContext, instance: objects.Instance,
                                    facts: virt.MigrationFacts) -> virt.MigrationFacts:
        """Check whether this host can send the guest; return the facts of destination and source.

        :raises MigrationPreCheckError: the server cannot leave
        """
        host = self._host
        migration = host.driver.get_feature(virt.LiveMigration)
        if migration is None:
            raise exception.MigrationPreCheckError(reason=f'host {host.name} cannot send running guests')
        return migration.check_source(instance, facts)

    def live_migrate_instance(self, ctx: context.RequestContext, instance: objects.Instance,
                              migration: objects.Migration) -> None:
        # no fair scheduling between projects, because administrators request migrations
        begin = functools.partial(self._host.queue.submit, instance.uuid, self._live_migrate_in_turn, ctx, instance,
                                  migration, build=queue.MIGRATION, project_id=instance.uuid)
        if self._outgoing.take('', begin):
            begin()

    def _live_migrate_in_turn(self, ctx: context.RequestContext, instance: objects.Instance,
                              migration: objects.Migration) -> None:
        try:
            self._live_migrate(ctx, instance, migration)
        finally:
            for begin in self._outgoing.ended(''):
                begin()

    def _live_migrate(self, ctx: context.RequestContext, instance: objects.Instance,
                      migration: objects.Migration) -> None:
        host = self._host

        def failed(task: tasks.Task, error: Exception) -> None:
            self._live_migration_failed(ctx, migration, error)

        with tasks.task(host, ctx, instance, actions.LIVE_MIGRATION.frame, give_up=failed) as task:
            server = task.instance
            try:
                facts = host.moves.prepare_live_migration(ctx, migration_id=migration.id)
                self._obey(server, self._report(ctx, migration, {'status': 'running'}))
                host.driver_with(virt.LiveMigration).live_migrate(
                    ctx, server, migration.dest_compute, facts,
                    _Throttle(lambda values: self._obey(server, self._report(ctx, migration, values))))
            except exception.InstanceChanged as error:
                # the server was deleted, or the migration was abandoned: the conductor must clean up the destination
                self._live_migration_failed(ctx, migration, error)
                raise
            task.leaves = True
            task.ends_with(lambda: self._left(ctx, server, migration, facts))

    def _report(self, ctx: context.RequestContext, migration: objects.Migration, values: dict[str, typing.Any],
                ) -> dict[str, bool]:
        host = self._host
        return host.moves.report_live_migration(ctx, migration_id=migration.id, host=host.name, values=values,
                                                deadline_s=host.conf.conductor.task_deadline)

    def _obey(self, server: objects.Instance, requests: dict[str, bool]) -> None:
        """Carry out stored requests to abort or complete the migration, because their RPC messages may have been lost.

        :param requests: current requests, as stored by the conductor
        :raises MigrationAborted:
        """
        if requests['abort']:
            raise exception.MigrationAborted(instance_id=server.uuid)
        if requests['complete']:
            self._host.driver_with(virt.LiveMigration).force_complete_live_migration(server)

    def _left(self, ctx: context.RequestContext, server: objects.Instance, migration: objects.Migration,
              facts: virt.MigrationFacts) -> None:
        """Complete the migration after the guest has started at the destination."""
        host = self._host
        self._clean_up_source(ctx, server, facts)
        host.moves.live_migration_arrived(ctx, migration_id=migration.id, host=host.name)
        try:
            host.network.client.refresh_ports(ctx, server=host.name,
                                                 port_ids=[vif['id'] for vif in server.network_info])
        except exception.Unavailable:
            LOG.info('The ports of server %s are removed from this host later.', server.uuid)

    def _clean_up_source(self, ctx: context.RequestContext, server: objects.Instance,
                         facts: virt.MigrationFacts) -> None:
        """Remove a guest that has left; log errors, because the server does not depend on this host any more."""
        try:
            self._host.driver_with(virt.LiveMigration).post_live_migration_at_source(
                ctx, server, server.network_info, facts)
        except (exception.NovaException, OSError) as error:
            LOG.error('Cannot remove all resources of migrated server %s from this host: %s', server.uuid, error)

    def _live_migration_failed(self, ctx: context.RequestContext, migration: objects.Migration,
                               error: Exception) -> None:
        host = self._host
        trace = faults.trace(error)
        host.moves.live_migration_failed(
            ctx, migration_id=migration.id, host=host.name, fault=faults.fault(error, details=trace), traceback=trace,
            aborted=isinstance(error, (exception.MigrationAborted, exception.InstanceChanged)))

    def abort_live_migration(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        with self._notifier.event(ctx, instance, 'live_migration_abort'):
            self._host.driver_with(virt.LiveMigration).abort_live_migration(instance)

    def force_complete_live_migration(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        with self._notifier.event(ctx, instance, 'live_migration_force_complete'):
            self._host.driver_with(virt.LiveMigration).force_complete_live_migration(instance)

    def stop(self, instance: objects.Instance) -> None:
        """Abort a running migration because the server is deleted; do not wait for the end."""
        migration = self._host.driver.get_feature(virt.LiveMigration)
        if migration:
            with contextlib.suppress(exception.VirtError):           # it has ended, or the deletion reports the error
                migration.abort_live_migration(instance)

    # ---- after a restart, or after a lost message ----

    def resume_live_migration(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._host.submit(instance, self._resume_live_migration, ctx, instance)

    def _resume_live_migration(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Report whether the guest is on this host; the conductor then completes the migration or rolls it back."""
        host = self._host
        migration = host.driver.get_feature(virt.LiveMigration)
        if migration:
            migration.await_live_migration(instance, _Throttle(lambda values: self._still_leaves(ctx, instance)))
        # a guest that is off counts as gone: after a crash of this machine, libvirt may still have the definition of a
        # guest that has moved away
        has_guest = host.driver.guest_state(instance.uuid) not in (None, states.SHUTDOWN)
        left = host.moves.resume_live_migration(ctx, instance_uuid=instance.uuid, host=host.name,
                                                has_guest=has_guest)
        if left:
            self._clean_up_source(ctx, instance, {})

    def _still_leaves(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Check that the server is still being migrated.

        :raises InstanceChanged, InstanceNotFound: the server was deleted, or its migration was abandoned
        """
        self._host.conductor.update_instance(ctx, instance_uuid=instance.uuid, values={}, expect={
            'host': [self._host.name], 'task_state': [states.MIGRATING]})


class _Throttle:
    """Throttles progress reports: at most one in REPORT_S seconds, but always one when no data remain."""

    def __init__(self, report: typing.Callable[[dict[str, typing.Any]], None]) -> None:
        self._report, self._next = report, 0.0

    def __call__(self, values: dict[str, typing.Any]) -> None:
        now = time.monotonic()
        if now >= self._next or not values['memory_remaining_bytes'] + values['disk_remaining_bytes']:
            self._next = now + REPORT_S
            self._report(values)
