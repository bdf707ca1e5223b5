"""Power operations: start, stop, reboot, pause, suspend and their opposites."""
import dataclasses
import typing

from nova import actions
from nova import context
from nova import objects
from nova import states
from nova.compute import tasks
from nova.compute.host import Host

Body = typing.Callable[[objects.Instance], typing.Any]

# of a server that should run, and does nothing else
START_AGAIN = dataclasses.replace(actions.ACTIONS['os-start'], tasks=(None,), started=states.POWERING_ON,
                                  on_failure=states.ERROR)


class Power:
    """Power operations of servers."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def start_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        self._submit(ctx, instance, 'os-start', lambda server: (
            host.driver.power_on(ctx, server, host.set_up_networks(ctx, server))))

    def stop_instance(self, ctx: context.RequestContext, instance: objects.Instance, clean_shutdown: bool) -> None:
        timeout = self._host.conf.shutdown_timeout if clean_shutdown else 0
        self._submit(ctx, instance, 'os-stop', lambda server: self._host.driver.power_off(server, timeout))

    def reboot_instance(self, ctx: context.RequestContext, instance: objects.Instance, reboot_type: str) -> None:
        """:param reboot_type: 'SOFT' or 'HARD'"""
        host, hard = self._host, reboot_type == 'HARD'

        def body(server: objects.Instance) -> None:
            networks = host.set_up_networks(ctx, server) if hard else server.network_info
            host.driver.reboot(ctx, server, networks, hard)
        self._submit(ctx, instance, 'reboot-hard' if hard else 'reboot', body)

    def pause_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'pause', self._host.driver.pause)

    def unpause_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'unpause', self._host.driver.unpause)

    def suspend_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'suspend', self._host.driver.suspend)

    def resume_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        self._submit(ctx, instance, 'resume', lambda server: (
            host.driver.resume(ctx, server, host.set_up_networks(ctx, server))))

    def start_again(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Start a server that is ACTIVE without a running guest; what fails is ERROR with its reason."""
        self._host.queue.submit(instance.uuid, self._start_again, ctx, instance)

    def _start_again(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        self._perform(ctx, instance, START_AGAIN, lambda server: (
            host.driver.power_on(ctx, server, host.set_up_networks(ctx, server))))

    def _submit(self, ctx: context.RequestContext, instance: objects.Instance, name: str, body: Body) -> None:
        self._host.queue.submit(instance.uuid, self._perform, ctx, instance, actions.ACTIONS[name], body)

    def _perform(self, ctx: context.RequestContext, instance: objects.Instance, action: actions.Action,
                 body: Body) -> None:
        with tasks.task(self._host, ctx, instance, action) as task:
            body(task.instance)
            task.ends(power_state=self._host.driver.power_state(task.instance))
