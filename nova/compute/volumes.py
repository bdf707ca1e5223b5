"""Volumes on this host: those of a server that is made or moved, and those that come, go or change later."""
import contextlib
import time

from nova import exception
from nova import states

POLL_S = 1           # between two looks at volumes that are being made


class Volumes:
    """The part of the compute's manager that works on volumes; mixed into it."""

    # ---- all volumes of a server

    def block_devices(self, ctx, server, spec):
        """Its block devices: local disks as they were asked for, and its volumes, connected to this host.

        :raises BuildFailed: a volume does not become usable in time, or the driver can attach none
        """
        asked = spec.block_devices or []
        local = [device for device in asked if device.get('destination_type') != 'volume']
        if server.vm_state == states.BUILDING and len(local) == len(asked):
            return local
        deadline = time.monotonic() + self.conf.volume.ready_timeout
        while True:
            volumes = self.conductor.prepare_volumes(ctx, instance_uuid=server.uuid, connector=self._connector())
            waiting = [device['volume_id'] for device in volumes if device['connection_info'] is None]
            if not waiting:
                return [*local, *volumes]
            if time.monotonic() > deadline:
                raise exception.BuildFailed(instance_id=server.uuid, reason='volumes were not ready in time: '
                                            + ', '.join(waiting))
            self._stopping.wait(POLL_S)

    def _connector(self):
        return self.driver.volume_connector() if self.driver.capabilities().get('volumes') else None

    def complete_volumes(self, ctx, server, devices):
        """The guest runs with these devices: what is a volume among them is in use."""
        if any(device.get('destination_type') == 'volume' for device in devices):
            self.conductor.complete_volumes(ctx, instance_uuid=server.uuid)

    def disconnect_volumes(self, ctx, server, devices=None):
        """This host lets go of the server's volumes, which stay the server's.

        :param devices: what block_devices told; None: not known
        """
        if devices is None or any(device.get('destination_type') == 'volume' for device in devices):
            self.conductor.disconnect_volumes(ctx, instance_uuid=server.uuid)

    # ---- one volume

    def attach_volume(self, ctx, instance, bdm_uuid):
        self.queue.submit(instance.uuid, self._attach_volume, ctx, instance, bdm_uuid)

    def _attach_volume(self, ctx, instance, bdm_uuid):
        """Done again after a crash: every step may have been taken already."""
        with recorded(), self.beside(ctx, instance, 'compute_attach_volume') as current:
            server, which = current.instance, {'instance_uuid': instance.uuid, 'bdm_uuid': bdm_uuid}
            current.undo(self.conductor.volume_detached, ctx, **which)
            device = self.conductor.connect_volume(ctx, connector=self._connector(), **which)
            current.undo(self.driver.detach_volume, ctx, server, device)
            self.driver.attach_volume(ctx, server, device)
            self.conductor.volume_attached(ctx, **which)

    def detach_volume(self, ctx, instance, bdm_uuid):
        self.queue.submit(instance.uuid, self._detach_volume, ctx, instance, bdm_uuid)

    def _detach_volume(self, ctx, instance, bdm_uuid):
        with recorded(), self.beside(ctx, instance, 'compute_detach_volume') as current:
            which = {'instance_uuid': instance.uuid, 'bdm_uuid': bdm_uuid}
            device = self.conductor.get_volume_device(ctx, **which)
            current.undo(self.conductor.volume_stays, ctx, **which)
            self.driver.detach_volume(ctx, current.instance, device)
            current.keep()
            self.conductor.volume_detached(ctx, **which)

    def swap_volume(self, ctx, instance, bdm_uuid, new_volume_id, new_attachment_id):
        self.queue.submit(instance.uuid, self._swap_volume, ctx, instance, bdm_uuid, new_volume_id,
                          new_attachment_id)

    def _swap_volume(self, ctx, instance, bdm_uuid, new_volume_id, new_attachment_id):
        with recorded(), self.beside(ctx, instance, 'compute_swap_volume') as current:
            which = {'instance_uuid': instance.uuid, 'bdm_uuid': bdm_uuid, 'new_volume_id': new_volume_id,
                     'new_attachment_id': new_attachment_id}
            device = self.conductor.get_volume_device(ctx, instance_uuid=instance.uuid, bdm_uuid=bdm_uuid)
            current.undo(self.conductor.volume_not_swapped, ctx, **which)
            info = self.conductor.connect_new_volume(
                ctx, attachment_id=new_attachment_id, connector=self._connector(), device_name=device['device_name'])
            new = {**device, 'volume_id': new_volume_id, 'attachment_id': new_attachment_id, 'connection_info': info}
            self.driver.swap_volume(ctx, current.instance, device, new)
            current.keep()
            self.conductor.volume_swapped(ctx, connection_info=info, **which)


@contextlib.contextmanager
def recorded():
    """A refusal is in the action's record by now; nobody waits for it."""
    try:
        yield
    except (exception.InstanceChanged, exception.InstanceNotFound):
        raise
    except exception.NovaException:
        return
