"""Rescue: a server runs from another image for a while, to be repaired."""
import contextlib

from nova import exception
from nova import states
from nova import utils


class Rescue:
    """The part of the compute's manager that rescues; mixed into it."""

    def rescue_instance(self, ctx, instance, image_id, admin_password, clean_shutdown):
        self.queue.submit(instance.uuid, self._rescue, ctx, instance, image_id, admin_password, clean_shutdown,
                          build=True)

    def _rescue(self, ctx, instance, image_id, admin_password, clean_shutdown):
        """Done again from the beginning after a crash: the rescue disk is made anew."""
        with self.task(ctx, instance, 'compute_rescue_instance', running=(states.RESCUING,),
                       failed={'vm_state': states.ERROR}) as task:
            server = task.instance
            image = self.images.show(task.ctx, image_id)
            devices = self.conductor.get_block_devices(ctx, instance_uuid=server.uuid)
            networks = self._networks(ctx, server)
            with contextlib.suppress(exception.GuestNotFound):       # a server in ERROR may have lost its guest
                self.driver.power_off(server, self.conf.shutdown_timeout if clean_shutdown else 0)
            self.driver.rescue(task.ctx, server, networks, image, admin_password, devices)
            task.ends(vm_state=states.RESCUED, power_state=self.driver.power_state(server),
                      launched_at=utils.utcnow())

    def unrescue_instance(self, ctx, instance):
        self.queue.submit(instance.uuid, self._unrescue, ctx, instance)

    def _unrescue(self, ctx, instance):
        with self.task(ctx, instance, 'compute_unrescue_instance', running=(states.UNRESCUING,),
                       failed={'vm_state': states.ERROR}) as task:
            self.driver.unrescue(ctx, task.instance, self._networks(ctx, task.instance))
            task.ends(vm_state=states.ACTIVE, power_state=self.driver.power_state(task.instance))
