"""Operations on one guest that leave its server as it is: password, crash dump, diagnostics, consoles, networks."""
import base64
import logging
import threading
import typing

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import notifications
from nova.compute import screenshots
from nova.compute import tasks
from nova.compute.host import Host
from nova.objects import faults
from nova.runtime import concurrency
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

CONSOLE_BYTES = 100 * 1024


class GuestOperations:
    """Operations on guests."""

    def __init__(self, host: Host, notifier: notifications.Notifier) -> None:
        self._host, self._notifier = host, notifier
        self._screens = threading.BoundedSemaphore(screenshots.AT_ONCE)

    def set_admin_password(self, ctx: context.RequestContext, instance: objects.Instance,
                           admin_password: str) -> None:
        self._host.submit(instance, self._set_admin_password, ctx, instance, admin_password)

    def _set_admin_password(self, ctx: context.RequestContext, instance: objects.Instance,
                            admin_password: str) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['changePassword']) as task:
            host.driver_with(virt.Password).set_admin_password(task.instance, admin_password)

    def trigger_crash_dump(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._host.submit(instance, self._without_task, ctx, instance, 'crash dump', self._crash_dump)

    def _crash_dump(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        with self._notifier.event(ctx, instance, 'trigger_crash_dump'):
            self._host.driver_with(virt.CrashDump).trigger_crash_dump(instance)

    def inject_network_info(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Set up what this host has of the server's networks again."""
        host = self._host
        host.submit(instance, self._without_task, ctx, instance, 'network set-up', host.set_up_networks)

    def _without_task(self, ctx: context.RequestContext, instance: objects.Instance, what: str,
                      function: typing.Callable[[context.RequestContext, objects.Instance], typing.Any]) -> None:
        """Something that has no task state; when it fails the server shows why."""
        host = self._host
        try:
            function(ctx, instance)
        except exception.NovaException as error:
            LOG.warning('The %s of server %s failed: %s', what, instance.uuid, error.message)
            host.conductor.update_instance(
                ctx, instance_uuid=instance.uuid, expect={'host': [host.name]},
                values={'fault': faults.fault(error, details=faults.trace(error))})

    def get_diagnostics(self, ctx: context.RequestContext, instance: objects.Instance) -> dict[str, typing.Any]:
        """See virt.driver.Diagnostics; and ``state``, the power state in a word.

        :raises InstanceInvalidState: it does not run
        """
        state = self._running_state(instance, 'get_diagnostics')
        return {**self._host.driver_with(virt.Diagnostics).diagnostics(instance), 'state': state}

    def _running_state(self, instance: objects.Instance, method: str) -> str:
        try:
            state = self._host.driver.power_state(instance)
        except exception.GuestNotFound:
            state = states.NOSTATE
        if state != states.RUNNING:
            raise exception.InstanceInvalidState(attr='power_state', instance_id=instance.uuid, method=method,
                                                 state=states.POWER_STATE_NAMES[state])
        return states.POWER_STATE_NAMES[state]

    def get_console(self, ctx: context.RequestContext, instance: objects.Instance, kind: str,
                    ) -> dict[str, typing.Any] | None:
        """See virt.driver.Consoles.console.

        :raises InstanceNotReady: the server has no guest at the moment
        """
        try:
            return self._host.driver_with(virt.Consoles).console(instance, kind)
        except exception.GuestNotFound:
            raise exception.InstanceNotReady(instance_id=instance.uuid) from None

    def get_console_screenshot(self, ctx: context.RequestContext, instance: objects.Instance) -> str:
        """What the screen shows: JPEG, in base64.

        :raises InstanceInvalidState: it does not run
        :raises InstanceNotReady: its guest has gone meanwhile
        :raises Unsupported: this host makes no screenshots, or the server has no screen
        :raises ServiceBusy: others are being taken, which may hang with their guests
        """
        self._running_state(instance, 'get_console_screenshot')
        screenshots.check()
        if not self._screens.acquire(blocking=False):
            raise exception.ServiceBusy(retry_after=screenshots.RETRY_S)
        try:
            taken = self._host.driver_with(virt.Screenshots).screenshot(instance)
            return base64.b64encode(concurrency.blocking(screenshots.jpeg, taken)).decode()
        except exception.GuestNotFound:
            raise exception.InstanceNotReady(instance_id=instance.uuid) from None
        finally:
            self._screens.release()

    def get_console_output(self, ctx: context.RequestContext, instance: objects.Instance, length: int | None) -> str:
        """The last ``length`` lines of the serial console, all that is kept (100 KiB) for None.

        A client that requests a number of lines and counts them finds that number: no newline follows the last one.

        :raises InstanceNotReady: the server has no guest at the moment
        """
        try:
            output = self._host.driver.console_output(instance)
        except exception.GuestNotFound:
            raise exception.InstanceNotReady(instance_id=instance.uuid) from None
        text = output[-CONSOLE_BYTES:].decode('utf-8', errors='replace')
        if length is None:
            return text
        lines = text.removesuffix('\n').split('\n')
        return '\n'.join(lines[-length:]) if length > 0 else ''
