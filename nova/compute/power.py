"""Power operations: start, stop, reboot, pause and suspend, and the reverse operations."""
import dataclasses
import typing

from nova import actions
from nova import context
from nova import objects
from nova import states
from nova.compute import device_addresses
from nova.compute import tasks
from nova.compute.host import Host
from nova.virt import driver as virt

Body = typing.Callable[[objects.Instance], typing.Any]


# States of the task that starts an ACTIVE server without a running guest. Unlike os-start, the task begins without a
# task state, and its failure sets ERROR.
START_AGAIN = dataclasses.replace(actions.ACTIONS['os-start'].frame, taken_in=(None,), started=states.POWERING_ON,
                                  on_failure=states.ERROR)


class Power:
    """Power operations of servers."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def start_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'os-start', lambda server: self._power_on(ctx, server))

    def stop_instance(self, ctx: context.RequestContext, instance: objects.Instance, clean_shutdown: bool) -> None:
        timeout = self._host.conf.shutdown_timeout if clean_shutdown else 0
        self._submit(ctx, instance, 'os-stop', lambda server: self._host.driver.power_off(server, timeout))

    def reboot_instance(self, ctx: context.RequestContext, instance: objects.Instance, reboot_type: str) -> None:
        """Reboot a server.

        :param reboot_type: 'SOFT' or 'HARD'
        """
        host, hard = self._host, reboot_type == 'HARD'

        def body(server: objects.Instance) -> None:
            networks = host.set_up_networks(ctx, server) if hard else server.network_info
            host.driver.reboot(ctx, server, networks, hard)
        self._submit(ctx, instance, 'reboot-hard' if hard else 'reboot', body)

    def pause_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'pause', lambda server: self._host.driver_with(virt.Pause).pause(server))

    def unpause_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'unpause', lambda server: self._host.driver_with(virt.Pause).unpause(server))

    def suspend_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'suspend', lambda server: self._host.driver_with(virt.Suspend).suspend(server))

    def resume_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        self._submit(ctx, instance, 'resume', lambda server: (
            host.driver_with(virt.Suspend).resume(ctx, server, host.set_up_networks(ctx, server))))

    def start_again(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Start a server that is ACTIVE without a running guest; a failure sets ERROR with its reason."""
        self._host.submit(instance, self._start_again, ctx, instance)

    def _start_again(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._perform(ctx, instance, START_AGAIN, lambda server: self._power_on(ctx, server))

    def start_if_off(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """After its earlier tasks, start a server that is then ACTIVE and idle without a running guest."""
        self._host.submit(instance, self._start_if_off, ctx, instance)

    def _start_if_off(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        host.conductor.update_instance(ctx, instance_uuid=instance.uuid, values={}, expect={
            'host': [host.name], 'vm_state': [states.ACTIVE], 'task_state': [None]})
        if host.driver.guest_state(instance.uuid) in (None, states.SHUTDOWN, states.CRASHED):
            self._start_again(ctx, instance)

    def _power_on(self, ctx: context.RequestContext, server: objects.Instance) -> None:
        self._host.driver.power_on(ctx, server, self._host.set_up_networks(ctx, server))

    def _submit(self, ctx: context.RequestContext, instance: objects.Instance, name: str, body: Body) -> None:
        self._host.submit(instance, self._perform, ctx, instance, actions.ACTIONS[name].frame, body)

    def _perform(self, ctx: context.RequestContext, instance: objects.Instance, frame: actions.Frame,
                 body: Body) -> None:
        with tasks.task(self._host, ctx, instance, frame) as task:
            body(task.instance)
            if frame.task_event in tasks.STARTS:
                device_addresses.record(self._host, ctx, task.instance)
            task.ends(power_state=self._host.driver.power_state(task.instance))
