"""The frame around everything that is done to a server: begin, undo, end.

    with self.task(ctx, instance, 'compute_stop_instance', running=(POWERING_OFF,)) as task:
        driver.power_off(task.instance)
        task.ends(vm_state=STOPPED, power_state=SHUTDOWN)

``begin`` is a conditional write: a message that came twice or too late ends there. On success one conditional
write sets what the task ends with; when a delete came meanwhile, or the body failed, the undo stack unwinds.
"""
import contextlib
import logging

from nova import exception
from nova.objects import faults
from nova.runtime import metrics

LOG = logging.getLogger(__name__)


class Undo:
    """What to do, last one first, when something does not end well.

    event      what it is
    instance   the server as it was when it began
    """

    def __init__(self, event, instance):
        self.event, self.instance = event, instance
        self._undo, self._kept = [], False

    def undo(self, function, *args, **kwargs):
        """Call this, last one first, when the task does not end well."""
        self._undo.append((function, args, kwargs))

    def keep(self):
        """What was done so far stays, whatever comes."""
        self._undo.clear()
        self._kept = True

    def unwind(self):
        """Whether all of it could be undone."""
        undone = not self._kept
        while self._undo:
            function, args, kwargs = self._undo.pop()
            try:
                function(*args, **kwargs)
            except Exception:
                LOG.exception('Undoing %s of server %s: %s failed.', self.event, self.instance.uuid, function)
                undone = False
        return undone


class Task(Undo):
    """What the body of a task holds.

    instance   the server as it was when the task began
    ctx        the context of the request, with what the task may do with images
    values     columns that the end sets
    ended      True once the end was written
    """

    def __init__(self, conductor, ctx, event, host, instance, holds):
        super().__init__(event, instance)
        self.ctx = ctx.granted(instance.image_grant if instance.obj_attr_is_set('image_grant') else None)
        self._conductor, self._ctx, self._host = conductor, ctx, host
        self._holds = tuple(holds)           # task states in which the row is ours
        self.values = {'task_state': None}
        self.ended = False
        self._finish = self._write_end

    def ends(self, **values):
        """Columns to set when all went well."""
        self.values.update(values)

    def ends_with(self, function):
        """Call this instead of the usual last write."""
        self._finish = function

    def step(self, task_state, **values):
        """Show another task state (and write columns) on the way.

        :raises InstanceChanged: the server is not in this task's hands any more
        """
        self._conductor.update_instance(
            self._ctx, instance_uuid=self.instance.uuid, values={'task_state': task_state, **values},
            expect={'task_state': list(self._holds), 'host': [self._host]})
        self._holds = (task_state,)

    def end(self):
        self._finish()
        self.ended = True

    def _write_end(self):
        self._conductor.end_task(
            self._ctx, instance_uuid=self.instance.uuid, event=self.event, host=self._host,
            values=self.values, expect={'task_state': list(self._holds), 'host': [self._host]},
            fault=None, traceback=None)

    def failed(self, error, values):
        """Record a failure: task state None, the columns of ``values``, fault and event."""
        fault = faults.fault(error, details=faults.trace(error))
        self._conductor.end_task(
            self._ctx, instance_uuid=self.instance.uuid, event=self.event, host=self._host,
            values={'task_state': None, **values}, expect={'task_state': list(self._holds), 'host': [self._host]},
            fault=fault, traceback=fault['details'])


@contextlib.contextmanager
def task(conductor, ctx, host, instance, event, *, running, deadline_s, begin=None, failed=None, on_failure=None,
         lives_on=None):
    """Frame a task; see the module's docstring.

    :param running: task states in which the server waits for, or is in, this task
    :param begin: columns to set at the beginning
    :param failed: columns to set when the body fails, besides the task state, the fault and the event
    :param on_failure: called with (task, error) instead of that
    :param lives_on: the server's host where it is another one; such a task ends with a write of its own
    :raises InstanceChanged, InstanceNotFound: the server is not waiting for this task (any more)
    """
    begin = begin or {}
    row = conductor.begin_task(
        ctx, instance_uuid=instance.uuid, event=event, owner=f'compute:{host}', deadline_s=deadline_s,
        values=begin, expect={'task_state': list(running), 'host': [lives_on or host]})
    current = Task(conductor, ctx, event, host, row, {begin['task_state']} if 'task_state' in begin else running)
    with metrics.Run(event, 'overtaken') as run:
        try:
            yield current
        except (exception.InstanceChanged, exception.InstanceNotFound):
            current.unwind()
            raise
        except Exception as error:
            LOG.warning('%s of server %s failed: %s', event, instance.uuid, error,
                        exc_info=not isinstance(error, exception.NovaException))
            run.result = 'error'
            current.unwind()
            if on_failure is not None:
                on_failure(current, error)
            else:
                current.failed(error, failed or {})
            return
        try:
            current.end()
        except (exception.InstanceChanged, exception.InstanceNotFound):
            current.unwind()
            raise
        run.result = 'success'
