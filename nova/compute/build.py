"""Building servers on this host."""
import base64

from nova import actions
from nova import context
from nova import exception
from nova import hooks
from nova import objects
from nova.objects.block_device import BlockDevice
from nova.objects.network_info import Vif
from nova import states
from nova import utils
from nova.compute import inventory
from nova.compute import tasks
from nova.compute import volumes
from nova.compute.host import Host
from nova.compute.ports import plugging
from nova.hardware import guest_options
from nova.objects import faults
from nova.runtime import metrics
from nova.virt import driver as virt
from nova.virt import metadata

# Errors that would occur on every host: the request is invalid, or its resources do not exist.
FINAL = (exception.BadRequest, exception.Forbidden, exception.NotFound, exception.Conflict)


def spawn_request(host: Host, task: tasks.Task, instance: objects.Instance, spec: objects.RequestSpec,
                  network_info: list[Vif], block_devices: list[BlockDevice],
                  keep_machine: bool = False) -> virt.SpawnRequest:
    """Return the driver's request to create the guest.

    The image is the one in the server's row, which a rebuild may have changed.

    :raises BuildFailed: this host does not support an option of the flavor or image. The scheduler has not checked
        the options if the host was forced or already has the server
    """
    check_options(host, instance)
    image = None
    if instance.image_id:
        image = spec.image
        if (image or {}).get('id') != instance.image_id:
            image = host.images.show(task.ctx, instance.image_id)
    files = [(each['path'], base64.b64decode(each['contents'])) for each in spec.injected_files or ()]
    drive = None
    if instance.config_drive:
        drive = metadata.files(instance, network_info, files, spec.admin_password, host.conf.metadata.dhcp_domain,
                               block_devices)
    return virt.SpawnRequest(image=image, network_info=network_info, block_devices=block_devices,
                             injected_files=files, admin_password=spec.admin_password, config_drive=drive,
                             await_networks=_network_wait(host, task.ctx, instance, network_info),
                             report=task.gauge(), keep_machine=keep_machine)


def _network_wait(host: Host, ctx: context.RequestContext, instance: objects.Instance,
                  network_info: list[Vif]) -> plugging.Waiter | None:
    def look() -> None:
        now = host.conductor.update_instance(ctx, instance_uuid=instance.uuid, values={},
                                             expect={'host': [host.name]})
        if now.task_state == states.DELETING:
            raise exception.InstanceChanged(instance_id=instance.uuid)
        if host.stopping.is_set():
            raise exception.ServiceStopping(instance_id=instance.uuid)
    return host.plugging.waiter(instance.uuid, network_info, host.conf.vif_plugging_timeout,
                                host.conf.vif_plugging_is_fatal, look)


def check_options(host: Host, instance: objects.Instance) -> None:
    """Check the options of the server's flavor and image.

    :raises BuildFailed: this host does not support one of them
    """
    needed = guest_options.traits((instance.flavor or {}).get('extra_specs'), instance.image_properties)
    missing = needed.difference(host.driver.guest_traits()) if needed else ()
    if missing:
        raise exception.BuildFailed(instance_id=instance.uuid, reason=(
            f'host {host.name} cannot do what the flavor or the image asks for: {", ".join(sorted(missing))}'))


class Builder:
    """Builds servers."""

    def __init__(self, host: Host, volumes: volumes.Volumes, inventory: inventory.Inventory) -> None:
        self._host, self._volumes, self._inventory = host, volumes, inventory

    def build_instance(self, ctx: context.RequestContext, instance: objects.Instance,
                       spec: objects.RequestSpec) -> None:
        self._host.submit(instance, self._build, ctx, instance, spec, build=True)

    def build_again(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Repeat a build after a restart: first remove the unfinished guest, which no user has seen."""
        self._host.submit(instance, self._build_again, ctx, instance, build=True)

    def _build_again(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        spec = self._host.conductor.get_request_spec(ctx, instance_uuid=instance.uuid)
        if not spec.is_adoption:                 # keep an adopted guest, which is in use
            self._host.driver.destroy(ctx, instance, instance.network_info)
        self._build(ctx, instance, spec)

    def _build(self, ctx: context.RequestContext, instance: objects.Instance, spec: objects.RequestSpec) -> None:
        host = self._host

        def give_up(task: tasks.Task, error: Exception) -> None:
            fault = faults.fault(error, details=faults.trace(error))
            fault['final'] = isinstance(error, FINAL)
            host.conductor.reschedule_instance(ctx, instance_uuid=instance.uuid, host=host.name,
                                               node=task.instance.node or '', fault=fault)
            if not fault['final']:
                self._inventory.count_build(failed=True)

        with tasks.task(host, ctx, instance, actions.BUILD.frame, give_up=give_up) as task:
            self._spawn(ctx, task.instance, spec, task)
        if task.ended:
            self._inventory.count_build(failed=False)
            # a negative time is possible, because the clocks of API and compute hosts may differ
            metrics.BUILD_SECONDS.observe(max(0, (utils.utcnow() - task.instance.created_at).total_seconds()))

    @hooks.add_hook('build_instance')
    def _spawn(self, ctx: context.RequestContext, server: objects.Instance, spec: objects.RequestSpec,
               task: tasks.Task) -> None:
        host = self._host
        network_info = self._allocate(ctx, server, spec, task)
        server.network_info = network_info
        task.undo(self._volumes.disconnect, ctx, server, spec.block_devices or [])
        if spec.is_adoption:
            self._adopt(server, spec, task)
            return
        task.undo_guest(host.driver.destroy, ctx, server, network_info)
        devices = self._volumes.connect(ctx, server, spec)
        host.driver.spawn(task.ctx, server, spawn_request(host, task, server, spec, network_info, devices))
        self._volumes.complete(ctx, server, devices)
        task.ends(power_state=host.driver.power_state(server), launched_at=utils.utcnow(), network_info=network_info)

    def _allocate(self, ctx: context.RequestContext, server: objects.Instance, spec: objects.RequestSpec,
                  task: tasks.Task) -> list[Vif]:
        """Allocate the ports of a new server. A server without networks needs no request to the network service."""
        host = self._host
        if spec.has_no_networks:
            return []
        task.undo(self._leave_ports, ctx, task)
        return host.network.allocate_for_instance(
            ctx, instance=server, requested_networks=spec.requested_networks,
            security_groups=spec.security_groups, host=host.name)

    def _leave_ports(self, ctx: context.RequestContext, task: tasks.Task) -> None:
        """Unbind the ports, and keep them for the next host, or for the next start of this one, because they may have
        public addresses. Release them if the server was deleted. After the last attempt, the conductor releases them.
        """
        network = self._host.network
        leave = network.deallocate_for_instance if task.superseded else network.unbind_ports
        leave(ctx, instance_uuid=task.instance.uuid, host=self._host.name)

    def _adopt(self, server: objects.Instance, spec: objects.RequestSpec, task: tasks.Task) -> None:
        """Adopt an existing guest. At its next start, the server's ports replace the guest's network devices."""
        driver = self._host.driver
        adoption = driver.get_feature(virt.Adoption)
        if adoption is None:
            raise exception.VirtError(operation='take over the guest', reason='the driver of this host cannot do it')
        task.undo(adoption.let_go, server)
        adoption.adopt(task.ctx, server, virt.SpawnRequest(image=spec.image, network_info=server.network_info))
        power_state = driver.power_state(server)
        if power_state == states.SHUTDOWN:
            task.ends(vm_state=states.STOPPED)
        task.ends(power_state=power_state, launched_at=utils.utcnow(), network_info=server.network_info)
