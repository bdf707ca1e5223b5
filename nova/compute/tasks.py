"""Context manager for a server's task: begin, end, and undo after a failure.

    with tasks.task(host, ctx, instance, actions.ACTIONS['os-stop'].frame) as task:
        host.driver.power_off(task.instance)
        task.ends(power_state=SHUTDOWN)

The frame names the task states in which the task begins, and the states at its end. The task begins with a conditional
write, which fails for a repeated or late message. On success a second conditional write sets the final
states. If the server was deleted meanwhile, or the with block failed, the undo stack is unwound.
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
from nova.compute import clients
from nova.compute import records
from nova.compute.host import Host
from nova.objects import faults
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

UNREACHABLE = 'The hypervisor does not answer; the server keeps its state. Try again later.'

# minimum percent and seconds between two reports of progress, which a conductor writes to the database
SPACING = 10
PROGRESS_INTERVAL_S = 1

# events of tasks that create the server's guest on a host that does not have it yet
_MAKES = frozenset(row.frame.task_event for row in (
    actions.BUILD, actions.ACTIONS['evacuate'], actions.ACTIONS['unshelve'], actions.FINISH, actions.LIVE_MIGRATION))

# events of tasks that start an existing guest. A host without a record of the guest refuses them: another host may run
# the guest from shared storage.
STARTS = frozenset(actions.ACTIONS[name].frame.task_event for name in ('os-start', 'reboot', 'reboot-hard', 'resume'))

_Params = typing.ParamSpec('_Params')


class Undo:
    """Undo stack of a task or an action.

    event      name of the event of the task or action
    instance   the server when the task or action began
    unanswered True once a service did not answer an undo function
    """

    def __init__(self, event: str, instance: objects.Instance) -> None:
        self.event, self.instance = event, instance
        self._undo: list[typing.Callable[[], object]] = []
        self._kept = self.unanswered = False

    def undo(self, function: typing.Callable[_Params, object], *args: _Params.args, **kwargs: _Params.kwargs) -> None:
        """Add a function to call on failure. The functions are called in reverse order."""
        self._undo.append(functools.partial(function, *args, **kwargs))

    def keep(self) -> None:
        """Clear the undo stack: everything done so far is kept."""
        self._undo.clear()
        self._kept = True

    @property
    def is_kept(self) -> bool:
        """Return whether ``keep`` was called."""
        return self._kept

    def unwind(self) -> bool:
        """Call all undo functions; return False if a function failed or ``keep`` was called."""
        undone = not self._kept
        while self._undo:
            function = self._undo.pop()
            try:
                function()
            except Exception as error:
                LOG.exception('Undoing %s of server %s: %s failed.', self.event, self.instance.uuid, function)
                undone, self.unanswered = False, self.unanswered or isinstance(error, exception.Unavailable)
        return undone


class Task(Undo):
    """State of a task in progress.

    instance   the server when the task began
    ctx        the context of the request, with the right to read the task's image (``image_grant``)
    after      vm state at a successful end, None: unchanged
    on_failure vm state when the with block fails, None: unchanged
    values     columns to set when the task succeeds
    ended      True once the end was written
    superseded True once the server was found deleted or changed by another task
    leaves     True: after the task the server has no guest on this host
    keeps_for_return   True: the files of the moved guest are kept for a revert, and the with block updates the guest's
               record on this host
    remains    error of a rollback that could not remove the guest, or None
    """

    def __init__(self, host: Host, ctx: context.RequestContext, frame: actions.Frame,
                 instance: objects.Instance) -> None:
        super().__init__(frame.task_event, instance)
        stays = frame.keeps_stopped and instance.vm_state == states.STOPPED
        self.after = states.STOPPED if stays else frame.after
        self.on_failure = frame.on_failure
        self.ctx = ctx.granted(instance.image_grant if instance.obj_attr_is_set('image_grant') else None)
        self._host, self._ctx = host, ctx
        # task states that the row has while this task is in progress
        self._holds = frame.taken_in if frame.started is None else (frame.started,)
        self.values: dict[str, typing.Any] = {'task_state': None}
        if self.after is not None:
            self.values['vm_state'] = self.after
        self.ended = self.superseded = False
        self.leaves = self.keeps_for_return = False
        self.remains: exception.GuestRemains | None = None
        self._finish: typing.Callable[[], typing.Any] = self._write_end

    def undo_guest(self, remove: typing.Callable[_Params, object], *args: _Params.args,
                   **kwargs: _Params.kwargs) -> None:
        """Add the function that removes the guest.

        If it cannot remove the guest, the functions that were added before it are not called: the guest may use its
        volumes and ports.
        """
        self.undo(self._remove_guest, functools.partial(remove, *args, **kwargs))

    def _remove_guest(self, remove: typing.Callable[[], object]) -> None:
        try:
            remove()
        except Exception as error:
            try:
                remains = self._host.driver.guest_state(self.instance.uuid) is not None
            except Exception:
                remains = True
            if remains:                          # otherwise only files are left: the rollback continues
                self.keep()
                self.remains = exception.GuestRemains(details=f'{type(error).__name__}: {error}')
            raise

    def ends(self, **values: object) -> None:
        """Add columns to set on success."""
        self.values.update(values)

    def ends_with(self, function: typing.Callable[[], typing.Any]) -> None:
        """Set a function that is called on success instead of the usual write."""
        self._finish = function

    def step(self, task_state: str, **values: clients.Value) -> None:
        """Write an intermediate task state and columns.

        :raises InstanceChanged: the task no longer owns the server
        """
        self._host.conductor.update_instance(
            self._ctx, instance_uuid=self.instance.uuid, values={'task_state': task_state, **values},
            expect=self._expected())
        self._holds = (task_state,)

    def gauge(self) -> 'Gauge':
        """Return a Gauge that reports the progress of the task."""
        return Gauge(self)

    def show(self, percent: int) -> None:
        """Write the progress; raises InstanceChanged like ``step``."""
        self._host.conductor.update_instance(self._ctx, instance_uuid=self.instance.uuid, values={'progress': percent},
                                             expect=self._expected())

    def end(self) -> None:
        """Write the final states.

        :raises InstanceChanged, InstanceNotFound: the task was superseded
        """
        self._finish()
        self.ended = True

    @contextlib.contextmanager
    def harmless(self) -> collections.abc.Iterator[None]:
        """Keep the server's vm state if the block fails."""
        on_failure, self.on_failure = self.on_failure, None
        yield
        self.on_failure = on_failure

    def failed(self, error: Exception) -> None:
        """Record a failure: task state None, the vm state of ``on_failure``, fault and event.

        If the hypervisor could not be reached, the vm state is unchanged, because the guest may still run.
        """
        unreachable = isinstance(error, exception.HypervisorUnreachable) and not self.is_kept
        fault = faults.fault(error, UNREACHABLE if unreachable else None, details=faults.trace(error))
        values = {} if self.on_failure is None or unreachable else {'vm_state': self.on_failure}
        self._write({'task_state': None, **values}, fault, fault['details'])

    def _write_end(self) -> None:
        self._write(self.values)

    def _write(self, values: dict[str, typing.Any], fault: faults.Fault | None = None,
               traceback: str | None = None) -> None:
        self._host.conductor.end_task(
            self._ctx, instance_uuid=self.instance.uuid, event=self.event, host=self._host.name, values=values,
            expect=self._expected(), fault=fault, traceback=traceback)

    def _expected(self) -> dict[str, list[typing.Any]]:
        return {'task_state': list(self._holds), 'host': [self._host.name]}


class Gauge:
    """Reports the progress of a task in at most ten writes, even if the driver reports more often."""

    def __init__(self, current: Task) -> None:
        self._task, self._shown, self._next = current, 0, time.monotonic() + PROGRESS_INTERVAL_S

    def __call__(self, percent: int) -> None:
        """Report the progress.

        :raises InstanceChanged, InstanceNotFound: the task no longer owns the server
        """
        now = time.monotonic()
        if percent < self._shown + SPACING or now < self._next:
            return
        self._shown, self._next = percent, now + PROGRESS_INTERVAL_S
        try:
            self._task.show(percent)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            raise
        except exception.NovaException as error:             # a failed report must not fail the task
            LOG.info('Cannot record the progress of server %s: %s', self._task.instance.uuid, error)


@contextlib.contextmanager
def task(host: Host, ctx: context.RequestContext, instance: objects.Instance, frame: actions.Frame, *,
         lives_on: str | None = None,
         give_up: typing.Callable[[Task, Exception], None] | None = None) -> collections.abc.Iterator[Task]:
    """Context manager of a task; see the module's docstring.

    :param frame: frame of an action or of a step of an action
    :param give_up: called with (task, error) when the with block fails, in place of ``Task.failed``
    :param lives_on: host of the server, if not this one; the caller then writes the end with ``ends_with``
    :raises InstanceChanged, InstanceNotFound: the server is not waiting for this task (any more)
    """
    event = frame.task_event
    row = host.conductor.begin_task(
        ctx, instance_uuid=instance.uuid, event=event, owner=f'compute:{host.name}',
        deadline_s=host.conf.conductor.task_deadline,
        values={} if frame.started is None else {'task_state': frame.started},
        expect={'task_state': list(frame.taken_in), 'host': [lives_on or host.name]})
    host.forget_fence(ctx, row)
    current = Task(host, ctx, frame, row)
    record = None if lives_on else host.records.get(instance.uuid)
    with metrics.Run(event, 'superseded') as run:
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
        if record is None and event in _MAKES:  # record the server now: the host may crash in the with block
            host.records.note(row)
        try:
            yield current
        except (exception.InstanceChanged, exception.InstanceNotFound) as error:
            current.superseded = not isinstance(error, exception.ServiceStopping)
            current.unwind()
            raise
        except Exception as error:
            LOG.warning('%s of server %s failed: %s', event, instance.uuid, error,
                        exc_info=not isinstance(error, exception.NovaException))
            run.result = 'error'
            if not current.unwind():
                current.keep()
            if current.remains is not None:
                current.remains.__cause__, current.on_failure = error, states.ERROR
                current.failed(current.remains)
            elif give_up is not None:
                give_up(current, error)
            else:
                current.failed(error)
        else:
            try:
                current.end()
            except (exception.InstanceChanged, exception.InstanceNotFound):
                current.superseded = True
                current.unwind()
                raise
            run.result = 'success'
            _note(host, current, ctx.request_id, lives_on not in (None, host.name))
    _cache_power_state(host, current)


def _cache_power_state(host: Host, task: Task) -> None:
    """Keep the power state that an ended task has written, unless another vm state follows from it.

    The guest may have shut down during the task. An event that waits for the end of the task then reports its state.
    """
    written, vm_state = task.values.get('power_state'), task.values.get('vm_state', task.instance.vm_state)
    if task.ended and written is not None and states.vm_state_for(vm_state, written) == vm_state:
        host.power_states[task.instance.uuid] = written
    else:
        host.power_states.pop(task.instance.uuid, None)


def _note(host: Host, task: Task, request_id: str | None, is_elsewhere: bool) -> None:
    """Update the host's record of the server after a successful task."""
    if task.leaves or is_elsewhere:
        host.records.forget(task.instance.uuid)
    elif not task.keeps_for_return:
        host.records.note(task.instance, request_id, task.event, **task.values)


def _never_here(host: Host, server: objects.Instance, event: str) -> str | None:
    """Return the reason to refuse the start of a guest that this host has never had, or None."""
    if (event in STARTS and host.records.complete and host.records.get(server.uuid) is None
            and server.uuid not in host.driver.guests()):
        return 'this host has no guest of the server, and no record that it had one'
    return None
