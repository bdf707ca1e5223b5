"""Live migration, on the host that a server leaves and on the one where it arrives.

The conductor stands between the two: it holds the rows, and lets the destination make ready, finish or roll back.
"""
import logging
import time

from nova import exception
from nova import states
from nova.compute import queue
from nova.objects import faults
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

EVENT = 'compute_live_migration'
REPORT_S = 1             # between two reports of progress, each of which is a write of the conductor


class LiveMigration:
    """The part of the compute's manager that migrates live; mixed into it."""

    # ---- at the destination ----

    def check_live_migration_destination(self, ctx, instance, block_migration, disk_over_commit):
        """{'facts', 'connector'} of this host; :raises MigrationPreCheckError: the server cannot come"""
        if not isinstance(self.driver, virt.LiveMigration):
            raise exception.MigrationPreCheckError(reason=f'host {self.host} cannot take running guests')
        facts = self.driver.check_destination(instance, block_migration, disk_over_commit)
        return {'facts': facts, 'connector': self._connector()}

    def pre_live_migration(self, ctx, instance, block_devices, facts):
        vifs = self.network.prepare_for_instance(ctx, instance=instance, host=self.host)
        return self.driver.pre_live_migration(ctx, instance, vifs, block_devices, facts)

    def has_guest(self, ctx, instance_uuid):
        return instance_uuid in self.driver.guests()

    def finish_live_migration(self, ctx, instance, migration):
        self.queue.submit(instance.uuid, self._finish_live_migration, ctx, instance, migration)

    def _finish_live_migration(self, ctx, instance, migration):
        def end(fault=None, traceback=None, **values):
            self.conductor.live_migration_finished(
                ctx, migration_id=migration.id, host=self.host, values={'task_state': None, **values}, fault=fault,
                traceback=traceback)

        def failed(task, error):
            trace = faults.trace(error)
            end(faults.fault(error, details=trace), trace)

        with self.task(ctx, instance, EVENT, running=(states.MIGRATING,), on_failure=failed) as task:
            vifs = self.network.setup_for_instance(ctx, instance=task.instance, host=self.host)
            self.driver.post_live_migration_at_destination(ctx, task.instance, vifs)
            task.ends(network_info=vifs, power_state=self.driver.power_state(task.instance))
            task.ends_with(lambda: end(**task.values))

    def rollback_live_migration(self, ctx, instance, facts):
        self.queue.submit(instance.uuid, self._rollback_live_migration, ctx, instance, facts)

    def _rollback_live_migration(self, ctx, instance, facts):
        """Remove what was made ready, and a guest that has come all the same, unless the server belongs here by now."""
        if instance.uuid not in self.conductor.stray_guests(ctx, host=self.host, uuids=[instance.uuid]):
            LOG.info('Server %s has come to this host in another way; nothing is rolled back.', instance.uuid)
            return
        with self.told(ctx, instance, 'live_migration_rollback_dest'):
            self.driver.rollback_live_migration(ctx, instance, instance.network_info, facts)
            self.driver.destroy(ctx, instance, instance.network_info)
            self.network.unprepare_for_instance(ctx, instance_uuid=instance.uuid, host=self.host)

    # ---- at the source ----

    def check_live_migration_source(self, ctx, instance, facts):
        if not isinstance(self.driver, virt.LiveMigration):
            raise exception.MigrationPreCheckError(reason=f'host {self.host} cannot send running guests')
        return self.driver.check_source(instance, facts)

    def live_migrate_instance(self, ctx, instance, migration):
        self.migration_turns.take(lambda: self.queue.submit(
            instance.uuid, self._live_migrate_in_turn, ctx, instance, migration, build=queue.MIGRATION))

    def _live_migrate_in_turn(self, ctx, instance, migration):
        try:
            self._live_migrate(ctx, instance, migration)
        finally:
            self.migration_turns.done()

    def _live_migrate(self, ctx, instance, migration):
        def failed(task, error):
            self._live_migration_failed(ctx, migration, error)

        with self.task(ctx, instance, EVENT, running=(states.MIGRATING,), on_failure=failed) as task:
            server = task.instance
            try:
                facts = self.conductor.prepare_live_migration(ctx, migration_id=migration.id)
                self._obey(server, self._report(ctx, migration, {'status': 'running'}))
                self.driver.live_migrate(
                    ctx, server, {'host': migration.dest_compute, 'address': migration.dest_host}, facts,
                    _Throttle(lambda values: self._obey(server, self._report(ctx, migration, values))))
            except exception.InstanceChanged as error:
                # deleted, or given up: what the frame does for a loser is not enough, the destination has to know
                self._live_migration_failed(ctx, migration, error)
                raise
            task.ends_with(lambda: self._left(ctx, server, migration, facts))

    def _report(self, ctx, migration, values):
        return self.conductor.report_live_migration(ctx, migration_id=migration.id, host=self.host, values=values,
                                                    deadline_s=self.conf.conductor.task_deadline)

    def _obey(self, server, told):
        """:param told: what somebody asked for meanwhile, should its message have been lost
        :raises MigrationAborted:
        """
        if told['abort']:
            raise exception.MigrationAborted(instance_id=server.uuid)
        if told['complete']:
            self.driver.force_complete_live_migration(server)

    def _left(self, ctx, server, migration, facts):
        """The guest runs at the destination."""
        try:
            self.driver.post_live_migration_at_source(ctx, server, server.network_info, facts)
        except exception.NovaException as error:
            LOG.error('Server %s has left; what it still has here could not be removed: %s', server.uuid, error)
        self.conductor.live_migration_arrived(ctx, migration_id=migration.id, host=self.host)
        try:
            self.network.client.refresh_security(ctx, server=self.host,
                                                 port_ids=[vif['id'] for vif in server.network_info])
        except exception.Unavailable:
            LOG.info('The plumbing of server %s here goes at the next look.', server.uuid)

    def _live_migration_failed(self, ctx, migration, error):
        trace = faults.trace(error)
        self.conductor.live_migration_failed(
            ctx, migration_id=migration.id, host=self.host, fault=faults.fault(error, details=trace), traceback=trace,
            aborted=isinstance(error, (exception.MigrationAborted, exception.InstanceChanged)))

    def abort_live_migration(self, ctx, instance):
        with self.told(ctx, instance, 'live_migration_abort'):
            self.driver.abort_live_migration(instance)

    def force_complete_live_migration(self, ctx, instance):
        with self.told(ctx, instance, 'live_migration_force_complete'):
            self.driver.force_complete_live_migration(instance)

    def stop_migrating(self, instance):
        """A delete does not wait for a migration to end."""
        if isinstance(self.driver, virt.LiveMigration):
            self.driver.abort_live_migration(instance)

    # ---- after a restart, or when a message was lost ----

    def resume_live_migration(self, ctx, instance):
        self.queue.submit(instance.uuid, self._resume_live_migration, ctx, instance)

    def _resume_live_migration(self, ctx, instance):
        """Tell where the guest is; the conductor decides by it."""
        here = instance.uuid in self.driver.guests()
        left = self.conductor.resume_live_migration(ctx, instance_uuid=instance.uuid, host=self.host, here=here)
        if left:
            self.driver.post_live_migration_at_source(ctx, instance, instance.network_info, {})


class _Throttle:
    """Progress in portions: the newest values, at most once in REPORT_S, and when all is copied."""

    def __init__(self, report):
        self._report, self._next = report, 0

    def __call__(self, values):
        now = time.monotonic()
        if now >= self._next or not values['memory_remaining_bytes'] + values['disk_remaining_bytes']:
            self._next = now + REPORT_S
            self._report(values)
