"""Rebuilding a server in place: same host, same addresses, new disks."""
from nova import states
from nova import utils
from nova.compute import build
from nova.objects.instance import REIMAGE


class Rebuild:
    """The part of the compute's manager that rebuilds; mixed into it."""

    def rebuild_instance(self, ctx, instance, spec, preserve_ephemeral):
        self.queue.submit(instance.uuid, self._rebuild, ctx, instance, spec, build=True)

    def _rebuild(self, ctx, instance, spec):
        """Done again from the beginning after a crash: nothing of the old disks is needed."""
        failed = {}                     # until the old disks go
        running = (states.REBUILDING, states.REBUILD_BLOCK_DEVICE_MAPPING, states.REBUILD_SPAWNING)
        with self.task(ctx, instance, 'compute_rebuild_instance', running=running,
                       begin={'task_state': states.REBUILDING}, failed=failed) as task:
            server = task.instance
            self.conductor.check_rebuild(ctx, instance_uuid=server.uuid)
            failed['vm_state'] = states.ERROR
            devices = self.block_devices(ctx, server, spec)
            self.driver.destroy(ctx, server, server.network_info)
            task.step(states.REBUILD_SPAWNING)
            image_id = server.system_metadata.get(REIMAGE)
            if image_id:
                self.conductor.reimage_root(ctx, instance_uuid=server.uuid, image_id=image_id)
                devices = self.block_devices(ctx, server, spec)
            network_info = self.network.setup_for_instance(ctx, instance=server, host=self.host)
            self.driver.spawn(task.ctx, server, build.spawn_request(
                task.ctx, self.images, server, spec, network_info, devices, self.dhcp_domain))
            self.complete_volumes(ctx, server, devices)
            after = states.ACTIVE
            if server.vm_state == states.STOPPED:
                self.driver.power_off(server)
                after = states.STOPPED
            task.ends(vm_state=after, power_state=self.driver.power_state(server), launched_at=utils.utcnow(),
                      network_info=network_info, **({'system_metadata': {REIMAGE: None}} if image_id else {}))
