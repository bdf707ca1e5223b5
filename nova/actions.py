"""Table of actions on servers: each row is an Action, made of dataclasses for conditions, results, calls and events.

A new action usually needs a row here, a driver method, a method of the compute service and an API route.

The rows are used by: the checks of the API, the database update that starts a task, compute/tasks.py, the recovery of
a compute service, the reconciler, notifications, the documentation and the contract tests.
"""
import dataclasses
import functools
import typing

from nova.json_types import Json
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

TPM, UEFI = 'a TPM', 'UEFI variables'    # values of Requirements.loses
ANY = None               # value of Conditions.vm_states or task_states: all states are allowed
IDLE = (None,)           # value of Conditions.task_states: no other task may run

VmStates: typing.TypeAlias = tuple[str, ...] | None
TaskStates: typing.TypeAlias = tuple[str | None, ...] | None


@dataclasses.dataclass(frozen=True)
class Restart:
    """Recovery of an interrupted action when the compute service starts.

    method     method of the compute's RPC interface
    arguments  {name: default value} of the method's arguments; values in the action record take precedence
    repeats    whether to repeat the action; otherwise it is abandoned and its changes are rolled back
    """

    method: str
    arguments: dict[str, Json] = dataclasses.field(default_factory=dict, hash=False)
    repeats: bool = True


def repeat(method: str, **arguments: Json) -> Restart:
    """Return a Restart that repeats the action."""
    return Restart(method, arguments)


def abandon(method: str, **arguments: Json) -> Restart:
    """Return a Restart that abandons the action."""
    return Restart(method, arguments, repeats=False)


@dataclasses.dataclass(frozen=True)
class Conditions:
    """Conditions under which an action can begin, checked by the API, the dashboard and the update that sets the task.

    vm_states           vm states in which the action is allowed, or ANY
    task_states         task states in which the action is allowed, or ANY; IDLE: no other task may run
    locked              whether the action is refused to non-administrators while the server is locked
    host                whether the server must have a host
    claims_devices      whether the action claims devices on another host for the server's ports. If so, the action
                        is refused while a port with a device is being attached or detached
    one_at_a_time       whether a background action is refused while the server has an open record of the same action
    refused_with_shares end of the error message for servers with shares, or '' if they are allowed
    """

    vm_states: VmStates
    task_states: TaskStates = IDLE
    locked: bool = True
    host: bool = False
    claims_devices: bool = False
    one_at_a_time: bool = False
    refused_with_shares: str = ''

    def allows(self, vm_state: str, task_state: str | None) -> bool:
        """Return whether these states permit the action."""
        return ((self.vm_states is ANY or vm_state in self.vm_states)
                and (self.task_states is ANY or task_state in self.task_states))


@dataclasses.dataclass(frozen=True)
class Requirements:
    """Requirements that the API checks before an action begins.

    capability            name of the required driver feature, or None
    loses                 devices whose state the action would lose (TPM, UEFI); servers with such a device are refused
    refused_if_encrypted  end of the error message for servers with encrypted local disks, or '' if they are allowed
    """

    capability: str | None = None
    loses: tuple[str, ...] = ()
    refused_if_encrypted: str = ''


@dataclasses.dataclass(frozen=True)
class Outcome:
    """States of a server that its host sets when it runs a task.

    after          vm state on success, or None to leave it unchanged
    on_failure     vm state when the task fails, or None to leave it unchanged
    started        task state that the host sets when it begins the task, or None to leave it unchanged
    keeps_stopped  whether a server that was stopped becomes STOPPED at the end, instead of ``after``
    """

    after: str | None = None
    on_failure: str | None = None
    started: str | None = None
    keeps_stopped: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Frame(Outcome):
    """States before, during and after a task on a host, for compute/tasks.py. A task is an action or one of its steps.

    task_event  name of the event in the action's record
    taken_in    task states in which a host may begin the task; None stands for no task state
    """

    task_event: str
    taken_in: tuple[str | None, ...]


@dataclasses.dataclass(frozen=True)
class Calls:
    """Methods of other services that perform an action.

    method     method of the compute's RPC interface, or None if the action does not begin with a call to a compute
               service
    restart    recovery of an interrupted action at the start of a compute service, or None: the reconciler recovers it
    conductor  method(instance uuid) of the conductor's RPC interface that continues the action; set for actions on
               servers that may have no host
    task_name  name of the task, if it differs from ``method``
    """

    method: str | None = None
    restart: Restart | None = None
    conductor: str | None = None
    task_name: str = ''

    @property
    def task_event(self) -> str:
        """Name of the event in the action's record for the task on a host; '' if no host takes part."""
        name = self.task_name or self.method or (self.restart.method if self.restart else '')
        return 'compute_' + name if name else ''


@dataclasses.dataclass(frozen=True)
class Events:
    """Notifications of an action: event types of nova/notify/events.py, without the prefix ``instance.``.

    notification     event type NAME: the begin of the task sends NAME.start, and its end NAME.end
    on_request       event type that is sent when the API accepts the action
    no_event_reason  reason why the action has no separate event type
    """

    notification: str | None = None
    on_request: str | None = None
    no_event_reason: str = ''


@dataclasses.dataclass(frozen=True)
class Action:
    """One action on a server.

    name        key in the request body, and the name of the instance action record if ``event`` is empty
    policy      policy rule of the action
    tasks       all task states that the action passes through, in order; the first one is set when it begins. Empty if
                the action sets no task state
    event       name of the instance action record
    background  whether the action sets no task state, so that several actions can wait for one server. The action
                record is open until the action ends
    """

    name: str
    policy: str
    conditions: Conditions
    tasks: tuple[str, ...] = ()
    outcome: Outcome = Outcome()
    calls: Calls = Calls()
    events: Events = Events()
    requirements: Requirements = Requirements()
    event: str = ''
    background: bool = False

    @property
    def running(self) -> str | None:
        """The first task state of the action, or None."""
        return self.tasks[0] if self.tasks else None

    @property
    def record(self) -> str:
        """Name of the action in the instance action's record."""
        return self.event or self.name

    @functools.cached_property
    def frame(self) -> Frame:
        """States of the task. If a restart abandons the action, a host begins it only in its first task state."""
        restart = self.calls.restart
        return Frame(task_event=self.calls.task_event, **vars(self.outcome),
                     taken_in=self.tasks if restart is None or restart.repeats else self.tasks[:1])

    @property
    def needs_host(self) -> bool:
        """Whether the action requires that the server has a host. Deletions do not require a host."""
        return self.conditions.host or self.calls.method is not None and self.outcome.after != DELETED


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of a move on one of the move's two hosts. The conductor records the end of the step.

    method        method of the compute's RPC interface
    end           column of the move's row with the name of the host that runs the step
    tasks         task states in which the host may begin the step
    started       task state that the host sets when it begins, or None to leave it unchanged
    notification  event type NAME: the begin of the step sends NAME.start, and its end NAME.end
    task_name     name of the step's task, if it differs from ``method``
    """

    method: str
    end: str
    tasks: tuple[str, ...]
    started: str | None = None
    notification: str | None = None
    task_name: str = ''

    @functools.cached_property
    def frame(self) -> Frame:
        return Frame(task_event='compute_' + (self.task_name or self.method), taken_in=self.tasks, started=self.started)


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
# The only step of a resize that leaves the guest running.
GROW = Step('grow_instance', SOURCE, (states.RESIZE_PREP, states.RESIZE_FINISH), states.RESIZE_FINISH, 'resize_finish')
MOVE_STEPS = (PREPARE, SEND, FINISH, CONFIRM, REVERT, TAKE_BACK, GROW)
# task state -> the step that a server in this state waits for. If the server is back on its
# source (``claims_swapped`` of the move is false), the step is TAKE_BACK instead of REVERT
STEP_OF_TASK = {task: step for step in reversed(MOVE_STEPS) for task in reversed(step.tasks)}

# The source's task (send the guest) and the destination's task (finish the migration) both use this step's event name.
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
    Action('os-start', _RULE + 'servers:start', Conditions((STOPPED,), host=True), (states.POWERING_ON,),
           Outcome(ACTIVE), Calls('start_instance', repeat('start_instance')), Events('power_on'), event='start'),
    Action('os-stop', _RULE + 'servers:stop', Conditions((ACTIVE, ERROR), host=True), (states.POWERING_OFF,),
           Outcome(STOPPED), Calls('stop_instance', repeat('stop_instance', clean_shutdown=True)), Events('power_off'),
           event='stop'),
    # an interrupted reboot leaves the guest in an unknown state, so it is power-cycled
    Action('reboot', _RULE + 'servers:reboot', Conditions((ACTIVE,)), _REBOOT,
           Outcome(ACTIVE, on_failure=ERROR, started=states.REBOOT_STARTED),
           Calls('reboot_instance', repeat('reboot_instance', reboot_type='SOFT')), Events('reboot')),
    Action('reboot-hard', _RULE + 'servers:reboot',
           Conditions((ACTIVE, STOPPED, PAUSED, SUSPENDED, ERROR),
                      task_states=(None, *_REBOOT, *_REBOOT_HARD, states.RESUMING, states.PAUSING, states.UNPAUSING,
                                   states.SUSPENDING)),
           _REBOOT_HARD, Outcome(ACTIVE, on_failure=ERROR, started=states.REBOOT_STARTED_HARD),
           Calls('reboot_instance', repeat('reboot_instance', reboot_type='HARD')), Events('reboot'), event='reboot'),
    Action('pause', _RULE + 'os-pause-server:pause', Conditions((ACTIVE,)), (states.PAUSING,), Outcome(PAUSED),
           Calls('pause_instance', repeat('pause_instance')), Events('pause'), Requirements('pause')),
    Action('unpause', _RULE + 'os-pause-server:unpause', Conditions((PAUSED,)), (states.UNPAUSING,), Outcome(ACTIVE),
           Calls('unpause_instance', repeat('unpause_instance')), Events('unpause'), Requirements('pause')),
    Action('suspend', _RULE + 'os-suspend-server:suspend', Conditions((ACTIVE,), refused_with_shares=_HELD),
           (states.SUSPENDING,), Outcome(SUSPENDED), Calls('suspend_instance', repeat('suspend_instance')),
           Events('suspend'),
           Requirements('suspend', refused_if_encrypted='the file of its memory would not be encrypted')),
    Action('resume', _RULE + 'os-suspend-server:resume', Conditions((SUSPENDED,)), (states.RESUMING,), Outcome(ACTIVE),
           Calls('resume_instance', repeat('resume_instance')), Events('resume'), Requirements('suspend')),
    Action('os-migrateLive', _RULE + 'os-migrate-server:migrate_live',
           Conditions((ACTIVE, PAUSED), host=True, refused_with_shares=_HELD), (states.MIGRATING,),
           calls=Calls(restart=repeat('resume_live_migration'), conductor='continue_live_migration'),
           events=Events('live_migration_post'),
           requirements=Requirements('live_migration', refused_if_encrypted='it can be migrated while it is off'),
           event='live-migration'),
    Action('rebuild', _RULE + 'servers:rebuild', Conditions((ACTIVE, STOPPED, ERROR), refused_with_shares=_REBUILT),
           (states.REBUILDING, states.REBUILD_BLOCK_DEVICE_MAPPING, states.REBUILD_SPAWNING),
           Outcome(ACTIVE, on_failure=ERROR, started=states.REBUILDING, keeps_stopped=True),
           Calls('rebuild_instance', repeat('rebuild_instance', preserve_ephemeral=False)), Events('rebuild')),
    # the new host rebuilds the server; if that host restarts, the conductor continues the evacuation
    Action('evacuate', _RULE + 'os-evacuate',
           Conditions((ACTIVE, STOPPED, ERROR), task_states=ANY, locked=False, host=True,
                      refused_with_shares=_OTHER_HOST), (states.REBUILDING,), Outcome(ACTIVE, keeps_stopped=True),
           Calls(conductor='continue_evacuation', task_name='rebuild_instance'),
           Events('rebuild', on_request='evacuate')),
    Action('createImage', _RULE + 'servers:create_image', Conditions(_SNAPSHOTS, locked=False),
           (states.IMAGE_SNAPSHOT_PENDING, states.IMAGE_SNAPSHOT, *_UPLOAD), Outcome(started=states.IMAGE_SNAPSHOT),
           Calls('snapshot_instance', abandon('abandon_snapshot', image_id=None, backup_type=None, rotation=None)),
           Events('snapshot'), Requirements('snapshot', refused_if_encrypted=_COPY, loses=(TPM,))),
    Action('createBackup', _RULE + 'os-create-backup', Conditions(_SNAPSHOTS, locked=False),
           (states.IMAGE_BACKUP, *_UPLOAD),
           calls=Calls('backup_instance', abandon('abandon_snapshot', image_id=None, backup_type=None, rotation=None)),
           events=Events('snapshot'), requirements=Requirements('snapshot', refused_if_encrypted=_COPY, loses=(TPM,))),
    Action('rescue', _RULE + 'os-rescue', Conditions((ACTIVE, STOPPED, ERROR)), (states.RESCUING,),
           Outcome(RESCUED, on_failure=ERROR),
           Calls('rescue_instance',
                 repeat('rescue_instance', image_id=None, admin_password=None, clean_shutdown=False)), Events('rescue'),
           Requirements('rescue')),
    Action('unrescue', _RULE + 'os-unrescue', Conditions((RESCUED,)), (states.UNRESCUING,),
           Outcome(ACTIVE, on_failure=ERROR), Calls('unrescue_instance', repeat('unrescue_instance')),
           Events('unrescue'), Requirements('rescue')),
    # if shelved servers are offloaded immediately, the action continues as shelveOffload
    Action('shelve', _RULE + 'os-shelve:shelve', Conditions(_SNAPSHOTS, refused_with_shares=_OTHER_HOST),
           (states.SHELVING, states.SHELVING_IMAGE_PENDING_UPLOAD, states.SHELVING_IMAGE_UPLOADING),
           Outcome(SHELVED, started=states.SHELVING),
           Calls('shelve_instance', repeat('shelve_instance', image_id=None, clean_shutdown=False)), Events('shelve'),
           Requirements('snapshot', refused_if_encrypted=_COPY, loses=(TPM, UEFI))),
    Action('shelveOffload', _RULE + 'os-shelve:shelve_offload', Conditions((SHELVED,)), (states.SHELVING_OFFLOADING,),
           Outcome(SHELVED_OFFLOADED), Calls('shelve_offload_instance', repeat('shelve_offload_instance')),
           Events('shelve_offload')),
    Action('unshelve', _RULE + 'os-shelve:unshelve', Conditions((SHELVED, SHELVED_OFFLOADED)), (states.UNSHELVING,),
           Outcome(ACTIVE), Calls(restart=repeat('unshelve_instance'), conductor='unshelve_instance'),
           Events('unshelve')),
    Action('resize', _RULE + 'servers:resize',
           Conditions((ACTIVE, STOPPED), host=True, claims_devices=True, refused_with_shares=_OTHER_HOST),
           (states.RESIZE_PREP, states.RESIZE_MIGRATING, states.RESIZE_MIGRATED, states.RESIZE_FINISH),
           Outcome(RESIZED), Calls(conductor='continue_move'), Events('resize'), Requirements('resize')),
    Action('migrate', _RULE + 'os-migrate-server:migrate',
           Conditions((ACTIVE, STOPPED), host=True, claims_devices=True, refused_with_shares=_OTHER_HOST),
           (states.RESIZE_PREP, states.RESIZE_MIGRATING, states.RESIZE_MIGRATED, states.RESIZE_FINISH),
           Outcome(RESIZED), Calls(conductor='continue_move'), Events('resize'), Requirements('resize')),
    Action('confirmResize', _RULE + 'servers:confirm_resize', Conditions((RESIZED,)), (states.RESIZE_CONFIRMING,),
           calls=Calls(conductor='continue_move'), events=Events('resize_confirm')),
    Action('revertResize', _RULE + 'servers:revert_resize', Conditions((RESIZED,)), (states.RESIZE_REVERTING,),
           calls=Calls(conductor='continue_move'), events=Events('resize_revert')),
    Action('changePassword', _RULE + 'os-admin-password', Conditions((ACTIVE,)), (states.UPDATING_PASSWORD,),
           Outcome(ACTIVE), Calls('set_admin_password', repeat('set_admin_password', admin_password=None)),
           Events(no_event_reason='its end is in the record of actions; the password is not shown'),
           Requirements('password')),
    Action('trigger_crash_dump', _RULE + 'servers:trigger_crash_dump',
           Conditions((ACTIVE, PAUSED, RESCUED, RESIZED, ERROR), host=True, one_at_a_time=True),
           calls=Calls('trigger_crash_dump', abandon('abandon_crash_dump')), events=Events('trigger_crash_dump'),
           requirements=Requirements('crash_dump'), background=True),
    Action('injectNetworkInfo', _RULE + 'os-admin-actions:inject_network_info',
           Conditions(ANY, task_states=ANY, host=True), calls=Calls('inject_network_info'),
           events=Events(no_event_reason='nothing of the server changes')),
    Action('os-getConsoleOutput', _RULE + 'os-console-output',
           Conditions(ANY, task_states=ANY, locked=False, host=True), calls=Calls('get_console_output'),
           events=Events(no_event_reason='it reads')),
    Action('lock', _RULE + 'os-lock-server:lock', Conditions(ANY, task_states=ANY, locked=False),
           events=Events(on_request='lock')),
    Action('unlock', _RULE + 'os-lock-server:unlock', Conditions(ANY, task_states=ANY, locked=False),
           events=Events(on_request='unlock')),
    Action('os-resetState', _RULE + 'os-admin-actions:reset_state', Conditions(ANY, task_states=ANY, locked=False),
           events=Events(no_event_reason='sent as instance.update')),
    Action('attach_interface', _RULE + 'os-attach-interfaces:create', Conditions((ACTIVE, PAUSED, STOPPED)),
           calls=Calls('attach_interface', abandon('abandon_interface')), events=Events('interface_attach'),
           requirements=Requirements('interfaces'), background=True),
    Action('addFixedIp', _RULE + 'os-multinic:add', Conditions((ACTIVE, PAUSED, SUSPENDED, STOPPED)),
           calls=Calls('add_fixed_ip', abandon('abandon_fixed_ip')), events=Events(no_event_reason=_NEXT_EVENT),
           background=True),
    Action('removeFixedIp', _RULE + 'os-multinic:remove', Conditions((ACTIVE, PAUSED, SUSPENDED, STOPPED)),
           calls=Calls('remove_fixed_ip', repeat('remove_fixed_ip')), events=Events(no_event_reason=_NEXT_EVENT),
           background=True),
    Action('detach_interface', _RULE + 'os-attach-interfaces:delete', Conditions((ACTIVE, PAUSED, STOPPED)),
           calls=Calls('detach_interface', repeat('detach_interface')), events=Events('interface_detach'),
           requirements=Requirements('interfaces'), background=True),
    Action('attach_volume', _RULE + 'os-volumes-attachments:create', Conditions(_VOLUMES),
           calls=Calls('attach_volume', repeat('attach_volume')), events=Events('volume_attach'),
           requirements=Requirements('volumes'), background=True),
    Action('detach_volume', _RULE + 'os-volumes-attachments:delete', Conditions(_VOLUMES),
           calls=Calls('detach_volume', repeat('detach_volume')), events=Events('volume_detach'),
           requirements=Requirements('volumes'), background=True),
    Action('attach_share', _RULE + 'os-server-shares:create', Conditions((STOPPED,)),
           calls=Calls('attach_share', repeat('attach_share')), events=Events('share_attach'),
           requirements=Requirements('shares'), background=True),
    Action('detach_share', _RULE + 'os-server-shares:delete', Conditions((STOPPED, ERROR)),
           calls=Calls('detach_share', repeat('detach_share')), events=Events('share_detach'),
           requirements=Requirements('shares'), background=True),
    Action('swap_volume', _RULE + 'os-volumes-attachments:swap', Conditions((ACTIVE, PAUSED, RESIZED)),
           calls=Calls('swap_volume', repeat('swap_volume')), events=Events('volume_swap'),
           requirements=Requirements('volumes'), background=True),
    Action('metadata', _RULE + 'server-metadata:update',
           Conditions((ACTIVE, PAUSED, SUSPENDED, STOPPED), task_states=ANY),
           events=Events(no_event_reason=_NEXT_EVENT)),
    Action('delete', _RULE + 'servers:delete', Conditions(ANY, task_states=ANY), (states.DELETING,),
           Outcome(DELETED, on_failure=ERROR), Calls('terminate_instance', repeat('terminate_instance')),
           Events('delete')),
    # DELETE begins this action if the deployment keeps deleted servers for some time (reclaim_instance_interval)
    Action('softDelete', _RULE + 'servers:delete',
           Conditions((ACTIVE, PAUSED, SUSPENDED, STOPPED, RESCUED, ERROR), task_states=ANY), (states.SOFT_DELETING,),
           Outcome(SOFT_DELETED), Calls('soft_delete_instance', repeat('soft_delete_instance')), Events('soft_delete'),
           event='delete'),
    Action('restore', _RULE + 'os-deferred-delete:restore', Conditions((SOFT_DELETED,)), (states.RESTORING,),
           Outcome(ACTIVE, on_failure=SOFT_DELETED), Calls('restore_instance', repeat('restore_instance')),
           Events('restore')),
    Action('forceDelete', _RULE + 'os-deferred-delete:force', Conditions(ANY, task_states=ANY), (states.DELETING,),
           Outcome(DELETED, on_failure=ERROR), Calls('terminate_instance', repeat('terminate_instance')),
           Events('delete'), event='delete'),
)
ACTIONS = {row.name: row for row in ROWS}

BUILD = Action('create', _RULE + 'servers:create', Conditions((states.BUILDING,), task_states=ANY, locked=False),
               (states.SCHEDULING, states.BLOCK_DEVICE_MAPPING, states.NETWORKING, states.SPAWNING),
               Outcome(ACTIVE, started=states.SPAWNING), Calls('build_instance'), Events('create'))

# Requests during a live migration. Their action records only show that the request was made.
ABORT_MIGRATION = Action('abort', _RULE + 'servers:migrations:delete', Conditions(ANY, task_states=(states.MIGRATING,)),
                         event='live_migration_cancel')
FORCE_COMPLETE = Action('force_complete', _RULE + 'servers:migrations:force_complete',
                        Conditions(ANY, task_states=(states.MIGRATING,)), event='live_migration_force_complete')

# ---- derived from the rows -------------------------------------------------


def _first(pairs: typing.Iterable[tuple[str, Action]]) -> dict[str, Action]:
    """Return {key: action}; the first action with a key is used."""
    found: dict[str, Action] = {}
    for key, action in pairs:
        found.setdefault(key, action)
    return found


# task state -> first action with this task state; all actions with one task state have the same methods
OF_TASK = _first((task, action) for action in ROWS for task in action.tasks)
# record name -> first action with this name; all actions with one name, except softDelete, have the same notification
OF_RECORD = _first((action.record, action) for action in (BUILD, *ROWS))
# record names of background actions, which may run during the main action of a server
BACKGROUND = frozenset(action.record for action in ROWS if action.background)
# record names of the actions whose argument ``image_id`` is a new image for a copy of the server
IMAGE_CREATING = frozenset({'createImage', 'createBackup', 'shelve'})
# task states in which a server waits for a conductor, or for the next message to a host
WAITING = (states.SCHEDULING, states.DELETING, *(task for action in ROWS if action.calls.conductor
           for task in action.tasks))
# event name of a host's task -> event type of its notifications
NOTIFICATION_OF_TASK = {
    **{row.frame.task_event: row.events.notification for row in (BUILD, *ROWS)
       if row.events.notification and row.tasks and row.frame.task_event},
    **{step.frame.task_event: step.notification for step in MOVE_STEPS if step.notification}}
# name of an action -> reason why the action has no separate event type
NO_EVENT_REASONS = {action.name: action.events.no_event_reason for action in ROWS if action.events.no_event_reason}
