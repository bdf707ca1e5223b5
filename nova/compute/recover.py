"""What a compute does at its start: it compares its guests with its servers and takes up what was interrupted."""
import datetime
import logging
import time

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import shelve
from nova.compute import snapshot
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)

_EPOCH = datetime.datetime(1970, 1, 1)

NEED_SPEC = frozenset({'rebuild_instance', 'unshelve_instance'})        # methods that take the request spec

# task state -> (method, arguments when the action's row has none)
AGAIN = {
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
       for task in snapshot.TASKS},
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


def boot_time():
    """When this machine was started, in seconds since the epoch."""
    with open('/proc/uptime') as uptime:
        return time.time() - float(uptime.read().split()[0])


def decide(server, power_state, *, booted_after, resume):
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
    """The part of the compute's manager that works at start; mixed into it."""

    def recover(self):
        """Compare guests with servers and queue what is to be done about each difference."""
        ctx = context.admin_context()
        guests = self.driver.guests()
        entries = self.conductor.instances_on_host(ctx, host=self.host)
        booted = boot_time()
        for entry in entries:
            server = entry['instance']
            written = server.updated_at.replace(tzinfo=None)
            what = decide(server, guests.get(server.uuid), resume=self.conf.resume_guests_state_on_host_boot,
                          booted_after=booted > (written - _EPOCH).total_seconds())
            if what:
                LOG.info('Server %s is %s (task %s), its guest %s: %s.', server.uuid, server.vm_state,
                         server.task_state, guests.get(server.uuid), what)
                getattr(self, '_recover_' + what)(
                    # its task ends in the name of the request that began it
                    context.on_behalf_of(entry), server, entry['arguments'] or {})
        self._remove_strays(ctx, guests.keys() - {entry['instance'].uuid for entry in entries})

    def _recover_build(self, ctx, server, arguments):
        if server.task_state == states.DELETING:
            self.terminate_instance(ctx, server)
        else:
            self.queue.submit(server.uuid, self._build_again, ctx, server, build=True)

    def _build_again(self, ctx, server):
        """Nobody has seen it yet: what is there of it is thrown away."""
        spec = self.conductor.get_request_spec(ctx, instance_uuid=server.uuid)
        self.driver.destroy(ctx, server, server.network_info)
        self._build(ctx, server, spec)

    def _recover_again(self, ctx, server, arguments):
        if 'evacuation' in arguments:
            self.conductor.continue_evacuation(ctx, instance_uuid=server.uuid)
            return
        method, defaults = AGAIN[server.task_state]
        arguments = {name: arguments.get(name, value) for name, value in defaults.items()}
        if method in NEED_SPEC:
            arguments['spec'] = self.conductor.get_request_spec(ctx, instance_uuid=server.uuid)
        getattr(self, method)(ctx, server, **arguments)

    def _recover_start(self, ctx, server, arguments):
        self.queue.submit(server.uuid, self._start_again, ctx, server)

    _recover_lost = _recover_start

    def _start_again(self, ctx, server):
        """Start a server that is ACTIVE without a running guest; what fails is ERROR with its reason."""
        with self.task(ctx, server, 'compute_start_instance', running=(None,),
                       begin={'task_state': states.POWERING_ON}, failed={'vm_state': states.ERROR}) as task:
            networks = self.network.setup_for_instance(ctx, instance=task.instance, host=self.host)
            self.driver.power_on(ctx, task.instance, networks)
            task.ends(vm_state=states.ACTIVE, power_state=self.driver.power_state(task.instance))

    def _recover_align(self, ctx, server, arguments):
        self.queue.submit(server.uuid, self._report_power, server.uuid)

    def came_back(self):
        """Others may have thought that this host was down, and have deleted its servers, or taken them elsewhere."""
        def look():
            try:
                self.sync_power_states()
                self.clean_evacuated()
            except exception.NovaException as error:
                LOG.warning('Guests are compared with servers later: %s', error.message)
        concurrency.spawn(f'came-back-{self.host}', look)

    def _remove_strays(self, ctx, uuids):
        """Remove guests of servers that are known to be deleted, or to live elsewhere; leave any other alone."""
        if not uuids:
            return
        gone = set(self.conductor.stray_guests(ctx, host=self.host, uuids=sorted(uuids)))
        for uuid in sorted(uuids):
            if uuid not in gone:
                LOG.warning('Guest %s is of no server that is known; it is left alone.', uuid)
                continue
            LOG.info('The server of guest %s is not on this host any more; removing the guest.', uuid)
            self.queue.submit(uuid, self._remove_stray, ctx, uuid)

    def _remove_stray(self, ctx, uuid):
        try:
            self.driver.destroy(ctx, objects.Instance(uuid=uuid, network_info=[]), [])
        except exception.NovaException as error:
            LOG.error('Guest %s could not be removed: %s', uuid, error.message)
