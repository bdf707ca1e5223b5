"""What a compute does at its start: compare its guests with its servers, and take up what was interrupted."""
import collections.abc
import datetime
import logging
import time
import typing

from nova import context
from nova import objects
from nova import states
from nova.compute import build
from nova.compute import images
from nova.compute import power
from nova.compute import power_states
from nova.compute import shelve
from nova.compute.host import Host

LOG = logging.getLogger(__name__)

_EPOCH = datetime.datetime(1970, 1, 1)

NEED_SPEC = frozenset({'rebuild_instance', 'unshelve_instance'})        # methods that take the request spec

# task state -> (method, arguments when the action's row has none)
AGAIN: dict[str, tuple[str, dict[str, typing.Any]]] = {
    states.DELETING: ('terminate_instance', {}),
    states.POWERING_ON: ('start_instance', {}),
    states.POWERING_OFF: ('stop_instance', {'clean_shutdown': True}),
    states.PAUSING: ('pause_instance', {}),
    states.UNPAUSING: ('unpause_instance', {}),
    states.SUSPENDING: ('suspend_instance', {}),
    states.RESUMING: ('resume_instance', {}),
    # a guest that was in the middle of a reboot is in an unknown state: power cycle
    **{task: ('reboot_instance', {'reboot_type': 'SOFT'})
       for task in (states.REBOOTING, states.REBOOT_PENDING, states.REBOOT_STARTED)},
    **{task: ('reboot_instance', {'reboot_type': 'HARD'})
       for task in (states.REBOOTING_HARD, states.REBOOT_PENDING_HARD, states.REBOOT_STARTED_HARD)},
    **{task: ('rebuild_instance', {'preserve_ephemeral': False})
       for task in (states.REBUILDING, states.REBUILD_BLOCK_DEVICE_MAPPING, states.REBUILD_SPAWNING)},
    **{task: ('abandon_snapshot', {'image_id': None, 'backup_type': None, 'rotation': None})
       for task in images.TASKS},
    states.RESCUING: ('rescue_instance', {'image_id': None, 'admin_password': None, 'clean_shutdown': False}),
    states.UNRESCUING: ('unrescue_instance', {}),
    **{task: ('shelve_instance', {'image_id': None, 'clean_shutdown': False}) for task in shelve.SHELVING},
    states.SHELVING_OFFLOADING: ('shelve_offload_instance', {}),
    states.UNSHELVING: ('unshelve_instance', {}),
    states.MIGRATING: ('resume_live_migration', {}),
    states.UPDATING_PASSWORD: ('set_admin_password', {'admin_password': None}),
    states.SOFT_DELETING: ('soft_delete_instance', {}),
    states.RESTORING: ('restore_instance', {}),
}


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
        return 'again' if server.task_state in AGAIN else None
    off = power_state in (None, states.SHUTDOWN, states.CRASHED)
    if server.vm_state == states.ACTIVE and off and booted_after:
        return 'start' if resume else 'align'
    if power_state is None:
        return 'lost' if server.vm_state in (states.ACTIVE, states.PAUSED) else None
    return 'align' if power_state != server.power_state else None


class Recovery:
    """Takes up tasks that a restart interrupted.

    :param methods: {method name: callable(ctx, instance, **arguments)}: all that AGAIN names
    """

    def __init__(self, host: Host, methods: collections.abc.Mapping[str, typing.Callable[..., typing.Any]],
                 builder: build.Builder, power: power.Power, power_states: power_states.PowerStates,
                 stray_guests: power_states.StrayGuests) -> None:
        self._host, self._methods, self._builder = host, methods, builder
        self._power, self._power_states, self._stray_guests = power, power_states, stray_guests
        self._recover: dict[str, typing.Callable[[context.RequestContext, objects.Instance, dict], None]] = {
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
        entries = host.conductor.instances_on_host(ctx, host=host.name)
        booted = boot_time()
        for entry in entries:
            server = entry['instance']
            written = server.updated_at.replace(tzinfo=None)
            what = decide(server, guests.get(server.uuid), resume=host.conf.resume_guests_state_on_host_boot,
                          booted_after=booted > (written - _EPOCH).total_seconds())
            if what:
                LOG.info('Server %s is %s (task %s), its guest %s: %s.', server.uuid, server.vm_state,
                         server.task_state, guests.get(server.uuid), what)
                # its task ends in the name of the request that began it
                self._recover[what](context.on_behalf_of(entry), server, entry['arguments'] or {})
        self._stray_guests.remove(ctx, guests.keys() - {entry['instance'].uuid for entry in entries})

    def _build(self, ctx: context.RequestContext, server: objects.Instance, arguments: dict) -> None:
        if server.task_state == states.DELETING:
            self._methods['terminate_instance'](ctx, server)
        else:
            self._builder.build_again(ctx, server)

    def _repeat(self, ctx: context.RequestContext, server: objects.Instance, arguments: dict) -> None:
        if 'evacuation' in arguments:
            self._host.conductor.continue_evacuation(ctx, instance_uuid=server.uuid)
            return
        method, defaults = AGAIN[server.task_state]
        arguments = {name: arguments.get(name, value) for name, value in defaults.items()}
        if method in NEED_SPEC:
            arguments['spec'] = self._host.conductor.get_request_spec(ctx, instance_uuid=server.uuid)
        self._methods[method](ctx, server, **arguments)

    def _start(self, ctx: context.RequestContext, server: objects.Instance, arguments: dict) -> None:
        self._power.start_again(ctx, server)

    def _align(self, ctx: context.RequestContext, server: objects.Instance, arguments: dict) -> None:
        self._power_states.report(server.uuid)
