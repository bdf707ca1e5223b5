"""The frame around everything that is done to a server: begin, undo, end.

    with tasks.task(host, ctx, instance, actions.ACTIONS['os-stop']) as task:
        host.driver.power_off(task.instance)
        task.ends(power_state=SHUTDOWN)

The action's row says in which task states it begins, and which states it leaves behind. The beginning is a conditional
write: a message that came twice or too late ends there. On success one conditional write sets what the task ends with;
when a delete came meanwhile, or the body failed, the undo stack unwinds.
"""
import collections.abc
import contextlib
import functools
import logging
import time
import typing

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import records
from nova.compute.host import Host
from nova.objects import faults
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

UNREACHABLE = 'The hypervisor does not answer; the server keeps its state. Try again later.'

SPACING = 10                    # hundredths, and
SPACING_S = 1                   # seconds, at least, between two values of progress: each is a write of the conductor

# events of tasks that make a guest on a host which had none
_MAKES = frozenset(frame.task_event for frame in (
    actions.BUILD, actions.ACTIONS['evacuate'], actions.ACTIONS['unshelve'], actions.FINISH, actions.LIVE_MIGRATION))

# events of tasks that start what a host has: disks on storage that hosts share may be those of a running guest
STARTS = frozenset(actions.ACTIONS[name].task_event for name in ('os-start', 'reboot', 'reboot-hard', 'resume'))

_Params = typing.ParamSpec('_Params')


class Undo:
    """What to do, last one first, when something does not end well.

    event      what it is
    instance   the server as it was when it began
    """

    def __init__(self, event: str, instance: objects.Instance) -> None:
        self.event, self.instance = event, instance
        self._undo: list[typing.Callable[[], object]] = []
        self._kept = False

    def undo(self, function: typing.Callable[_Params, object], *args: _Params.args, **kwargs: _Params.kwargs) -> None:
        """Call this, last one first, when the task does not end well."""
        self._undo.append(functools.partial(function, *args, **kwargs))

    def keep(self) -> None:
        """What was done so far stays, whatever comes."""
        self._undo.clear()
        self._kept = True

    @property
    def is_kept(self) -> bool:
        """Whether something was done that stays, whatever comes."""
        return self._kept

    def unwind(self) -> bool:
        """Undo; whether all of it could be undone."""
        undone = not self._kept
        while self._undo:
            function = self._undo.pop()
            try:
                function()
            except Exception:
                LOG.exception('Undoing %s of server %s: %s failed.', self.event, self.instance.uuid, function)
                undone = False
        return undone


class Task(Undo):
    """What the body of a task holds.

    instance   the server as it was when the task began
    ctx        the context of the request, with what the task may do with images
    after      vm state at the usual end, None: the server keeps its own
    on_failure vm state when the body fails, None: the server keeps its own
    values     columns that the end sets
    ended      True once the end was written
    leaves     True: after it the server has no guest on this host
    keeps_for_return   True: the guest has left, and what is here is kept for a way back; the body records it
    """

    def __init__(self, host: Host, ctx: context.RequestContext, action: actions.Frame,
                 instance: objects.Instance) -> None:
        super().__init__(action.task_event, instance)
        stays = action.keeps_stopped and instance.vm_state == states.STOPPED
        self.after = states.STOPPED if stays else action.after
        self.on_failure = action.on_failure
        self.ctx = ctx.granted(instance.image_grant if instance.obj_attr_is_set('image_grant') else None)
        self._host, self._ctx = host, ctx
        # task states in which the row is ours
        self._holds = action.taken_in if action.started is None else (action.started,)
        self.values: dict[str, typing.Any] = {'task_state': None}
        if self.after is not None:
            self.values['vm_state'] = self.after
        self.ended = False
        self.leaves = self.keeps_for_return = False
        self._finish: typing.Callable[[], typing.Any] = self._write_end

    def ends(self, **values: typing.Any) -> None:
        """Columns to set when all went well."""
        self.values.update(values)

    def ends_with(self, function: typing.Callable[[], typing.Any]) -> None:
        """Call this instead of the usual last write."""
        self._finish = function

    def step(self, task_state: str, **values: typing.Any) -> None:
        """Show another task state (and write columns) on the way.

        :raises InstanceChanged: the server is not in this task's hands any more
        """
        self._host.conductor.update_instance(
            self._ctx, instance_uuid=self.instance.uuid, values={'task_state': task_state, **values},
            expect=self._expected())
        self._holds = (task_state,)

    def gauge(self) -> 'Gauge':
        """What shows how far this task is."""
        return Gauge(self)

    def show(self, percent: int) -> None:
        """Show how far it is; raises as ``step`` does."""
        self._host.conductor.update_instance(self._ctx, instance_uuid=self.instance.uuid, values={'progress': percent},
                                             expect=self._expected())

    def end(self) -> None:
        """Write the end; InstanceChanged, InstanceNotFound: the task was overtaken."""
        self._finish()
        self.ended = True

    @contextlib.contextmanager
    def harmless(self) -> collections.abc.Iterator[None]:
        """A block that may fail and leaves the server's vm state as it is."""
        on_failure, self.on_failure = self.on_failure, None
        yield
        self.on_failure = on_failure

    def failed(self, error: Exception) -> None:
        """Record a failure: task state None, the vm state of ``on_failure``, fault and event.

        A server whose hypervisor could not be reached keeps its vm state: its guest goes on as it is.
        """
        unreachable = isinstance(error, exception.HypervisorUnreachable) and not self.is_kept
        fault = faults.fault(error, UNREACHABLE if unreachable else None, details=faults.trace(error))
        values = {} if self.on_failure is None or unreachable else {'vm_state': self.on_failure}
        self._write({'task_state': None, **values}, fault, fault['details'])

    def _write_end(self) -> None:
        self._write(self.values)

    def _write(self, values: dict[str, typing.Any], fault: dict[str, typing.Any] | None = None,
               traceback: str | None = None) -> None:
        self._host.conductor.end_task(
            self._ctx, instance_uuid=self.instance.uuid, event=self.event, host=self._host.name, values=values,
            expect=self._expected(), fault=fault, traceback=traceback)

    def _expected(self) -> dict[str, list[typing.Any]]:
        return {'task_state': list(self._holds), 'host': [self._host.name]}


class Gauge:
    """Shows how far a task is, in at most nine writes: a driver may report as often as it likes, and a task that is
    short shows nothing.
    """

    def __init__(self, current: Task) -> None:
        self._task, self._shown, self._next = current, 0, time.monotonic() + SPACING_S

    def __call__(self, percent: int) -> None:
        """
        :raises InstanceChanged, InstanceNotFound: the server is not in this task's hands any more
        """
        now = time.monotonic()
        if percent < self._shown + SPACING or now < self._next:
            return
        self._shown, self._next = percent, now + SPACING_S
        try:
            self._task.show(percent)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            raise
        except exception.NovaException as error:             # the task matters more
            LOG.info('The progress of %s is not shown: %s', self._task.instance.uuid, error)


@contextlib.contextmanager
def task(host: Host, ctx: context.RequestContext, instance: objects.Instance, action: actions.Frame, *,
         lives_on: str | None = None,
         give_up: typing.Callable[[Task, Exception], None] | None = None) -> collections.abc.Iterator[Task]:
    """Frame a task; see the module's docstring.

    :param action: row of the action, or of the step of one
    :param give_up: called with (task, error) when the body fails, instead of the usual record of a failure
    :param lives_on: the server's host where it is another one; such a task ends with a write of its own
    :raises InstanceChanged, InstanceNotFound: the server is not waiting for this task (any more)
    """
    event = action.task_event
    row = host.conductor.begin_task(
        ctx, instance_uuid=instance.uuid, event=event, owner=f'compute:{host.name}',
        deadline_s=host.conf.conductor.task_deadline,
        values={} if action.started is None else {'task_state': action.started},
        expect={'task_state': list(action.taken_in), 'host': [lives_on or host.name]})
    host.forget_fence(ctx, row)
    current = Task(host, ctx, action, row)
    record = None if lives_on else host.records.get(instance.uuid)
    with metrics.Run(event, 'overtaken') as run:
        try:
            why = records.refusal(record, row, ctx.request_id, event) or _never_here(host, row, event)
        except exception.HypervisorUnreachable as error:
            current.failed(error)
            raise
        if why:
            host.records.dispute(instance.uuid)
            refused = exception.ServerRowIsOld(instance_id=instance.uuid, reason=why)
            LOG.error('%s is refused: %s', event, refused)
            with current.harmless():
                current.failed(refused)
            raise refused
        if record is None and event in _MAKES:           # a host that dies in the middle finds whose the guest was
            host.records.note(row)
        try:
            yield current
        except (exception.InstanceChanged, exception.InstanceNotFound):
            current.unwind()
            raise
        except Exception as error:
            LOG.warning('%s of server %s failed: %s', event, instance.uuid, error,
                        exc_info=not isinstance(error, exception.NovaException))
            run.result = 'error'
            if not current.unwind():
                current.keep()
            if give_up is not None:
                give_up(current, error)
            else:
                current.failed(error)
        else:
            try:
                current.end()
            except (exception.InstanceChanged, exception.InstanceNotFound):
                current.unwind()
                raise
            run.result = 'success'
            _note(host, current, ctx.request_id, lives_on not in (None, host.name))
    if current.ended and 'power_state' in current.values:
        host.power_states[instance.uuid] = current.values['power_state']
    else:
        host.power_states.pop(instance.uuid, None)


def _note(host: Host, task: Task, request_id: str | None, is_elsewhere: bool) -> None:
    """Record the server as it is after a task that ended well."""
    if task.leaves or is_elsewhere:
        host.records.forget(task.instance.uuid)
    elif not task.keeps_for_return:
        host.records.note(task.instance, request_id, task.event, **task.values)


def _never_here(host: Host, server: objects.Instance, event: str) -> str | None:
    """Why a guest must not be started that this host has never had; None: it may."""
    if (event in STARTS and host.records.complete and host.records.get(server.uuid) is None
            and server.uuid not in host.driver.guests()):
        return 'this host has no guest of the server, and no record that it had one'
    return None
