"""Power operations: start, stop, reboot, pause, suspend and their opposites."""
import collections.abc
import typing

from nova import actions
from nova import context
from nova import objects
from nova import states
from nova.compute import tasks
from nova.compute.host import Host

Body = typing.Callable[[objects.Instance], typing.Any]


class Power:
    """Power operations of servers."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def start_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        self._submit(ctx, instance, 'start', 'os-start', lambda server: (
            host.driver.power_on(ctx, server, host.set_up_networks(ctx, server))))

    def stop_instance(self, ctx: context.RequestContext, instance: objects.Instance, clean_shutdown: bool) -> None:
        timeout = self._host.conf.shutdown_timeout if clean_shutdown else 0
        self._submit(ctx, instance, 'stop', 'os-stop', lambda server: self._host.driver.power_off(server, timeout))

    def reboot_instance(self, ctx: context.RequestContext, instance: objects.Instance, reboot_type: str) -> None:
        """:param reboot_type: 'SOFT' or 'HARD'"""
        host, hard = self._host, reboot_type == 'HARD'

        def body(server: objects.Instance) -> None:
            networks = host.set_up_networks(ctx, server) if hard else server.network_info
            host.driver.reboot(ctx, server, networks, hard)
        started = states.REBOOT_STARTED_HARD if hard else states.REBOOT_STARTED
        pending = states.REBOOT_PENDING_HARD if hard else states.REBOOT_PENDING
        self._submit(ctx, instance, 'reboot', 'reboot-hard' if hard else 'reboot', body,
                     later=(pending, started), begin={'task_state': started}, failed={'vm_state': states.ERROR})

    def pause_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'pause', 'pause', self._host.driver.pause)

    def unpause_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'unpause', 'unpause', self._host.driver.unpause)

    def suspend_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        self._submit(ctx, instance, 'suspend', 'suspend', self._host.driver.suspend)

    def resume_instance(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        self._submit(ctx, instance, 'resume', 'resume', lambda server: (
            host.driver.resume(ctx, server, host.set_up_networks(ctx, server))))

    def start_again(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        """Start a server that is ACTIVE without a running guest; what fails is ERROR with its reason."""
        self._host.queue.submit(instance.uuid, self._start_again, ctx, instance)

    def _start_again(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, 'compute_start_instance', running=(None,),
                        begin={'task_state': states.POWERING_ON}, failed={'vm_state': states.ERROR}) as task:
            host.driver.power_on(ctx, task.instance, host.set_up_networks(ctx, task.instance))
            task.ends(vm_state=states.ACTIVE, power_state=host.driver.power_state(task.instance))

    def _submit(self, ctx: context.RequestContext, instance: objects.Instance, name: str, action_name: str,
                body: Body, *, later: collections.abc.Iterable[str] = (),
                begin: dict[str, typing.Any] | None = None, failed: dict[str, typing.Any] | None = None) -> None:
        action = actions.ACTIONS[action_name]
        self._host.queue.submit(instance.uuid, self._perform, ctx, instance, f'compute_{name}_instance', action,
                                body, later, begin, failed)

    def _perform(self, ctx: context.RequestContext, instance: objects.Instance, event: str, action: actions.Action,
                 body: Body, later: collections.abc.Iterable[str], begin: dict[str, typing.Any] | None,
                 failed: dict[str, typing.Any] | None) -> None:
        with tasks.task(self._host, ctx, instance, event, running=(action.running, *later), begin=begin,
                        failed=failed) as task:
            body(task.instance)
            task.ends(vm_state=action.after, power_state=self._host.driver.power_state(task.instance))
