"""The machine of this host, and the files of volume snapshots that its hypervisor makes for the volume service."""
import logging

from nova import exception

LOG = logging.getLogger(__name__)


class HostControl:
    """The part of the compute's manager for the whole host; mixed into it."""

    def host_power_action(self, ctx, action):
        return self.driver.host_power_action(action)

    def set_host_maintenance(self, ctx, enabled):
        self.driver.set_host_maintenance(enabled)


class AssistedSnapshots:
    """The part of the compute's manager that works for the volume service; mixed into it."""

    def create_volume_snapshot(self, ctx, instance, volume_id, create_info):
        self.queue.submit(instance.uuid, self._assist, ctx, create_info['snapshot_id'], 'creating', lambda: (
            self.driver.create_volume_snapshot(ctx, instance, volume_id, create_info)))

    def delete_volume_snapshot(self, ctx, instance, volume_id, snapshot_id, delete_info):
        self.queue.submit(instance.uuid, self._assist, ctx, snapshot_id, 'deleting', lambda: (
            self.driver.delete_volume_snapshot(ctx, instance, volume_id, snapshot_id, delete_info)))

    def _assist(self, ctx, snapshot_id, status, work):
        """Do it and tell the volume service, which waits for it: how far it is, or that it failed."""
        try:
            work()
            progress = '90%'
        except exception.NovaException as error:
            LOG.warning('Snapshot %s: %s', snapshot_id, error)
            status, progress = f'error_{status}' if status == 'deleting' else 'error', '0%'
        self.conductor.volume_snapshot_status(ctx, snapshot_id=snapshot_id, status=status, progress=progress)
