"""The table of actions: one row says all that is known of an action on a server.

The API's refusals, the conditional UPDATE that begins a task, the frame of the task on a host, recovery when a host
starts, the reconciler, notifications, the reference in the documentation and the contract tests read these rows. An
action with a usual frame needs a row here, a method of the driver, a body on the compute host and a route of the API.
"""
import dataclasses
import functools
import typing

from nova import states
from nova.states import ACTIVE
from nova.states import DELETED
from nova.states import ERROR
from nova.states import PAUSED
from nova.states import RESCUED
from nova.states import RESIZED
from nova.states import SHELVED
from nova.states import SHELVED_OFFLOADED
from nova.states import SOFT_DELETED
from nova.states import STOPPED
from nova.states import SUSPENDED

TPM, UEFI = 'a TPM', 'UEFI variables'    # in Action.loses
ANY = None               # in Action.vm_states and Action.task_states: no condition
IDLE = (None,)           # in Action.task_states: nothing else may be running

VmStates: typing.TypeAlias = tuple[str, ...] | None
TaskStates: typing.TypeAlias = tuple[str | None, ...] | None


@dataclasses.dataclass(frozen=True)
class Restart:
    """What a compute does at its start with an action that it finds interrupted.

    method     of the compute
    arguments  {name: value where the action's record has none}; the record may have more, which are not handed over
    repeats    it does the action again; False: it gives the action up, and takes back what was begun
    """

    method: str
    arguments: dict[str, object] = dataclasses.field(default_factory=dict, hash=False)
    repeats: bool = True


def repeat(method: str, **arguments: object) -> Restart:
    """Do the action again."""
    return Restart(method, arguments)


def abandon(method: str, **arguments: object) -> Restart:
    """Give the action up."""
    return Restart(method, arguments, repeats=False)


class Frame(typing.Protocol):
    """What the frame of a task on a host (compute/task.py) reads: of an action, or of a step of one.

    task_event    name of the event in the action's record
    taken_in      task states in which a host takes the server up; None: it does nothing
    started       task state that the host sets then; None: the server keeps its own
    after         vm state at the usual end; None: the server keeps its own
    on_failure    vm state when the body fails; None: the server keeps its own
    keeps_stopped a server that was stopped is STOPPED at the end, instead of ``after``
    """

    @property
    def task_event(self) -> str: ...
    @property
    def taken_in(self) -> tuple[str | None, ...]: ...
    @property
    def started(self) -> str | None: ...
    @property
    def after(self) -> str | None: ...
    @property
    def on_failure(self) -> str | None: ...
    @property
    def keeps_stopped(self) -> bool: ...


@dataclasses.dataclass(frozen=True)
class Action:
    """What one action on a server needs, sets and leaves behind.

    name          as in the request body and, where ``event`` is empty, in the instance action's record
    vm_states     allowed before, or ANY
    tasks         all task states that it passes through, in order; the first one is set when the action begins.
                  Empty: the action sets none
    policy        rule that guards it
    after         vm state at its usual end (None: unchanged)
    keeps_stopped a server that was stopped is STOPPED at the end, instead of ``after``
    on_failure    vm state when its task fails (None: unchanged)
    task_states   allowed before, or ANY; IDLE when nothing else may run
    started       task state that its host sets when it takes the server up (None: unchanged)
    locked        refused to non-admins while the server is locked
    host          needs a server that has a host
    capability    name of the driver feature it needs, or None
    event         name of the instance action record
    method        method of the compute's RPC interface, or None where no compute is called first
    conductor     method of the conductor's RPC interface that goes on with it, with the instance's uuid, where the
                  server may have no host
    restart       what a compute does at its start with one that was interrupted; None: nothing, the reconciler does
    background    it takes a while and sets no task state: several may wait for the same server, and its record
                  stays open until it is done
    task_name     name of its task where it is not that of ``method``
    notification  event of the server that its task begins and ends (nova/notify/events.py, without ``instance.``)
    on_request    event of the server that is sent when the API has begun it
    silent        why it has no event of its own
    needs_plain   why it is refused for a server whose local disks are encrypted, the end of a sentence
    loses         parts of a guest's machine whose state it would lose (TPM, UEFI): it is refused for a
                  server that has one
    no_shares     why it is refused for a server that has shares, the end of a sentence
    alone         it is refused while the one before of the same server is open; of a background action
    takes_devices it claims elsewhere what devices the server's ports need: not while such a port comes or goes
    """

    name: str
    vm_states: VmStates
    tasks: tuple[str, ...]
    policy: str
    after: str | None = None
    keeps_stopped: bool = False
    on_failure: str | None = None
    task_states: TaskStates = IDLE
    started: str | None = None
    locked: bool = True
    host: bool = False
    capability: str | None = None
    event: str = ''
    method: str | None = None
    conductor: str | None = None
    restart: Restart | None = None
    background: bool = False
    task_name: str = ''
    notification: str | None = None
    on_request: str | None = None
    silent: str = ''
    needs_plain: str = ''
    loses: tuple[str, ...] = ()
    no_shares: str = ''
    takes_devices: bool = False
    alone: bool = False

    @property
    def running(self) -> str | None:
        """The task state that begins it."""
        return self.tasks[0] if self.tasks else None

    @property
    def record(self) -> str:
        """Its name in the instance action's record."""
        return self.event or self.name

    @functools.cached_property
    def task_event(self) -> str:
        """Name of the event of its task on a host, in the action's record; '' where no host works on it."""
        name = self.task_name or self.method or (self.restart.method if self.restart else '')
        return 'compute_' + name if name else ''

    @property
    def taken_in(self) -> tuple[str, ...]:
        """Task states in which a host takes it up: one that is not repeated begins once."""
        return self.tasks if self.restart is None or self.restart.repeats else self.tasks[:1]

    @property
    def needs_host(self) -> bool:
        """Whether it can begin only on a server that has a host. A deletion goes without."""
        return self.host or self.method is not None and self.after != DELETED

    def allows(self, vm_state: str, task_state: str | None) -> bool:
        """Whether it can begin in these states."""
        return ((self.vm_states is ANY or vm_state in self.vm_states)
                and (self.task_states is ANY or task_state in self.task_states))


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of a move, done by one of its two hosts; the conductor writes its end.

    method        of the compute's RPC interface
    end           column of the move that names the host
    tasks         task states in which the host takes the server up
    started       task state that the host sets then (None: unchanged)
    notification  event of the server that it begins and ends
    task_name     name of its task where it is not that of ``method``
    """

    method: str
    end: str
    tasks: tuple[str, ...]
    started: str | None = None
    notification: str | None = None
    task_name: str = ''
    after: None = None
    on_failure: None = None
    keeps_stopped: bool = False

    @property
    def task_event(self) -> str:
        return 'compute_' + (self.task_name or self.method)

    @property
    def taken_in(self) -> tuple[str, ...]:
        return self.tasks


# ---- steps of a cold move (resize, migrate, confirm, revert) ------------------
SOURCE, DESTINATION = 'source_compute', 'dest_compute'
PREPARE = Step('prep_resize', DESTINATION, (states.RESIZE_PREP,), notification='resize_prep')
SEND = Step('resize_instance', SOURCE, (states.RESIZE_PREP, states.RESIZE_MIGRATING), states.RESIZE_MIGRATING,
            'resize')
FINISH = Step('finish_resize', DESTINATION, (states.RESIZE_MIGRATED, states.RESIZE_FINISH), states.RESIZE_FINISH,
              'resize_finish')
CONFIRM = Step('confirm_resize', SOURCE, (states.RESIZE_CONFIRMING,), notification='resize_confirm')
REVERT = Step('revert_resize', DESTINATION, (states.RESIZE_REVERTING,), notification='resize_revert')
TAKE_BACK = Step('finish_revert_resize', SOURCE, (states.RESIZE_REVERTING,))
# Of a resize that leaves the guest running, the only step.
GROW = Step('grow_instance', SOURCE, (states.RESIZE_PREP, states.RESIZE_FINISH), states.RESIZE_FINISH, 'resize_finish')
MOVE_STEPS = (PREPARE, SEND, FINISH, CONFIRM, REVERT, TAKE_BACK, GROW)
# task state -> the step that a server in it waits for; TAKE_BACK follows REVERT when the move's row says so
STEP_OF_TASK = {task: step for step in reversed(MOVE_STEPS) for task in reversed(step.tasks)}

# The guest leaves its source and, on the destination, has arrived: two tasks of one name.
LIVE_MIGRATION = Step('live_migrate_instance', SOURCE, (states.MIGRATING,), task_name='live_migration')

# ---- rows ---------------------------------------------------------------------
_SNAPSHOTS = (ACTIVE, STOPPED, PAUSED, SUSPENDED)
_VOLUMES = (ACTIVE, PAUSED, STOPPED, RESIZED, SOFT_DELETED, SHELVED, SHELVED_OFFLOADED)
_REBOOT = (states.REBOOTING, states.REBOOT_PENDING, states.REBOOT_STARTED)
_REBOOT_HARD = (states.REBOOTING_HARD, states.REBOOT_PENDING_HARD, states.REBOOT_STARTED_HARD)
_UPLOAD = (states.IMAGE_PENDING_UPLOAD, states.IMAGE_UPLOADING)
_RULE = 'os_compute_api:'
_NEXT_EVENT = 'sent with the next event of the server'
_COPY = 'the image would have their content without encryption'
_HELD = 'the state of virtiofsd stays with its host'
_OTHER_HOST = 'the share is open to the host that the server is on'
_REBUILT = 'the guest is made again, without them'

ROWS = (
    Action('os-start', (STOPPED,), (states.POWERING_ON,), _RULE + 'servers:start', after=ACTIVE, host=True,
           event='start', method='start_instance', restart=repeat('start_instance'), notification='power_on'),
    Action('os-stop', (ACTIVE, ERROR), (states.POWERING_OFF,), _RULE + 'servers:stop', after=STOPPED, host=True,
           event='stop', method='stop_instance', restart=repeat('stop_instance', clean_shutdown=True),
           notification='power_off'),
    # a guest that was in the middle of a reboot is in an unknown state: power cycle
    Action('reboot', (ACTIVE,), _REBOOT, _RULE + 'servers:reboot', after=ACTIVE, on_failure=ERROR,
           started=states.REBOOT_STARTED, method='reboot_instance',
           restart=repeat('reboot_instance', reboot_type='SOFT'), notification='reboot'),
    Action('reboot-hard', (ACTIVE, STOPPED, PAUSED, SUSPENDED, ERROR), _REBOOT_HARD, _RULE + 'servers:reboot',
           after=ACTIVE, on_failure=ERROR, started=states.REBOOT_STARTED_HARD, event='reboot',
           task_states=(None, *_REBOOT, *_REBOOT_HARD, states.RESUMING, states.PAUSING, states.UNPAUSING,
                        states.SUSPENDING),
           method='reboot_instance', restart=repeat('reboot_instance', reboot_type='HARD'), notification='reboot'),
    Action('pause', (ACTIVE,), (states.PAUSING,), _RULE + 'os-pause-server:pause', after=PAUSED, capability='pause',
           method='pause_instance', restart=repeat('pause_instance'), notification='pause'),
    Action('unpause', (PAUSED,), (states.UNPAUSING,), _RULE + 'os-pause-server:unpause', after=ACTIVE,
           capability='pause', method='unpause_instance', restart=repeat('unpause_instance'), notification='unpause'),
    Action('suspend', (ACTIVE,), (states.SUSPENDING,), _RULE + 'os-suspend-server:suspend', after=SUSPENDED,
           capability='suspend', method='suspend_instance', restart=repeat('suspend_instance'),
           notification='suspend', needs_plain='the file of its memory would not be encrypted', no_shares=_HELD),
    Action('resume', (SUSPENDED,), (states.RESUMING,), _RULE + 'os-suspend-server:resume', after=ACTIVE,
           capability='suspend', method='resume_instance', restart=repeat('resume_instance'), notification='resume'),
    Action('os-migrateLive', (ACTIVE, PAUSED), (states.MIGRATING,), _RULE + 'os-migrate-server:migrate_live', host=True,
           capability='live_migration', event='live-migration', conductor='continue_live_migration',
           restart=repeat('resume_live_migration'), notification='live_migration_post',
           needs_plain='it can be migrated while it is off', no_shares=_HELD),
    Action('rebuild', (ACTIVE, STOPPED, ERROR),
           (states.REBUILDING, states.REBUILD_BLOCK_DEVICE_MAPPING, states.REBUILD_SPAWNING), _RULE + 'servers:rebuild',
           after=ACTIVE, keeps_stopped=True, on_failure=ERROR, started=states.REBUILDING, method='rebuild_instance',
           restart=repeat('rebuild_instance', preserve_ephemeral=False), notification='rebuild', no_shares=_REBUILT),
    # on its new host it is a rebuild, which a restart there leaves to a conductor
    Action('evacuate', (ACTIVE, STOPPED, ERROR), (states.REBUILDING,), _RULE + 'os-evacuate', after=ACTIVE,
           keeps_stopped=True, task_states=ANY, locked=False, host=True, conductor='continue_evacuation',
           task_name='rebuild_instance', notification='rebuild', on_request='evacuate', no_shares=_OTHER_HOST),
    Action('createImage', _SNAPSHOTS, (states.IMAGE_SNAPSHOT_PENDING, states.IMAGE_SNAPSHOT, *_UPLOAD),
           _RULE + 'servers:create_image', started=states.IMAGE_SNAPSHOT, locked=False, capability='snapshot',
           method='snapshot_instance', notification='snapshot', needs_plain=_COPY, loses=(TPM,),
           restart=abandon('abandon_snapshot', image_id=None, backup_type=None, rotation=None)),
    Action('createBackup', _SNAPSHOTS, (states.IMAGE_BACKUP, *_UPLOAD), _RULE + 'os-create-backup', locked=False,
           capability='snapshot', method='backup_instance', notification='snapshot', needs_plain=_COPY, loses=(TPM,),
           restart=abandon('abandon_snapshot', image_id=None, backup_type=None, rotation=None)),
    Action('rescue', (ACTIVE, STOPPED, ERROR), (states.RESCUING,), _RULE + 'os-rescue', after=RESCUED,
           on_failure=ERROR, capability='rescue', method='rescue_instance', notification='rescue',
           restart=repeat('rescue_instance', image_id=None, admin_password=None, clean_shutdown=False)),
    Action('unrescue', (RESCUED,), (states.UNRESCUING,), _RULE + 'os-unrescue', after=ACTIVE, on_failure=ERROR,
           capability='rescue', method='unrescue_instance', restart=repeat('unrescue_instance'),
           notification='unrescue'),
    # where the server leaves its host at once, it goes on as shelveOffload
    Action('shelve', _SNAPSHOTS,
           (states.SHELVING, states.SHELVING_IMAGE_PENDING_UPLOAD, states.SHELVING_IMAGE_UPLOADING),
           _RULE + 'os-shelve:shelve', after=SHELVED, started=states.SHELVING, capability='snapshot',
           method='shelve_instance', restart=repeat('shelve_instance', image_id=None, clean_shutdown=False),
           notification='shelve', needs_plain=_COPY, loses=(TPM, UEFI), no_shares=_OTHER_HOST),
    Action('shelveOffload', (SHELVED,), (states.SHELVING_OFFLOADING,), _RULE + 'os-shelve:shelve_offload',
           after=SHELVED_OFFLOADED, method='shelve_offload_instance', restart=repeat('shelve_offload_instance'),
           notification='shelve_offload'),
    Action('unshelve', (SHELVED, SHELVED_OFFLOADED), (states.UNSHELVING,), _RULE + 'os-shelve:unshelve', after=ACTIVE,
           conductor='unshelve_instance', restart=repeat('unshelve_instance'), notification='unshelve'),
    Action('resize', (ACTIVE, STOPPED),
           (states.RESIZE_PREP, states.RESIZE_MIGRATING, states.RESIZE_MIGRATED, states.RESIZE_FINISH),
           _RULE + 'servers:resize', after=RESIZED, host=True, capability='resize', conductor='continue_move',
           notification='resize', no_shares=_OTHER_HOST, takes_devices=True),
    Action('migrate', (ACTIVE, STOPPED),
           (states.RESIZE_PREP, states.RESIZE_MIGRATING, states.RESIZE_MIGRATED, states.RESIZE_FINISH),
           _RULE + 'os-migrate-server:migrate', after=RESIZED, host=True, capability='resize',
           conductor='continue_move', notification='resize', no_shares=_OTHER_HOST, takes_devices=True),
    Action('confirmResize', (RESIZED,), (states.RESIZE_CONFIRMING,), _RULE + 'servers:confirm_resize',
           conductor='continue_move', notification='resize_confirm'),
    Action('revertResize', (RESIZED,), (states.RESIZE_REVERTING,), _RULE + 'servers:revert_resize',
           conductor='continue_move', notification='resize_revert'),
    Action('changePassword', (ACTIVE,), (states.UPDATING_PASSWORD,), _RULE + 'os-admin-password', after=ACTIVE,
           capability='password', method='set_admin_password',
           restart=repeat('set_admin_password', admin_password=None),
           silent='its end is in the record of actions; the password is not shown'),
    Action('trigger_crash_dump', (ACTIVE, PAUSED, RESCUED, RESIZED, ERROR), (), _RULE + 'servers:trigger_crash_dump',
           host=True, capability='crash_dump', method='trigger_crash_dump', restart=abandon('abandon_crash_dump'),
           background=True, alone=True, notification='trigger_crash_dump'),
    Action('injectNetworkInfo', ANY, (), _RULE + 'os-admin-actions:inject_network_info', task_states=ANY, host=True,
           method='inject_network_info', silent='nothing of the server changes'),
    Action('os-getConsoleOutput', ANY, (), _RULE + 'os-console-output', task_states=ANY, locked=False, host=True,
           method='get_console_output', silent='it reads'),
    Action('lock', ANY, (), _RULE + 'os-lock-server:lock', task_states=ANY, locked=False, on_request='lock'),
    Action('unlock', ANY, (), _RULE + 'os-lock-server:unlock', task_states=ANY, locked=False, on_request='unlock'),
    Action('os-resetState', ANY, (), _RULE + 'os-admin-actions:reset_state', task_states=ANY, locked=False,
           silent='sent as instance.update'),
    Action('attach_interface', (ACTIVE, PAUSED, STOPPED), (), _RULE + 'os-attach-interfaces:create',
           capability='interfaces', method='attach_interface', restart=abandon('abandon_interface'), background=True,
           notification='interface_attach'),
    Action('addFixedIp', (ACTIVE, PAUSED, SUSPENDED, STOPPED), (), _RULE + 'os-multinic:add', method='add_fixed_ip',
           restart=abandon('abandon_fixed_ip'), background=True, silent=_NEXT_EVENT),
    Action('removeFixedIp', (ACTIVE, PAUSED, SUSPENDED, STOPPED), (), _RULE + 'os-multinic:remove',
           method='remove_fixed_ip', restart=repeat('remove_fixed_ip'), background=True, silent=_NEXT_EVENT),
    Action('detach_interface', (ACTIVE, PAUSED, STOPPED), (), _RULE + 'os-attach-interfaces:delete',
           capability='interfaces', method='detach_interface', restart=repeat('detach_interface'), background=True,
           notification='interface_detach'),
    Action('attach_volume', _VOLUMES, (), _RULE + 'os-volumes-attachments:create', capability='volumes',
           method='attach_volume', restart=repeat('attach_volume'), background=True, notification='volume_attach'),
    Action('detach_volume', _VOLUMES, (), _RULE + 'os-volumes-attachments:delete', capability='volumes',
           method='detach_volume', restart=repeat('detach_volume'), background=True, notification='volume_detach'),
    Action('attach_share', (STOPPED,), (), _RULE + 'os-server-shares:create', capability='shares',
           method='attach_share', restart=repeat('attach_share'), background=True, notification='share_attach'),
    Action('detach_share', (STOPPED, ERROR), (), _RULE + 'os-server-shares:delete', capability='shares',
           method='detach_share', restart=repeat('detach_share'), background=True, notification='share_detach'),
    Action('swap_volume', (ACTIVE, PAUSED, RESIZED), (), _RULE + 'os-volumes-attachments:swap', capability='volumes',
           method='swap_volume', restart=repeat('swap_volume'), background=True, notification='volume_swap'),
    Action('metadata', (ACTIVE, PAUSED, SUSPENDED, STOPPED), (), _RULE + 'server-metadata:update', task_states=ANY,
           silent=_NEXT_EVENT),
    Action('delete', ANY, (states.DELETING,), _RULE + 'servers:delete', after=DELETED, on_failure=ERROR,
           task_states=ANY, method='terminate_instance', restart=repeat('terminate_instance'), notification='delete'),
    # what a delete is while the deployment keeps deleted servers for a time
    Action('softDelete', (ACTIVE, PAUSED, SUSPENDED, STOPPED, RESCUED, ERROR), (states.SOFT_DELETING,),
           _RULE + 'servers:delete', after=SOFT_DELETED, task_states=ANY, event='delete',
           method='soft_delete_instance', restart=repeat('soft_delete_instance'), notification='soft_delete'),
    Action('restore', (SOFT_DELETED,), (states.RESTORING,), _RULE + 'os-deferred-delete:restore', after=ACTIVE,
           on_failure=SOFT_DELETED, method='restore_instance', restart=repeat('restore_instance'),
           notification='restore'),
    Action('forceDelete', ANY, (states.DELETING,), _RULE + 'os-deferred-delete:force', after=DELETED, on_failure=ERROR,
           task_states=ANY, event='delete', method='terminate_instance', restart=repeat('terminate_instance'),
           notification='delete'),
)
ACTIONS = {row.name: row for row in ROWS}

BUILD = Action('create', (states.BUILDING,),
               (states.SCHEDULING, states.BLOCK_DEVICE_MAPPING, states.NETWORKING, states.SPAWNING),
               _RULE + 'servers:create', after=ACTIVE, started=states.SPAWNING, task_states=ANY, locked=False,
               method='build_instance', notification='create')

# What is requested of a live migration while it runs; its record says that it was.
ABORT_MIGRATION = Action('abort', ANY, (), _RULE + 'servers:migrations:delete', task_states=(states.MIGRATING,),
                         event='live_migration_cancel')
FORCE_COMPLETE = Action('force_complete', ANY, (), _RULE + 'servers:migrations:force_complete',
                        task_states=(states.MIGRATING,), event='live_migration_force_complete')

# ---- what follows from the rows -------------------------------------------------


def _first(pairs: typing.Iterable[tuple[str, Action]]) -> dict[str, Action]:
    """Of several rows with one key the first one."""
    found: dict[str, Action] = {}
    for key, action in pairs:
        found.setdefault(key, action)
    return found


# task state -> the action that a server in it waits for; those that share one have the same methods
OF_TASK = _first((task, action) for action in ROWS for task in action.tasks)
# name in an action's record -> the action; those that share one have the same notification but softDelete
OF_RECORD = _first((action.record, action) for action in (BUILD, *ROWS))
# records of background actions, which run during the main one of a server
BACKGROUND = frozenset(action.record for action in ROWS if action.background)
# task states in which a server waits for a conductor, or for the next message to a host
WAITING = (states.SCHEDULING, states.DELETING, *(task for action in ROWS if action.conductor for task in action.tasks))
# event of a host's task -> notification that it begins and ends
NOTIFICATION_OF_TASK = {row.task_event: row.notification for row in (BUILD, *ROWS, *MOVE_STEPS)
                        if row.notification and row.tasks and row.task_event}
# name of an action -> why it has no notification of its own
SILENT = {action.name: action.silent for action in ROWS if action.silent}
