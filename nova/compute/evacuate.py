"""Evacuation: a server of a dead host is built here, and a host that was dead cleans up after it."""
import logging

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import build
from nova.objects import faults

LOG = logging.getLogger(__name__)


class Evacuation:
    """The part of the compute's manager that takes in servers of a dead host, or cleans up as one; mixed into it."""

    def evacuate_instance(self, ctx, instance, spec, migration):
        self.queue.submit(instance.uuid, self._evacuate, ctx, instance, spec, migration, build=True)

    def _evacuate(self, ctx, instance, spec, migration):
        """Done again from the beginning after a crash."""
        def failed(task, error):
            trace = faults.trace(error)
            self.conductor.evacuation_failed(
                ctx, migration_id=migration.id, host=self.host, fault=faults.fault(error, details=trace),
                traceback=trace)

        with self.task(ctx, instance, 'compute_rebuild_instance', running=(states.REBUILDING,),
                       on_failure=failed) as task:
            server, asked = task.instance, migration.arguments
            task.undo(self.network.setup_for_instance, ctx, instance=server, host=migration.source_compute)
            vifs = self.network.setup_for_instance(ctx, instance=server, host=self.host)
            self.disconnect_volumes(ctx, server)
            task.undo(self.disconnect_volumes, ctx, server)
            devices = self.block_devices(ctx, server, spec)
            shared = self._disks_are_here(server, asked)
            self.driver.destroy(ctx, server, vifs, keep_disks=shared)
            task.undo(self.driver.destroy, ctx, server, vifs, keep_disks=shared)
            if shared:
                self.driver.power_on(ctx, server, vifs)
            else:
                self.driver.spawn(task.ctx, server, build.spawn_request(
                    task.ctx, self.images, server, spec, vifs, devices, self.dhcp_domain))
            self.complete_volumes(ctx, server, devices)
            after = states.ACTIVE
            if asked['leave_stopped'] or server.vm_state == states.STOPPED:
                self.driver.power_off(server)
                after = states.STOPPED
            task.ends(vm_state=after, power_state=self.driver.power_state(server), network_info=vifs)
            task.ends_with(lambda: self.conductor.evacuation_finished(
                ctx, migration_id=migration.id, host=self.host, values=task.values))

    def _disks_are_here(self, server, asked):
        """Whether the disks stand on storage that this host shares with the dead one.

        :raises VirtError: it was said so, and is not true
        """
        found = self.driver.has_disks(server)
        if asked['on_shared_storage'] and not found:
            raise exception.VirtError(operation='evacuate', reason='the disks are not on shared storage')
        return found and asked['on_shared_storage'] is not False

    def remove_evacuated_guests(self, ctx):
        """Guests whose servers were taken elsewhere: never two of one server. Those not done yet are only stopped."""
        for entry in self.conductor.evacuated_from(ctx, host=self.host):
            self.queue.submit(entry['instance_uuid'], self._clean_evacuated, ctx, entry)

    def clean_evacuated(self):
        """Periodic: the same, should a message have been lost."""
        self.remove_evacuated_guests(context.admin_context())

    def _clean_evacuated(self, ctx, entry):
        guest = objects.Instance(uuid=entry['instance_uuid'], network_info=[])
        if not entry['over']:
            if self.driver.guests().get(guest.uuid) not in (None, states.SHUTDOWN):
                LOG.warning('Server %s is being evacuated from this host; its guest here is stopped.', guest.uuid)
                self.driver.power_off(guest)
            return
        if not entry['home']:
            LOG.info('Server %s was evacuated from this host; its guest here is removed.', guest.uuid)
            self.driver.destroy(ctx, guest, [], keep_disks=entry['shared'])
        self.conductor.evacuated_guest_removed(ctx, migration_id=entry['id'], host=self.host)
