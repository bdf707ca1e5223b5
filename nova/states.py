"""vm, task and power states, the status that a user sees, and the table of actions.

Everything that depends on a state reads these tables: the API's refusals, the conditional UPDATE that begins a
task, what the end of a task writes, the event names and the diagram in the documentation.
"""
import dataclasses

# ---- vm states: what the server is ------------------------------------------
ACTIVE = 'active'
BUILDING = 'building'
PAUSED = 'paused'
SUSPENDED = 'suspended'
STOPPED = 'stopped'
RESCUED = 'rescued'
RESIZED = 'resized'
SOFT_DELETED = 'soft-delete'
DELETED = 'deleted'
ERROR = 'error'
SHELVED = 'shelved'
SHELVED_OFFLOADED = 'shelved_offloaded'

VM_STATES = (ACTIVE, BUILDING, PAUSED, SUSPENDED, STOPPED, RESCUED, RESIZED, SOFT_DELETED, DELETED, ERROR,
             SHELVED, SHELVED_OFFLOADED)

# ---- task states: what is being done to it ----------------------------------
SCHEDULING = 'scheduling'
BLOCK_DEVICE_MAPPING = 'block_device_mapping'
NETWORKING = 'networking'
SPAWNING = 'spawning'
IMAGE_SNAPSHOT_PENDING = 'image_snapshot_pending'
IMAGE_SNAPSHOT = 'image_snapshot'
IMAGE_PENDING_UPLOAD = 'image_pending_upload'
IMAGE_UPLOADING = 'image_uploading'
IMAGE_BACKUP = 'image_backup'
UPDATING_PASSWORD = 'updating_password'
RESIZE_PREP = 'resize_prep'
RESIZE_MIGRATING = 'resize_migrating'
RESIZE_MIGRATED = 'resize_migrated'
RESIZE_FINISH = 'resize_finish'
RESIZE_REVERTING = 'resize_reverting'
RESIZE_CONFIRMING = 'resize_confirming'
REBOOTING = 'rebooting'
REBOOT_PENDING = 'reboot_pending'
REBOOT_STARTED = 'reboot_started'
REBOOTING_HARD = 'rebooting_hard'
REBOOT_PENDING_HARD = 'reboot_pending_hard'
REBOOT_STARTED_HARD = 'reboot_started_hard'
PAUSING = 'pausing'
UNPAUSING = 'unpausing'
SUSPENDING = 'suspending'
RESUMING = 'resuming'
POWERING_OFF = 'powering-off'
POWERING_ON = 'powering-on'
RESCUING = 'rescuing'
UNRESCUING = 'unrescuing'
REBUILDING = 'rebuilding'
REBUILD_BLOCK_DEVICE_MAPPING = 'rebuild_block_device_mapping'
REBUILD_SPAWNING = 'rebuild_spawning'
MIGRATING = 'migrating'
DELETING = 'deleting'
SOFT_DELETING = 'soft-deleting'
RESTORING = 'restoring'
SHELVING = 'shelving'
SHELVING_IMAGE_PENDING_UPLOAD = 'shelving_image_pending_upload'
SHELVING_IMAGE_UPLOADING = 'shelving_image_uploading'
SHELVING_OFFLOADING = 'shelving_offloading'
UNSHELVING = 'unshelving'

# ---- power states: what the hypervisor says (numbers of the compute API) ----
NOSTATE, RUNNING, POWER_PAUSED, SHUTDOWN, CRASHED, POWER_SUSPENDED = 0, 1, 3, 4, 6, 7
POWER_STATE_NAMES = {NOSTATE: 'pending', RUNNING: 'running', POWER_PAUSED: 'paused', SHUTDOWN: 'shutdown',
                     CRASHED: 'crashed', POWER_SUSPENDED: 'suspended'}

# ---- status: what a user sees. vm state -> (status, {task state: status}) ----
_REBOOTS = {REBOOTING: 'REBOOT', REBOOT_PENDING: 'REBOOT', REBOOT_STARTED: 'REBOOT',
            REBOOTING_HARD: 'HARD_REBOOT', REBOOT_PENDING_HARD: 'HARD_REBOOT',
            REBOOT_STARTED_HARD: 'HARD_REBOOT'}
_REBUILDS = {REBUILDING: 'REBUILD', REBUILD_BLOCK_DEVICE_MAPPING: 'REBUILD', REBUILD_SPAWNING: 'REBUILD'}
_RESIZES = {RESIZE_PREP: 'RESIZE', RESIZE_MIGRATING: 'RESIZE', RESIZE_MIGRATED: 'RESIZE',
            RESIZE_FINISH: 'RESIZE'}

STATUS = {
    ACTIVE: ('ACTIVE', {**_REBOOTS, **_REBUILDS, **_RESIZES, UPDATING_PASSWORD: 'PASSWORD',
                        MIGRATING: 'MIGRATING'}),
    BUILDING: ('BUILD', {}),
    STOPPED: ('SHUTOFF', {**_REBOOTS, **_REBUILDS, **_RESIZES}),
    RESIZED: ('VERIFY_RESIZE', {RESIZE_REVERTING: 'REVERT_RESIZE'}),
    PAUSED: ('PAUSED', {MIGRATING: 'MIGRATING', **_REBOOTS}),
    SUSPENDED: ('SUSPENDED', _REBOOTS),
    RESCUED: ('RESCUE', {}),
    ERROR: ('ERROR', {**_REBUILDS, **_REBOOTS}),
    DELETED: ('DELETED', {}),
    SOFT_DELETED: ('SOFT_DELETED', {}),
    SHELVED: ('SHELVED', {}),
    SHELVED_OFFLOADED: ('SHELVED_OFFLOADED', {}),
}


def status(vm_state, task_state):
    """The server status of the compute API, 'UNKNOWN' for a vm state that the table does not have."""
    default, by_task = STATUS.get(vm_state, ('UNKNOWN', {}))
    return by_task.get(task_state, default)


def states_of_status(wanted):
    """[(vm_state, task_states or None for any but ``excluded``, excluded)] that show as one of these statuses.

    The list filter ``status=`` becomes a condition on two columns through it.
    """
    found = []
    for vm_state, (default, by_task) in STATUS.items():
        if default in wanted:
            excluded = sorted(task for task, shown in by_task.items() if shown not in wanted)
            found.append((vm_state, None, excluded))
        else:
            tasks = sorted(task for task, shown in by_task.items() if shown in wanted)
            if tasks:
                found.append((vm_state, tasks, []))
    return found


STATUSES = sorted({shown for default, by_task in STATUS.values() for shown in (default, *by_task.values())})

# ---- actions ----------------------------------------------------------------
ANY = None               # in Action.vm_states and Action.task_states: no condition
IDLE = (None,)           # in Action.task_states: nothing else may be running


@dataclasses.dataclass(frozen=True)
class Action:
    """What one server action needs, sets and leaves behind.

    name         as in the request body and, where ``event`` is empty, in the instance action's record
    vm_states    allowed before, or ANY
    task_states  allowed before, or ANY; IDLE when nothing else may run
    running      task state while it runs (None: the action sets none)
    after        vm state when it has succeeded (None: unchanged)
    locked       refused to non-admins while the server is locked
    host         needs a server that has a host
    capability   name of the driver feature it needs, or None
    policy       rule that guards it
    event        name of the instance action record
    method       method of the compute's RPC interface, or None where the API itself does the work
    conductor    method of the conductor's RPC interface that goes on with it, with the instance's uuid, where the
                 server may have no host
    beside       it takes a while and sets no task state: several may wait for the same server, and its record
                 stays open until it is done (compute/background_actions.py)
    """

    name: str
    vm_states: tuple | None
    running: str | None
    policy: str
    after: str | None = None
    task_states: tuple | None = IDLE
    locked: bool = True
    host: bool = False
    capability: str | None = None
    event: str = ''
    method: str | None = None
    conductor: str | None = None
    beside: bool = False

    def allows(self, vm_state, task_state):
        return ((self.vm_states is ANY or vm_state in self.vm_states)
                and (self.task_states is ANY or task_state in self.task_states))


_SNAPSHOTS = (ACTIVE, STOPPED, PAUSED, SUSPENDED)
_VOLUMES = (ACTIVE, PAUSED, STOPPED, RESIZED, SOFT_DELETED, SHELVED, SHELVED_OFFLOADED)
_HARD_REBOOT_TASKS = (None, REBOOTING, REBOOT_PENDING, REBOOT_STARTED, REBOOTING_HARD, REBOOT_PENDING_HARD,
                      REBOOT_STARTED_HARD, RESUMING, PAUSING, UNPAUSING, SUSPENDING)
_RULE = 'os_compute_api:'

ACTIONS = {row.name: row for row in (
    Action('os-start', (STOPPED,), POWERING_ON, _RULE + 'servers:start', after=ACTIVE, host=True,
           event='start', method='start_instance'),
    Action('os-stop', (ACTIVE, ERROR), POWERING_OFF, _RULE + 'servers:stop', after=STOPPED, host=True,
           event='stop', method='stop_instance'),
    Action('reboot', (ACTIVE,), REBOOTING, _RULE + 'servers:reboot', after=ACTIVE, method='reboot_instance'),
    Action('reboot-hard', (ACTIVE, STOPPED, PAUSED, SUSPENDED, ERROR), REBOOTING_HARD,
           _RULE + 'servers:reboot', after=ACTIVE, task_states=_HARD_REBOOT_TASKS, event='reboot',
           method='reboot_instance'),
    Action('pause', (ACTIVE,), PAUSING, _RULE + 'os-pause-server:pause', after=PAUSED, capability='pause',
           method='pause_instance'),
    Action('unpause', (PAUSED,), UNPAUSING, _RULE + 'os-pause-server:unpause', after=ACTIVE,
           capability='pause', method='unpause_instance'),
    Action('suspend', (ACTIVE,), SUSPENDING, _RULE + 'os-suspend-server:suspend', after=SUSPENDED,
           capability='suspend', method='suspend_instance'),
    Action('resume', (SUSPENDED,), RESUMING, _RULE + 'os-suspend-server:resume', after=ACTIVE,
           capability='suspend', method='resume_instance'),
    Action('os-migrateLive', (ACTIVE, PAUSED), MIGRATING, _RULE + 'os-migrate-server:migrate_live', host=True,
           capability='live_migration', event='live-migration', conductor='continue_live_migration'),
    Action('evacuate', (ACTIVE, STOPPED, ERROR), REBUILDING, _RULE + 'os-evacuate', task_states=ANY, locked=False,
           host=True, conductor='continue_evacuation'),
    Action('rebuild', (ACTIVE, STOPPED, ERROR), REBUILDING, _RULE + 'servers:rebuild', after=ACTIVE,
           method='rebuild_instance'),
    Action('createImage', _SNAPSHOTS, IMAGE_SNAPSHOT_PENDING, _RULE + 'servers:create_image', locked=False,
           capability='snapshot', method='snapshot_instance'),
    Action('createBackup', _SNAPSHOTS, IMAGE_BACKUP, _RULE + 'os-create-backup', locked=False,
           capability='snapshot', method='backup_instance'),
    Action('rescue', (ACTIVE, STOPPED, ERROR), RESCUING, _RULE + 'os-rescue', after=RESCUED, capability='rescue',
           method='rescue_instance'),
    Action('unrescue', (RESCUED,), UNRESCUING, _RULE + 'os-unrescue', after=ACTIVE, capability='rescue',
           method='unrescue_instance'),
    Action('shelve', _SNAPSHOTS, SHELVING, _RULE + 'os-shelve:shelve', after=SHELVED, capability='snapshot',
           method='shelve_instance'),
    Action('shelveOffload', (SHELVED,), SHELVING_OFFLOADING, _RULE + 'os-shelve:shelve_offload',
           after=SHELVED_OFFLOADED, method='shelve_offload_instance'),
    Action('unshelve', (SHELVED, SHELVED_OFFLOADED), UNSHELVING, _RULE + 'os-shelve:unshelve', after=ACTIVE,
           conductor='unshelve_instance'),
    Action('resize', (ACTIVE, STOPPED), RESIZE_PREP, _RULE + 'servers:resize', after=RESIZED, host=True,
           capability='resize', conductor='continue_move'),
    Action('migrate', (ACTIVE, STOPPED), RESIZE_PREP, _RULE + 'os-migrate-server:migrate', after=RESIZED, host=True,
           capability='resize', conductor='continue_move'),
    Action('confirmResize', (RESIZED,), RESIZE_CONFIRMING, _RULE + 'servers:confirm_resize',
           conductor='continue_move'),
    Action('revertResize', (RESIZED,), RESIZE_REVERTING, _RULE + 'servers:revert_resize',
           conductor='continue_move'),
    Action('changePassword', (ACTIVE,), UPDATING_PASSWORD, _RULE + 'os-admin-password', after=ACTIVE,
           capability='password', method='set_admin_password'),
    Action('trigger_crash_dump', (ACTIVE, PAUSED, RESCUED, RESIZED, ERROR), None,
           _RULE + 'servers:trigger_crash_dump', host=True, capability='crash_dump', method='trigger_crash_dump'),
    Action('injectNetworkInfo', ANY, None, _RULE + 'os-admin-actions:inject_network_info', task_states=ANY,
           host=True, method='inject_network_info'),
    Action('os-getConsoleOutput', ANY, None, _RULE + 'os-console-output', task_states=ANY, locked=False,
           host=True, method='get_console_output'),
    Action('lock', ANY, None, _RULE + 'os-lock-server:lock', task_states=ANY, locked=False),
    Action('unlock', ANY, None, _RULE + 'os-lock-server:unlock', task_states=ANY, locked=False),
    Action('os-resetState', ANY, None, _RULE + 'os-admin-actions:reset_state', task_states=ANY, locked=False),
    Action('attach_interface', (ACTIVE, PAUSED, STOPPED), None, _RULE + 'os-attach-interfaces:create',
           capability='interfaces', method='attach_interface', beside=True),
    Action('addFixedIp', (ACTIVE, PAUSED, SUSPENDED, STOPPED), None, _RULE + 'os-multinic:add',
           method='add_fixed_ip', beside=True),
    Action('removeFixedIp', (ACTIVE, PAUSED, SUSPENDED, STOPPED), None, _RULE + 'os-multinic:remove',
           method='remove_fixed_ip', beside=True),
    Action('detach_interface', (ACTIVE, PAUSED, STOPPED), None, _RULE + 'os-attach-interfaces:delete',
           capability='interfaces', method='detach_interface', beside=True),
    Action('attach_volume', _VOLUMES, None, _RULE + 'os-volumes-attachments:create', capability='volumes',
           method='attach_volume', beside=True),
    Action('detach_volume', _VOLUMES, None, _RULE + 'os-volumes-attachments:delete', capability='volumes',
           method='detach_volume', beside=True),
    Action('attach_share', (STOPPED,), None, _RULE + 'os-server-shares:create', capability='shares',
           method='attach_share', beside=True),
    Action('detach_share', (STOPPED, ERROR), None, _RULE + 'os-server-shares:delete', capability='shares',
           method='detach_share', beside=True),
    Action('swap_volume', (ACTIVE, PAUSED, RESIZED), None, _RULE + 'os-volumes-attachments:swap',
           capability='volumes', method='swap_volume', beside=True),
    Action('metadata', (ACTIVE, PAUSED, SUSPENDED, STOPPED), None, _RULE + 'server-metadata:update',
           task_states=ANY),
    Action('delete', ANY, DELETING, _RULE + 'servers:delete', after=DELETED, task_states=ANY,
           method='terminate_instance'),
    # what a delete is while the deployment keeps deleted servers for a time
    Action('softDelete', (ACTIVE, PAUSED, SUSPENDED, STOPPED, RESCUED, ERROR), SOFT_DELETING,
           _RULE + 'servers:delete', after=SOFT_DELETED, task_states=ANY, event='delete',
           method='soft_delete_instance'),
    Action('restore', (SOFT_DELETED,), RESTORING, _RULE + 'os-deferred-delete:restore', after=ACTIVE,
           method='restore_instance'),
    Action('forceDelete', ANY, DELETING, _RULE + 'os-deferred-delete:force', after=DELETED, task_states=ANY,
           event='delete', method='terminate_instance'),
)}

BESIDE = frozenset(action.event or action.name for action in ACTIONS.values() if action.beside)

# What is asked of a live migration while it runs; its record tells that it was asked.
ABORT_MIGRATION = Action('abort', ANY, None, _RULE + 'servers:migrations:delete', task_states=(MIGRATING,),
                         event='live_migration_cancel')
FORCE_COMPLETE = Action('force_complete', ANY, None, _RULE + 'servers:migrations:force_complete',
                        task_states=(MIGRATING,), event='live_migration_force_complete')

# A rebuilt server that was stopped is stopped again afterwards (section 6 of the architecture).
KEEPS_STOPPED = frozenset({'rebuild'})

BUILD = Action('create', (BUILDING,), SPAWNING, _RULE + 'servers:create', after=ACTIVE, task_states=ANY,
               locked=False, method='build_instance')
