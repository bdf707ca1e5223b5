"""Soft delete: the server is switched off and kept for a while, in which it can be restored."""
import contextlib

from nova import exception
from nova import states
from nova import utils


class SoftDelete:
    """The part of the compute's manager that deletes servers for the time being; mixed into it."""

    def soft_delete_instance(self, ctx, instance):
        self.queue.submit(instance.uuid, self._soft_delete, ctx, instance)

    def _soft_delete(self, ctx, instance):
        with self.task(ctx, instance, 'compute_soft_delete_instance', running=(states.SOFT_DELETING,)) as task:
            power_state = states.NOSTATE
            with contextlib.suppress(exception.GuestNotFound):       # there is nothing to switch off
                if task.instance.vm_state == states.RESCUED:
                    self.driver.unrescue(ctx, task.instance, self._networks(ctx, task.instance))
                self.driver.power_off(task.instance)
                power_state = self.driver.power_state(task.instance)
            task.ends(vm_state=states.SOFT_DELETED, power_state=power_state, deleted_at=utils.utcnow())

    def restore_instance(self, ctx, instance):
        self.queue.submit(instance.uuid, self._restore, ctx, instance)

    def _restore(self, ctx, instance):
        with self.task(ctx, instance, 'compute_restore_instance', running=(states.RESTORING,),
                       failed={'vm_state': states.SOFT_DELETED}) as task:
            self.driver.power_on(ctx, task.instance, self._networks(ctx, task.instance))
            task.ends(vm_state=states.ACTIVE, power_state=self.driver.power_state(task.instance), deleted_at=None)
