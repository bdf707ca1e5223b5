"""Building and terminating servers on this host."""
import base64

from nova import exception
from nova import hooks
from nova import states
from nova import utils
from nova.objects import faults
from nova.runtime import metrics
from nova.virt import driver as virt
from nova.virt import metadata

# Of these no other host is better: what was asked for is wrong, or is not to be had anywhere.
FINAL = (exception.BadRequest, exception.Forbidden, exception.NotFound, exception.Conflict)


def spawn_request(ctx, images, instance, spec, network_info, block_devices, domain=''):
    """What a driver needs to make the guest: a virt.SpawnRequest.

    The image is what the server's row names, which a rebuild may have changed.

    :param ctx: of the task
    :param domain: what follows the host name in the documents of the config drive
    """
    image = None
    if instance.image_id:
        image = spec.image
        if (image or {}).get('id') != instance.image_id:
            image = images.show(ctx, instance.image_id)
    files = [(each['path'], base64.b64decode(each['contents'])) for each in spec.injected_files or ()]
    drive = None
    if instance.config_drive:
        drive = metadata.files(instance, network_info, files, spec.admin_password, domain)
    return virt.SpawnRequest(image=image, network_info=network_info, block_devices=block_devices,
                             injected_files=files, admin_password=spec.admin_password, config_drive=drive)


class Builder:
    """The part of the compute's manager that builds and terminates; mixed into it."""

    def build_instance(self, ctx, instance, spec):
        self.queue.submit(instance.uuid, self._build, ctx, instance, spec, build=True)

    def _build(self, ctx, instance, spec):
        def give_up(task, error):
            fault = faults.fault(error, details=faults.trace(error))
            fault['final'] = isinstance(error, FINAL)
            self.conductor.reschedule_instance(ctx, instance_uuid=instance.uuid, host=self.host,
                                               node=task.instance.node, fault=fault)
            if not fault['final']:
                self.count_build(failed=True)

        with self.task(ctx, instance, 'compute_build_instance', begin={'task_state': states.SPAWNING},
                       running=(states.SCHEDULING, states.BLOCK_DEVICE_MAPPING, states.NETWORKING,
                                states.SPAWNING), on_failure=give_up) as task:
            self._make(ctx, task.instance, spec, task)
        if task.ended:
            self.count_build(failed=False)
            # by the clocks of two hosts
            metrics.BUILD_SECONDS.observe(max(0, (utils.utcnow() - task.instance.created_at).total_seconds()))

    @hooks.add_hook('build_instance')
    def _make(self, ctx, server, spec, task):
        task.undo(self.network.deallocate_for_instance, ctx, instance_uuid=server.uuid, host=self.host)
        network_info = self.network.allocate_for_instance(
            ctx, instance=server, requested_networks=spec.requested_networks,
            security_groups=spec.security_groups, host=self.host)
        server.network_info = network_info
        task.undo(self.disconnect_volumes, ctx, server, spec.block_devices or [])
        task.undo(self.driver.destroy, ctx, server, network_info)
        devices = self.block_devices(ctx, server, spec)
        request = spawn_request(task.ctx, self.images, server, spec, network_info, devices, self.dhcp_domain)
        self.driver.spawn(task.ctx, server, request)
        self.complete_volumes(ctx, server, devices)
        task.ends(vm_state=states.ACTIVE, power_state=self.driver.power_state(server),
                  launched_at=utils.utcnow(), network_info=network_info)

    def terminate_instance(self, ctx, instance):
        self.stop_migrating(instance)
        self.queue.submit(instance.uuid, self._terminate, ctx, instance)

    def _terminate(self, ctx, instance):
        with self.task(ctx, instance, 'compute_terminate_instance', running=(states.DELETING,),
                       failed={'vm_state': states.ERROR}) as task:
            self.driver.destroy(ctx, task.instance, task.instance.network_info)
            self.network.deallocate_for_instance(ctx, instance_uuid=instance.uuid, host=None)
            task.ends_with(lambda: self.conductor.instance_destroyed(
                ctx, instance_uuid=instance.uuid, host=self.host))
