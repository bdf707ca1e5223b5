"""Operations on a guest that do not change its server: password, crash dump, diagnostics, consoles, networks."""
import base64
import logging
import threading
import typing

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import background_actions
from nova.compute import screenshots
from nova.compute import tasks
from nova.compute.host import Host
from nova.objects import faults
from nova.runtime import concurrency
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

CONSOLE_BYTES = 100 * 1024
_CRASH_DUMP = actions.ACTIONS['trigger_crash_dump'].frame.task_event


class GuestOperations:
    """Operations on guests."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock, self._set_ups = threading.Lock(), set[str]()     # servers with a queued network setup
        self._screens = threading.BoundedSemaphore(screenshots.MAX_CONCURRENT)

    def set_admin_password(self, ctx: context.RequestContext, instance: objects.Instance,
                           admin_password: str | None) -> None:
        self._host.submit(instance, self._set_admin_password, ctx, instance, admin_password)

    def _set_admin_password(self, ctx: context.RequestContext, instance: objects.Instance,
                            admin_password: str | None) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['changePassword'].frame) as task:
            if admin_password is None:
                raise exception.VirtError(operation='set the password', reason='the service was restarted before the '
                                          'password was set. Passwords are not stored: set it again')
            host.driver_with(virt.Password).set_admin_password(task.instance, admin_password)

    def trigger_crash_dump(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._host.submit(instance, self._without_task, ctx, instance, 'crash dump', self._crash_dump)

    def _crash_dump(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        dump = self._host.driver_with(virt.CrashDump).trigger_crash_dump
        with background_actions.action(self._host, ctx, instance, _CRASH_DUMP):
            dump(instance)

    def abandon_crash_dump(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Abandon a crash dump that a restart interrupted. No new dump follows: the guest may have started again."""
        self._host.submit(instance, self._abandon_crash_dump, ctx, instance)

    def _abandon_crash_dump(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        with background_actions.action(self._host, ctx, instance, _CRASH_DUMP) as current:
            current.fails('The crash dump was interrupted and is not repeated.')

    def inject_network_info(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Set up the server's networks on this host again; concurrent requests share one run."""
        with self._lock:
            if instance.uuid in self._set_ups:
                return
            self._set_ups.add(instance.uuid)
        self._host.submit(instance, self._without_task, ctx, instance, 'network set-up', self._set_up_networks)

    def _set_up_networks(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        with self._lock:
            self._set_ups.discard(instance.uuid)
        self._host.set_up_networks(ctx, instance)

    def _without_task(self, ctx: context.RequestContext, instance: objects.Instance, what: str,
                      function: typing.Callable[[context.RequestContext, objects.Instance], typing.Any]) -> None:
        """Run an operation without a task state; a failure is stored as the server's fault."""
        host = self._host
        try:
            function(ctx, instance)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            raise                        # not a fault: the server has changed or is deleted
        except exception.NovaException as error:
            LOG.warning('The %s of server %s failed: %s', what, instance.uuid, error.message)
            host.conductor.update_instance(
                ctx, instance_uuid=instance.uuid, expect={'host': [host.name]},
                values={'fault': faults.fault(error, details=faults.trace(error))})

    def get_diagnostics(self, ctx: context.RequestContext, instance: objects.Instance) -> dict[str, typing.Any]:
        """Return virt.driver.Diagnostics and ``state``, the name of the power state.

        :raises InstanceInvalidState: the server does not run
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
                    ) -> virt.ConsolePlace | None:
        """See virt.driver.Consoles.console.

        :raises InstanceNotReady: the server has no guest at the moment
        """
        try:
            return self._host.driver_with(virt.Consoles).console(instance, kind)
        except exception.GuestNotFound:
            raise exception.InstanceNotReady(instance_id=instance.uuid) from None

    def get_console_screenshot(self, ctx: context.RequestContext, instance: objects.Instance) -> str:
        """Return the screen as JPEG in base64.

        :raises InstanceInvalidState: the server does not run
        :raises InstanceNotReady: the server's guest is gone
        :raises Unsupported: this host cannot take screenshots, or the server has no screen
        :raises ServiceBusy: too many concurrent screenshots; a screenshot blocks if its guest hangs
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
        """Return the last ``length`` lines of the serial console; None: all retained output (100 KiB).

        The last line has no newline, so that a client that counts lines finds the requested number.

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
