"""What a compute does at its start: compare its guests with its servers, and take up what was interrupted."""
import collections.abc
import datetime
import logging
import time
import typing

from nova import actions
from nova import context
from nova import objects
from nova import states
from nova.compute import build
from nova.compute import differences
from nova.compute import interface
from nova.compute import power
from nova.compute import power_states
from nova.compute import records
from nova.compute import strays
from nova.compute.host import Host

LOG = logging.getLogger(__name__)

Arguments = dict[str, typing.Any]            # of the open action

_EPOCH = datetime.datetime(1970, 1, 1)


def boot_time() -> float:
    """When this machine was started, in seconds since the epoch."""
    with open('/proc/uptime') as uptime:
        return time.time() - float(uptime.read().split()[0])


def decide(server: objects.Instance, power_state: int | None, *, booted_after: bool, resume: bool) -> str | None:
    """What to do about a server of this host: 'build', 'again', 'start', 'lost', 'align' or None.

    :param power_state: of its guest, None without one
    :param booted_after: the machine was started after the row was written last
    :param resume: servers that should run are started after the machine was
    """
    if server.vm_state == states.BUILDING:
        return 'build'
    if server.task_state is not None:
        return None if interrupted(server) is None else 'again'
    off = power_state in (None, states.SHUTDOWN, states.CRASHED)
    if server.vm_state == states.ACTIVE and off and booted_after:
        return 'start' if resume else 'align'
    if power_state is None:
        return 'lost' if server.vm_state in (states.ACTIVE, states.PAUSED) else None
    return 'align' if power_state != server.power_state else None


def interrupted(server: objects.Instance) -> actions.Restart | None:
    """What is to be done about the action whose task state a server is in; None: nothing."""
    action = None if server.task_state is None else actions.OF_TASK.get(server.task_state)
    return None if action is None else action.restart


class Recovery:
    """Takes up tasks that a restart interrupted.

    :param methods: {method name: callable(ctx, instance, **arguments)}: all that restarts of actions name
    """

    def __init__(self, host: Host, methods: collections.abc.Mapping[str, typing.Callable[..., typing.Any]],
                 builder: build.Builder, power: power.Power, power_states: power_states.PowerStates,
                 strays: strays.Strays, reporter: differences.Reporter) -> None:
        self._host, self._methods, self._builder = host, methods, builder
        self._power, self._power_states, self._strays, self._reporter = power, power_states, strays, reporter
        self._recover: dict[str, typing.Callable[[context.RequestContext, objects.Instance, Arguments], None]] = {
            'build': self._build,
            'again': self._repeat,
            'start': self._start,
            'lost': self._start,
            'align': self._align,
        }

    def recover(self) -> None:
        """Compare guests with servers and queue what is to be done about each difference."""
        host, ctx = self._host, context.admin_context()
        guests = host.driver.guests()
        here = self._strays.find(guests)
        entries = host.conductor.instances_on_host(ctx, host=host.name)
        booted = boot_time()
        for entry in entries:
            server = entry['instance']
            written = server.updated_at.replace(tzinfo=None)
            what = decide(server, guests.get(server.uuid), resume=host.conf.resume_guests_state_on_host_boot,
                          booted_after=booted > (written - _EPOCH).total_seconds())
            why = self._untouched(entry, guests)
            if what and why:
                LOG.error('Server %s is left as it is: %s.', server.uuid, why)
            elif what:
                LOG.info('Server %s is %s (task %s), its guest %s: %s.', server.uuid, server.vm_state,
                         server.task_state, guests.get(server.uuid), what)
                # its task ends in the name of the request that began it
                self._recover[what](context.on_behalf_of(entry), server, entry['arguments'] or {})
        servers = [entry['instance'] for entry in entries]
        rows = self._strays.settle(ctx, here, {server.uuid for server in servers})
        self._reporter.look(ctx, guests, here, servers, rows, with_volumes=True)

    def _untouched(self, entry: Arguments, guests: collections.abc.Container[str]) -> str | None:
        """Why nothing is done about a server; None: something may be done.

        :param guests: uuids of those of the driver
        """
        server, host_records = entry['instance'], self._host.records
        record = host_records.get(server.uuid)
        if (record is None and host_records.complete and server.uuid not in guests
                and differences.is_settled_here(server)):
            return 'it has never had a guest on this host'
        action = actions.BUILD if server.vm_state == states.BUILDING else (
            actions.OF_TASK.get(server.task_state) if server.task_state else None)
        return records.refusal(record, server, entry['request_id'], action.task_event if action else '')

    def _build(self, ctx: context.RequestContext, server: objects.Instance, arguments: Arguments) -> None:
        if server.task_state == states.DELETING:
            self._methods['terminate_instance'](ctx, server)
        else:
            self._builder.build_again(ctx, server)

    def _repeat(self, ctx: context.RequestContext, server: objects.Instance, arguments: Arguments) -> None:
        if 'evacuation' in arguments:
            self._host.moves.continue_evacuation(ctx, instance_uuid=server.uuid)
            return
        restart = interrupted(server)
        if restart is None:
            return
        arguments = {name: arguments.get(name, value) for name, value in restart.arguments.items()}
        method = interface.INTERFACE.methods.get(restart.method)
        if method is not None and 'spec' in method.arguments:
            arguments['spec'] = self._host.conductor.get_request_spec(ctx, instance_uuid=server.uuid)
        self._methods[restart.method](ctx, server, **arguments)

    def _start(self, ctx: context.RequestContext, server: objects.Instance, arguments: Arguments) -> None:
        self._power.start_again(ctx, server)

    def _align(self, ctx: context.RequestContext, server: objects.Instance, arguments: Arguments) -> None:
        self._power_states.report(server.uuid)
