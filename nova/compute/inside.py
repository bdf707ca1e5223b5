"""What is done inside of a guest, and what is seen of it: password, crash dump, diagnostics, consoles."""
import logging

from nova import exception
from nova import states
from nova.objects import faults

LOG = logging.getLogger(__name__)


class Inside:
    """The part of the compute's manager for small matters of one guest; mixed into it."""

    def set_admin_password(self, ctx, instance, admin_password):
        self.queue.submit(instance.uuid, self._set_admin_password, ctx, instance, admin_password)

    def _set_admin_password(self, ctx, instance, admin_password):
        with self.task(ctx, instance, 'compute_set_admin_password', running=(states.UPDATING_PASSWORD,)) as task:
            self.driver.set_admin_password(task.instance, admin_password)

    def trigger_crash_dump(self, ctx, instance):
        self.queue.submit(instance.uuid, self._small, ctx, instance, 'crash dump',
                          self._crash_dump, ctx, instance)

    def _crash_dump(self, ctx, instance):
        with self.told(ctx, instance, 'trigger_crash_dump'):
            self.driver.trigger_crash_dump(instance)

    def inject_network_info(self, ctx, instance):
        """Set up what this host has of the server's networks once more."""
        self.queue.submit(instance.uuid, self._small, ctx, instance, 'network set-up', self._networks, ctx, instance)

    def _small(self, ctx, instance, what, function, *args):
        """Something that no task state stands for; when it fails the server shows why."""
        try:
            function(*args)
        except exception.NovaException as error:
            LOG.warning('The %s of server %s failed: %s', what, instance.uuid, error.message)
            self.conductor.update_instance(
                ctx, instance_uuid=instance.uuid, expect={'host': [self.host]},
                values={'fault': faults.fault(error, details=faults.trace(error))})

    def get_diagnostics(self, ctx, instance):
        """See virt.driver.Diagnostics; and ``state``, the power state in a word.

        :raises InstanceInvalidState: it does not run
        """
        state = self._running_state(instance, 'get_diagnostics')
        return {**self.driver.diagnostics(instance), 'state': state}

    def _running_state(self, instance, method):
        try:
            state = self.driver.power_state(instance)
        except exception.GuestNotFound:
            state = states.NOSTATE
        if state != states.RUNNING:
            raise exception.InstanceInvalidState(attr='power_state', instance_id=instance.uuid, method=method,
                                                 state=states.POWER_STATE_NAMES[state])
        return states.POWER_STATE_NAMES[state]

    def get_console(self, ctx, instance, kind):
        """See virt.driver.Consoles.console.

        :raises InstanceNotReady: the server has no guest at the moment
        """
        try:
            return self.driver.console(instance, kind)
        except exception.GuestNotFound:
            raise exception.InstanceNotReady(instance_id=instance.uuid) from None
