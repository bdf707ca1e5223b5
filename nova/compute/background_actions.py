"""Background actions set no task state: ports, volumes and shares come and go while the server is otherwise idle.

Several may wait for one server; they are done one after the other, like its other tasks. The open action row of
the request holds what is needed to repeat one, or to take it back.

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
from nova import objects
from nova.compute import tasks
from nova.compute.host import Host
from nova.objects import faults
from nova.runtime import metrics

LOG = logging.getLogger(__name__)


class BackgroundAction(tasks.Undo):
    """What the body of a background action holds.

    instance   the server as it was when it began
    values     columns that the end sets
    error      why it did not do what was requested, or None
    insists    it stays open, and is taken up again, until it is undone
    """

    def __init__(self, event: str, instance: objects.Instance) -> None:
        super().__init__(event, instance)
        self.values: dict[str, typing.Any] = {}
        self.error: str | None = None
        self.insists = False

    def fails(self, message: str) -> None:
        """It ended as it should, and did not do what was requested: the sentence for its record."""
        self.error = message

    def ends(self, **values: typing.Any) -> None:
        """Columns to set when all went well."""
        self.values.update(values)


@contextlib.contextmanager
def action(host: Host, ctx: context.RequestContext, instance: objects.Instance, event: str,
           ) -> collections.abc.Iterator[BackgroundAction]:
    """Frame what the request of the context does to a server; a failure is recorded and raised again.

    Where a service does not answer, or the action insists, and it cannot be taken back, see ``keep``, it stays open
    instead.

    :raises InstanceChanged, InstanceNotFound: it is over, or overtaken by the server's deletion
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
            if not current.unwind() and (current.insists or isinstance(error, exception.Unavailable)):
                raise                    # it is repeated until what the guest has is written
            _end(host, ctx, current, {}, faults.fault(error)['message'], faults.trace(error))
            raise
        _end(host, ctx, current, current.values, current.error)
        run.result = 'error' if current.error else 'success'


def _end(host: Host, ctx: context.RequestContext, current: BackgroundAction, values: dict[str, typing.Any],
         error: str | None, traceback: str | None = None) -> None:
    host.conductor.end_background(ctx, instance_uuid=current.instance.uuid, event=current.event, host=host.name,
                              values=values, error=error, traceback=traceback)


class BackgroundActions:
    """Interrupted background actions.

    :param methods: {method name: callable(ctx, instance, **arguments)}: all that restarts of background actions name
    """

    def __init__(self, host: Host, methods: collections.abc.Mapping[str, typing.Callable[..., typing.Any]]) -> None:
        self._host = host
        self._take_up = {row.record: methods[row.restart.method]
                         for row in actions.ROWS if row.background and row.restart}

    def resume_background(self, ctx: context.RequestContext, instance: objects.Instance, action: str,
                arguments: dict[str, typing.Any]) -> None:
        """What a restart, or a lost message, has interrupted: repeat it, or take it back."""
        self._take_up[action](ctx, instance, **arguments)

    def recover(self) -> None:
        """At the start: queue what was interrupted on this host."""
        for entry in self._host.conductor.background_on_host(context.admin_context(), host=self._host.name):
            if entry['action'] not in self._take_up:
                continue
            LOG.info('%s of server %s was interrupted.', entry['action'], entry['instance'].uuid)
            self.resume_background(context.on_behalf_of(entry), entry['instance'], entry['action'],
                                   entry['arguments'] or {})
