"""Background actions: attach and detach ports, volumes and shares of an idle server. They set no task state.

The queue of the server runs its background actions one after the other, like other tasks. The open action row of the
request contains the data to repeat an action or to roll it back.

    with background_actions.action(host, ctx, instance, 'compute_attach_interface') as current:
        current.undo(host.network.detach_port, ...)
        current.ends(network_info=...)
"""
import collections.abc
import contextlib
import logging
import typing

from nova import actions
from nova import context
from nova import exception
from nova.json_types import JsonDocument
from nova import objects
from nova.compute import tasks
from nova.compute.host import Host
from nova.objects import faults
from nova.runtime import metrics

LOG = logging.getLogger(__name__)


class BackgroundAction(tasks.Undo):
    """State of a background action in progress.

    instance   the server when the action began
    values     columns to set when the action succeeds
    error      error message with which the action ends, or None
    insists    whether a failed action stays open and is repeated until its rollback is complete
    """

    def __init__(self, event: str, instance: objects.Instance) -> None:
        super().__init__(event, instance)
        self.values: dict[str, typing.Any] = {}
        self.error: str | None = None
        self.insists = False

    def fails(self, message: str) -> None:
        """Set the error message with which the action ends; nothing is rolled back."""
        self.error = message

    def ends(self, **values: object) -> None:
        """Add columns to set on success."""
        self.values.update(values)


@contextlib.contextmanager
def action(host: Host, ctx: context.RequestContext, instance: objects.Instance, event: str,
           ) -> collections.abc.Iterator[BackgroundAction]:
    """Context manager of a background action: begin it, record its end or failure, and re-raise a failure.

    If the rollback is incomplete, and either a service did not answer the action or its rollback, or ``insists`` is
    set, the failed action stays open and is repeated.

    :raises InstanceChanged, InstanceNotFound: the action is no longer open, or the server was deleted
    """
    server = host.conductor.begin_background(
        ctx, instance_uuid=instance.uuid, host=host.name, owner=f'compute:{host.name}',
        deadline_s=host.conf.conductor.task_deadline)
    host.forget_fence(ctx, server)
    current = BackgroundAction(event, server)
    with metrics.Run(event, 'error') as run:
        try:
            yield current
        except Exception as error:
            LOG.warning('%s of server %s failed: %s', event, instance.uuid, error,
                        exc_info=not isinstance(error, exception.NovaException))
            if not current.unwind() and (current.insists or current.unanswered
                                         or isinstance(error, exception.Unavailable)):
                raise                    # the action stays open
            _end(host, ctx, current, {}, faults.fault(error)['message'], faults.trace(error))
            raise
        _end(host, ctx, current, current.values, current.error)
        run.result = 'error' if current.error else 'success'


def _end(host: Host, ctx: context.RequestContext, current: BackgroundAction, values: dict[str, typing.Any],
         error: str | None, traceback: str | None = None) -> None:
    host.conductor.end_background(ctx, instance_uuid=current.instance.uuid, event=current.event, host=host.name,
                              values=values, error=error, traceback=traceback)


class BackgroundActions:
    """Resumes interrupted background actions.

    :param methods: {method name: callable(ctx, instance, **arguments)} of the methods that resume actions
    """

    def __init__(self, host: Host, methods: collections.abc.Mapping[str, typing.Callable[..., typing.Any]]) -> None:
        self._host = host
        self._take_up = {row.record: methods[row.calls.restart.method]
                         for row in actions.ROWS if row.background and row.calls.restart}

    def resume_background(self, ctx: context.RequestContext, instance: objects.Instance, action: str,
                arguments: JsonDocument) -> None:
        """Repeat or roll back an action after a restart or a lost message."""
        self._take_up[action](ctx, instance, **arguments)

    def recover(self) -> None:
        """At start-up: queue the interrupted actions of this host."""
        for entry in self._host.conductor.background_on_host(context.admin_context(), host=self._host.name):
            if entry['action'] not in self._take_up:
                continue
            LOG.info('%s of server %s was interrupted.', entry['action'], entry['instance'].uuid)
            self.resume_background(context.on_behalf_of(entry), entry['instance'], entry['action'],
                                   entry['arguments'] or {})
