"""vm states, task states and power states, and the server status of the API. nova/actions.py has the transitions."""
import typing

# ---- vm states: stable state of a server ------------------------------------
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

# ---- answers of the conductor to a host that asks about a server with resources on this host
DELETED_FOR_GOOD = 'deleted'
ELSEWHERE = 'elsewhere'      # the server is on another host or on no host
NEEDED = 'needed'            # the server is on this host, or a move of the server uses this host
UNKNOWN = 'unknown'
GONE = (DELETED_FOR_GOOD, ELSEWHERE)

# ---- task states: operation in progress -------------------------------------
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

# ---- power states of guests, with the numbers of the compute API -------------
NOSTATE, RUNNING, POWER_PAUSED, SHUTDOWN, CRASHED, POWER_SUSPENDED = 0, 1, 3, 4, 6, 7
POWER_STATE_NAMES = {NOSTATE: 'pending', RUNNING: 'running', POWER_PAUSED: 'paused', SHUTDOWN: 'shutdown',
                     CRASHED: 'crashed', POWER_SUSPENDED: 'suspended'}

# _FOLLOWS is {power state: new vm state}, for servers without a task that have a vm state in _SETTLED.
_SETTLED = (ACTIVE, STOPPED, PAUSED, SUSPENDED)
_FOLLOWS = {RUNNING: ACTIVE, POWER_PAUSED: PAUSED, SHUTDOWN: STOPPED, CRASHED: STOPPED, POWER_SUSPENDED: SUSPENDED}


def vm_state_for(vm_state: str, power_state: int) -> str:
    """Return the vm state of an idle server that follows from the power state of its guest.

    If no other vm state follows, the result is the present vm state.
    """
    if vm_state not in _SETTLED or (vm_state == SUSPENDED and power_state == SHUTDOWN):
        return vm_state
    return _FOLLOWS.get(power_state, vm_state)


# ---- server status of the API: {vm state: (default status, {task state: status})} ----------
_REBOOTS = {REBOOTING: 'REBOOT', REBOOT_PENDING: 'REBOOT', REBOOT_STARTED: 'REBOOT',
            REBOOTING_HARD: 'HARD_REBOOT', REBOOT_PENDING_HARD: 'HARD_REBOOT',
            REBOOT_STARTED_HARD: 'HARD_REBOOT'}
_REBUILDS = {REBUILDING: 'REBUILD', REBUILD_BLOCK_DEVICE_MAPPING: 'REBUILD', REBUILD_SPAWNING: 'REBUILD'}
_RESIZES = {RESIZE_PREP: 'RESIZE', RESIZE_MIGRATING: 'RESIZE', RESIZE_MIGRATED: 'RESIZE',
            RESIZE_FINISH: 'RESIZE'}

STATUS: dict[str, tuple[str, dict[str, str]]] = {
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


def status(vm_state: str, task_state: str | None) -> str:
    """Return the server status of the compute API, 'UNKNOWN' for an unknown vm state."""
    default, by_task = STATUS.get(vm_state, ('UNKNOWN', {}))
    return by_task.get(task_state, default) if task_state else default


def states_of_status(wanted: typing.Container[str]) -> list[tuple[str, list[str] | None, list[str]]]:
    """Return [(vm_state, task_states, excluded)]: the states of servers with one of these statuses.

    If task_states is None, all task states match except those in ``excluded``. The server list converts the filter
    ``status=`` with this function to a condition on the columns vm_state and task_state.
    """
    found: list[tuple[str, list[str] | None, list[str]]] = []
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

# statuses of moves that a service continues
OPEN_MOVES = ('accepted', 'pre-migrating', 'migrating', 'post-migrating', 'finished', 'confirming', 'reverting',
              'queued', 'preparing', 'running')
# statuses of moves that have ended: they claim no resources, and no service continues them
ENDED_MOVES = ('confirmed', 'reverted', 'completed', 'done', 'cancelled', 'error', 'failed')
