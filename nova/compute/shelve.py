"""Shelving: a server becomes an image, leaves its host, and is unshelved on any host."""
import logging

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova.objects.network_info import Vif
from nova import states
from nova import utils
from nova.compute import build
from nova.compute import device_addresses
from nova.compute import images
from nova.compute import tasks
from nova.compute import volumes
from nova.compute.host import Host
from nova.image.embedded import incomplete
from nova.objects import faults
from nova.objects.instance import SHELVED_AT as SINCE
from nova.objects.instance import SHELVED_IMAGE as IMAGE
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

_STEPS = {states.IMAGE_PENDING_UPLOAD: states.SHELVING_IMAGE_PENDING_UPLOAD,
          states.IMAGE_UPLOADING: states.SHELVING_IMAGE_UPLOADING}


class Shelve:
    """Shelves, offloads and unshelves servers."""

    def __init__(self, host: Host, volumes: volumes.Volumes) -> None:
        self._host, self._volumes = host, volumes

    def shelve_instance(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str | None,
                        clean_shutdown: bool) -> None:
        self._host.submit(instance, self._shelve, ctx, instance, image_id, clean_shutdown)

    def _shelve(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str | None,
                clean_shutdown: bool) -> None:
        """Shelve a server. After a crash the task is repeated, but a complete image is kept.

        :param image_id: the queued image for the disk; None for a server that boots from a volume, which is offloaded
            immediately
        """
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['shelve'].frame) as task:
            server = task.instance
            if image_id:
                task.undo(images.remove, host, task.ctx, image_id)
            elif server.image_id:
                raise exception.VirtError(operation='shelve the server', reason='the request names no image')
            # a repeated shelve finds the guest of an active server powered off
            if host.driver.power_state(server) == states.RUNNING or server.vm_state == states.ACTIVE:
                task.undo(host.driver.power_on, ctx, server, server.network_info)
            whole = image_id and incomplete.is_complete(images.of_task(host, task), image_id)
            host.driver.power_off(server, host.conf.shutdown_timeout if clean_shutdown else 0)
            if image_id and not whole:
                host.driver_with(virt.Snapshot).snapshot(
                    task.ctx, server, image_id, lambda state: task.step(_STEPS[state]), task.gauge())
            shelved = {'vm_state': task.after, 'power_state': host.driver.power_state(server),
                       'system_metadata': {IMAGE: image_id, SINCE: utils.utcnow().isoformat()}}
            if image_id and host.conf.shelved_offload_time:
                task.ends(**shelved)
            else:
                task.step(states.SHELVING_OFFLOADING, progress=0, **shelved)
                task.keep()              # no rollback after this state
                self._release_host(ctx, task)

    def shelve_offload_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._host.submit(instance, self._offload, ctx, instance)

    def _offload(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        with tasks.task(self._host, ctx, instance, actions.ACTIONS['shelveOffload'].frame) as task:
            self._release_host(ctx, task)

    def _release_host(self, ctx: context.RequestContext, task: tasks.Task) -> None:
        """Remove the guest; the server keeps its addresses and volumes."""
        host, server = self._host, task.instance
        host.driver.destroy(ctx, server, server.network_info)
        host.network.unbind_ports(ctx, instance_uuid=server.uuid, host=host.name)
        task.leaves = True
        task.ends_with(lambda: host.conductor.instance_offloaded(
            ctx, instance_uuid=server.uuid, event=actions.ACTIONS['shelveOffload'].frame.task_event, host=host.name,
            task_state=states.SHELVING_OFFLOADING, fault=None))

    # ---- unshelve ----

    def unshelve_instance(self, ctx: context.RequestContext, instance: objects.Instance,
                          spec: objects.RequestSpec) -> None:
        self._host.submit(instance, self._unshelve, ctx, instance, spec, build=True)

    def _unshelve(self, ctx: context.RequestContext, instance: objects.Instance, spec: objects.RequestSpec) -> None:
        """Unshelve the server, and then delete the image.

        After a crash the task is repeated; if the row is still SHELVED_OFFLOADED, the guest is created again.
        """
        host, frame = self._host, actions.ACTIONS['unshelve'].frame

        def give_up(task: tasks.Task, error: Exception) -> None:
            if task.instance.vm_state != states.SHELVED_OFFLOADED:
                task.failed(error)
                return
            fault = faults.fault(error, details=faults.trace(error))
            host.conductor.instance_offloaded(ctx, instance_uuid=instance.uuid, event=frame.task_event, host=host.name,
                                              task_state=states.UNSHELVING, fault=fault)

        with tasks.task(host, ctx, instance, frame, give_up=give_up) as task:
            server = task.instance
            image_id = server.system_metadata.get(IMAGE)
            if server.vm_state == states.SHELVED_OFFLOADED:
                task.undo(host.network.unbind_ports, ctx, instance_uuid=server.uuid, host=host.name)
            networks = host.set_up_networks(ctx, server)
            if server.vm_state == states.SHELVED:
                host.driver.power_on(ctx, server, networks)
                device_addresses.record(host, ctx, server)
            elif server.vm_state == states.SHELVED_OFFLOADED:
                task.undo_guest(host.driver.destroy, ctx, server, networks)
                self._spawn_shelved(task, spec, image_id, networks)
            power_state = host.driver.power_state(server)
            if task.after is not None and server.vm_state != task.after:
                task.step(states.UNSHELVING, vm_state=task.after, power_state=power_state,
                          launched_at=utils.utcnow(), network_info=networks)
                task.keep()
                server.vm_state = task.after
            if image_id:
                self._remove_shelved_image(task.ctx, server, image_id)
            task.ends(power_state=power_state, system_metadata={IMAGE: None, SINCE: None})

    def _spawn_shelved(self, task: tasks.Task, spec: objects.RequestSpec, image_id: str | None,
                       networks: list[Vif]) -> None:
        host, ctx, server = self._host, task.ctx, task.instance
        devices = self._volumes.connect(ctx, server, spec)
        request = build.spawn_request(host, task, server, spec, networks, devices)
        if image_id:
            request.image = host.images.show(ctx, image_id)
        host.driver.spawn(ctx, server, request)
        self._volumes.complete(ctx, server, devices)

    def _remove_shelved_image(self, ctx: context.RequestContext, server: objects.Instance, image_id: str) -> None:
        try:
            images.remove(self._host, ctx, image_id)
        except exception.Forbidden as error:          # the user has protected the image
            LOG.warning('Cannot delete image %s of server %s: %s', image_id, server.uuid, error.message)
