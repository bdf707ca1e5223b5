"""Start-up recovery: compare guests with instance records and resume interrupted tasks."""
import collections.abc
import contextlib
import dataclasses
import datetime
import logging
import os
import threading
import time
import typing

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import build
from nova.compute import counters
from nova.compute import differences
from nova.compute import interface
from nova.compute import orphans
from nova.compute import power
from nova.compute import power_states
from nova.compute import records
from nova.compute import tasks
from nova.compute.host import Host
from nova.runtime import host_identity
from nova.runtime import state_directory

LOG = logging.getLogger(__name__)

Arguments = dict[str, typing.Any]            # arguments of the open action

INITS = ('systemd', 'init')              # names of PID 1 in a container with an init system
START_FIELD = 19  # index of the start time (ticks since boot) among the fields of /proc/PID/stat after the name

_EPOCH = datetime.datetime(1970, 1, 1)


def boot_time() -> float:
    """Return the boot time of this machine in seconds since the epoch.

    In a container, /proc/uptime is the uptime of the host's kernel. If PID 1 is an init system, its start time after
    the start of the kernel is therefore added.
    """
    with open('/proc/uptime') as file:
        uptime = float(file.read().split()[0])
    return time.time() - uptime + _init_start() / os.sysconf('SC_CLK_TCK')


def boot_id() -> str:
    """Return an identifier of this boot of the machine or, in a container with an init system, of the container."""
    return f'{counters.BOOT_ID.read_text().strip()} {_init_start()}'


def has_booted(recorded: str, present: str) -> bool:
    """Return whether two results of ``boot_id`` are of different boots. The start 0 means that PID 1 is not visible."""
    (kernel, _, start), (kernel_now, _, start_now) = recorded.partition(' '), present.partition(' ')
    return kernel != kernel_now or start != start_now and '0' not in (start, start_now)


def _init_start() -> int:
    """Return the start time of PID 1 in ticks since the start of the kernel; 0 if PID 1 is not an init system."""
    try:
        with open('/proc/1/stat') as file:
            name, _, fields = file.read().partition('(')[2].rpartition(')')
    except OSError:                      # ProtectProc= hides PID 1 from this user
        return 0
    return int(fields.split()[START_FIELD]) if name in INITS else 0


# frame of the task of Recovery._settle; taken_in is replaced by the server's task state
SETTLE = actions.Frame(task_event=actions.ACTIONS['os-stop'].frame.task_event, taken_in=(None,),
                       started=states.POWERING_OFF, on_failure=states.ERROR)
# vm states of servers that have disks on their host
WITH_DISKS = (states.ACTIVE, states.PAUSED, states.STOPPED, states.SUSPENDED, states.RESCUED, states.SHELVED)


STEPS = {                        # step -> description for the log
    'build': 'continue the build', 'again': 'repeat the task', 'start': 'start the guest',
    'lost': 'start the guest, which is missing', 'align': 'correct the power state in the row',
    'settle': 'leave the server stopped, because the rows come from a backup'}


def decide(server: objects.Instance, power_state: int | None, *, booted_after: bool, resume: bool,
           restored: bool = False) -> str | None:
    """Return the recovery step for a server on this host (a key of STEPS), or None.

    :param power_state: power state of the server's guest, or None if there is no guest
    :param booted_after: the machine was booted after the last recovery
    :param resume: whether to start ACTIVE servers after a boot of the machine
    :param restored: the rows come from a backup; no server is started, because another machine may run it
    """
    if server.vm_state == states.BUILDING:
        return 'build'
    off = power_state in (None, states.SHUTDOWN, states.CRASHED)
    action = actions.OF_TASK.get(server.task_state) if server.task_state else None
    starts = action is not None and action.frame.task_event in tasks.STARTS
    if restored and off and server.vm_state in WITH_DISKS and (server.task_state is None or starts):
        return 'settle'
    if server.task_state is not None:
        return None if interrupted(server) is None else 'again'
    if server.vm_state == states.ACTIVE and off and booted_after:
        return 'start' if resume else 'align'
    if power_state is None:
        return 'lost' if server.vm_state in (states.ACTIVE, states.PAUSED) else None
    return 'align' if power_states.differs(server, power_state) else None


def interrupted(server: objects.Instance) -> actions.Restart | None:
    """Return the restart step of the action that the server's task state belongs to, or None."""
    action = None if server.task_state is None else actions.OF_TASK.get(server.task_state)
    return None if action is None else action.calls.restart


class Recovery:
    """Resumes tasks that a restart interrupted.

    :param methods: {method name: callable(ctx, instance, **arguments)} of the methods that resume actions
    """

    def __init__(self, host: Host, methods: collections.abc.Mapping[str, typing.Callable[..., typing.Any]],
                 builder: build.Builder, power: power.Power, power_states: power_states.PowerStates,
                 orphans: orphans.Orphans, reporter: differences.Reporter) -> None:
        self._host, self._methods, self._builder = host, methods, builder
        self._power, self._power_states, self._orphans, self._reporter = power, power_states, orphans, reporter
        # key of STEPS -> function(context, server, arguments) that runs this step
        self._recover: dict[str, typing.Callable[[context.RequestContext, objects.Instance, Arguments], None]] = {
            'build': self._build,
            'again': self._repeat,
            'start': self._start,
            'lost': self._start,
            'align': self._align,
            'settle': self._settle,
        }

    def recover(self) -> None:
        """Compare guests with servers and queue the step for each difference."""
        host, ctx = self._host, context.admin_context()
        guests = host.driver.guests()
        here = self._orphans.find(guests)
        entries = host.conductor.instances_on_host(ctx, host=host.name)
        boot, recorded, booted = boot_id(), host.records.boot, boot_time()
        is_new_boot = not recorded or has_booted(recorded, boot)
        steps: list[str] = []                  # uuids of servers with a step
        resume = host.conf.resume_guests_state_on_host_boot
        restored = os.path.exists(os.path.join(host_identity.state_path(host.conf), state_directory.RESTORED))
        for entry in entries:
            server = entry['instance']
            # clocks of hosts differ: times are compared only once, before the first boot is recorded
            written = (server.updated_at.replace(tzinfo=None) - _EPOCH).total_seconds()
            booted_after = is_new_boot if recorded else booted > written
            what = decide(server, guests.get(server.uuid), resume=resume, booted_after=booted_after, restored=restored)
            why = None if what == 'settle' else self._untouched(entry, guests)
            if what and why:
                LOG.error('Server %s is not changed: %s.', server.uuid, why)
            elif what:
                LOG.info('Server %s is %s (task %s), and the power state of its guest is %s. Recovery step: %s.',
                         server.uuid, server.vm_state, server.task_state, guests.get(server.uuid), STEPS[what])
                # the resumed task has the request id of the interrupted one
                self._recover[what](context.on_behalf_of(entry), server, entry['arguments'] or {})
                if what == 'again' and booted_after and not restored:
                    self._after_boot(server, resume)
                steps.append(server.uuid)
        if is_new_boot:
            self._note_boot(boot, steps)
        servers = [entry['instance'] for entry in entries]
        rows = self._orphans.settle(ctx, here, {server.uuid for server in servers})
        self._reporter.look(ctx, guests, here, servers, rows, with_volumes=True)

    def _note_boot(self, boot: str, uuids: list[str]) -> None:
        """Record this boot after the queued steps of these servers: a restart before their end repeats them."""
        remaining, lock = set(uuids), threading.Lock()

        def ended(uuid: str) -> None:
            with lock:
                remaining.discard(uuid)
                is_last = not remaining
            if is_last:
                self._host.records.note_boot(boot)
        for uuid in uuids:
            self._host.queue.submit(uuid, ended, uuid)
        if not uuids:
            self._host.records.note_boot(boot)

    def _untouched(self, entry: Arguments, guests: collections.abc.Container[str]) -> str | None:
        """Return the reason to leave a server untouched, or None.

        :param guests: uuids of the driver's guests
        """
        server, host_records = entry['instance'], self._host.records
        record = host_records.get(server.uuid)
        if (record is None and host_records.complete and server.uuid not in guests
                and differences.is_settled_here(server)):
            return 'it has never had a guest on this host'
        action = actions.BUILD if server.vm_state == states.BUILDING else (
            actions.OF_TASK.get(server.task_state) if server.task_state else None)
        return records.refusal(record, server, entry['request_id'], action.frame.task_event if action else '')

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
            self._host.submit(server, self._repeat_with_spec, ctx, server, restart.method, arguments)
        else:
            self._methods[restart.method](ctx, server, **arguments)

    def _after_boot(self, server: objects.Instance, resume: bool) -> None:
        """Start the guest if its repeated or abandoned task leaves the server ACTIVE, or report that it is off."""
        if resume:
            self._power.start_if_off(context.admin_context(), server)
        else:
            self._power_states.report(server.uuid)

    def _repeat_with_spec(self, ctx: context.RequestContext, server: objects.Instance, method: str,
                          arguments: Arguments) -> None:
        """Repeat a task that needs the request spec; runs in the server's queue.

        Start-up does not read the spec: an unreadable spec must not prevent the recovery of other servers.
        """
        spec = self._host.conductor.get_request_spec(ctx, instance_uuid=server.uuid)
        self._methods[method](ctx, server, spec=spec, **arguments)

    def _start(self, ctx: context.RequestContext, server: objects.Instance, arguments: Arguments) -> None:
        self._power.start_again(ctx, server)

    def _settle(self, ctx: context.RequestContext, server: objects.Instance, arguments: Arguments) -> None:
        """Mark a server of a restored database as stopped, or set it to ERROR if it cannot be started on this host.

        This runs during start-up, not in the queue, because the mark of a restored database is removed after start-up.
        """
        with (contextlib.suppress(exception.InstanceChanged, exception.InstanceNotFound),
              tasks.task(self._host, ctx, server, dataclasses.replace(SETTLE, taken_in=(server.task_state,))) as task):
            reason = self._host.driver.why_unstartable(server)
            if reason is not None:
                raise exception.DisksLost(instance_id=server.uuid, reason=reason)
            if server.vm_state in (states.ACTIVE, states.PAUSED):
                task.ends(vm_state=states.STOPPED)
            task.ends(power_state=states.SHUTDOWN)

    def _align(self, ctx: context.RequestContext, server: objects.Instance, arguments: Arguments) -> None:
        self._power_states.report(server.uuid)
