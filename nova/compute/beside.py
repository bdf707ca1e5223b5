"""The frame around what sets no task state: ports and volumes come and go while the server is otherwise idle.

Several may wait for one server; they are done one after the other, like its other tasks. The open action row of
the request holds what is needed to do one again, or to take it back: see ``TAKE_UP``.

    with self.beside(ctx, instance, 'compute_attach_interface') as current:
        current.undo(self.network.detach_port, ...)
        current.ends(network_info=...)
"""
import contextlib
import logging

from nova import context
from nova import exception
from nova.compute import task
from nova.objects import faults
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

# name of an action that was interrupted -> method of the manager that takes it up: (ctx, instance, **arguments)
TAKE_UP = {
    'attach_interface': 'abandon_interface',
    'detach_interface': 'detach_interface',
    'addFixedIp': 'abandon_fixed_ip',
    'removeFixedIp': 'remove_fixed_ip',
    'attach_volume': 'attach_volume',
    'detach_volume': 'detach_volume',
    'swap_volume': 'swap_volume',
    'attach_share': 'attach_share',
    'detach_share': 'detach_share',
}


class Beside(task.Undo):
    """
    instance   the server as it was when it began
    values     columns that the end sets
    """

    def __init__(self, event, instance):
        super().__init__(event, instance)
        self.values, self.error = {}, None

    def fails(self, message):
        """It ended as it should, and did not do what was asked: the sentence for its record."""
        self.error = message

    def ends(self, **values):
        """Columns to set when all went well."""
        self.values.update(values)


class BesideTasks:
    """The part of the compute's manager with this frame; mixed into it."""

    @contextlib.contextmanager
    def beside(self, ctx, instance, event):
        """Frame what the request of the context does to a server; a failure is recorded and raised again.

        Not where somebody does not answer, and it cannot be taken back: see ``keep``.

        :raises InstanceChanged, InstanceNotFound: it is over, or overtaken by the server's deletion
        """
        server = self.conductor.begin_beside(
            ctx, instance_uuid=instance.uuid, host=self.host, owner=f'compute:{self.host}',
            deadline_s=self.conf.conductor.task_deadline)
        current = Beside(event, server)
        with metrics.Run(event, 'error') as run:
            try:
                yield current
            except Exception as error:
                LOG.warning('%s of server %s failed: %s', event, instance.uuid, error,
                            exc_info=not isinstance(error, exception.NovaException))
                if not current.unwind() and isinstance(error, exception.Unavailable):
                    raise                    # it stays open, and is taken up until what the guest has is written
                trace = faults.trace(error)
                self._end_beside(ctx, current, {}, error=faults.fault(error)['message'], traceback=trace)
                raise
            self._end_beside(ctx, current, current.values, error=current.error)
            run.result = 'error' if current.error else 'success'

    def _end_beside(self, ctx, current, values, error=None, traceback=None):
        self.conductor.end_beside(
            ctx, instance_uuid=current.instance.uuid, event=current.event, host=self.host, values=values,
            error=error, traceback=traceback)

    def take_up(self, ctx, instance, action, arguments):
        """What a restart, or a lost message, has interrupted: done again, or taken back."""
        getattr(self, TAKE_UP[action])(ctx, instance, **arguments)

    def recover_beside(self):
        """At the start: queue what was interrupted on this host."""
        for entry in self.conductor.beside_on_host(context.admin_context(), host=self.host):
            if entry['action'] not in TAKE_UP:
                continue
            LOG.info('%s of server %s was interrupted.', entry['action'], entry['instance'].uuid)
            self.take_up(context.on_behalf_of(entry), entry['instance'], entry['action'], entry['arguments'] or {})
