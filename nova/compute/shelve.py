"""Shelving: a server becomes an image, leaves its host, and comes back on any host."""
import contextlib
import logging

from nova import exception
from nova import states
from nova import utils
from nova.compute import build
from nova.image.embedded import unfinished
from nova.objects import faults
from nova.objects.instance import SHELVED_AT as SINCE
from nova.objects.instance import SHELVED_IMAGE as IMAGE

LOG = logging.getLogger(__name__)

SHELVING = (states.SHELVING, states.SHELVING_IMAGE_PENDING_UPLOAD, states.SHELVING_IMAGE_UPLOADING)
_STEPS = {states.IMAGE_PENDING_UPLOAD: states.SHELVING_IMAGE_PENDING_UPLOAD,
          states.IMAGE_UPLOADING: states.SHELVING_IMAGE_UPLOADING}


class Shelve:
    """The part of the compute's manager that shelves; mixed into it."""

    def shelve_instance(self, ctx, instance, image_id, clean_shutdown):
        self.queue.submit(instance.uuid, self._shelve, ctx, instance, image_id, clean_shutdown)

    def _shelve(self, ctx, instance, image_id, clean_shutdown):
        """After a crash it is done again; an image that is whole already stays as it is.

        :param image_id: the image to fill; None for a server that boots from a volume, which leaves its host at once
        """
        with self.task(ctx, instance, 'compute_shelve_instance', running=SHELVING,
                       begin={'task_state': states.SHELVING}) as task:
            server = task.instance
            if image_id:
                task.undo(self._remove_image, task.ctx, image_id)
            elif server.image_id:
                raise exception.VirtError(operation='shelve the server', reason='it is not known which image to fill')
            whole = image_id and unfinished.whole(self._images_of(task), image_id)
            if self.driver.power_state(server) == states.RUNNING:
                task.undo(self.driver.power_on, ctx, server, server.network_info)
            self.driver.power_off(server, self.conf.shutdown_timeout if clean_shutdown else 0)
            if image_id and not whole:
                self.driver.snapshot(task.ctx, server, image_id, lambda state: task.step(_STEPS[state]))
            shelved = {'vm_state': states.SHELVED, 'power_state': self.driver.power_state(server),
                       'system_metadata': {IMAGE: image_id, SINCE: utils.utcnow().isoformat()}}
            if image_id and self.conf.shelved_offload_time:
                task.ends(**shelved)
            else:
                task.step(states.SHELVING_OFFLOADING, **shelved)
                task.keep()              # from here on it goes forward only
                self._leave_host(ctx, task)

    def shelve_offload_instance(self, ctx, instance):
        self.queue.submit(instance.uuid, self._offload, ctx, instance)

    def _offload(self, ctx, instance):
        with self.task(ctx, instance, 'compute_shelve_offload_instance',
                       running=(states.SHELVING_OFFLOADING,)) as task:
            self._leave_host(ctx, task)

    def _leave_host(self, ctx, task):
        """Remove the guest; its addresses and volumes stay the server's."""
        server = task.instance
        self.driver.destroy(ctx, server, server.network_info)
        self.network.leave_host(ctx, instance_uuid=server.uuid, host=self.host)
        task.ends_with(lambda: self.conductor.leave_host(
            ctx, instance_uuid=server.uuid, event='compute_shelve_offload_instance', host=self.host,
            task_state=states.SHELVING_OFFLOADING, fault=None))

    # ---- and back ----

    def unshelve_instance(self, ctx, instance, spec):
        self.queue.submit(instance.uuid, self._unshelve, ctx, instance, spec, build=True)

    def _unshelve(self, ctx, instance, spec):
        """Bring the server back; the image is removed when the server does not need it any more.

        A crash is met by doing it again: while the row says SHELVED_OFFLOADED the guest is made anew.
        """
        event = 'compute_unshelve_instance'

        def give_up(task, error):
            if task.instance.vm_state != states.SHELVED_OFFLOADED:
                task.failed(error, {})
                return
            fault = faults.fault(error, details=faults.trace(error))
            self.conductor.leave_host(ctx, instance_uuid=instance.uuid, event=event, host=self.host,
                                      task_state=states.UNSHELVING, fault=fault)

        with self.task(ctx, instance, event, running=(states.UNSHELVING,), on_failure=give_up) as task:
            server = task.instance
            image_id = server.system_metadata.get(IMAGE)
            if server.vm_state == states.SHELVED_OFFLOADED:
                task.undo(self.network.leave_host, ctx, instance_uuid=server.uuid, host=self.host)
            networks = self._networks(ctx, server)
            if server.vm_state == states.SHELVED:
                self.driver.power_on(ctx, server, networks)
            elif server.vm_state == states.SHELVED_OFFLOADED:
                task.undo(self.driver.destroy, ctx, server, networks)
                self._spawn_shelved(task, spec, image_id, networks)
            power_state = self.driver.power_state(server)
            if server.vm_state != states.ACTIVE:
                task.step(states.UNSHELVING, vm_state=states.ACTIVE, power_state=power_state,
                          launched_at=utils.utcnow(), network_info=networks)
                task.keep()
                server.vm_state = states.ACTIVE
            if image_id:
                self._remove_shelved_image(task.ctx, server, image_id)
            task.ends(power_state=power_state, system_metadata={IMAGE: None, SINCE: None})

    def _spawn_shelved(self, task, spec, image_id, networks):
        ctx, server = task.ctx, task.instance
        devices = self.block_devices(ctx, server, spec)
        request = build.spawn_request(ctx, self.images, server, spec, networks, devices, self.dhcp_domain)
        if image_id:
            request.image = self.images.show(ctx, image_id)
        self.driver.spawn(ctx, server, request)
        self.complete_volumes(ctx, server, devices)

    def _remove_shelved_image(self, ctx, server, image_id):
        with contextlib.suppress(exception.ImageNotFound):
            try:
                self.images.delete(ctx, image_id)
            except exception.Forbidden as error:          # somebody protected it: it is his
                LOG.warning('Image %s of server %s stays: %s', image_id, server.uuid, error.message)
