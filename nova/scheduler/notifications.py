"""Notifications of the scheduler."""
from nova import context as nova_context
from nova import notify
from nova import objects
from nova.notify import events
from nova.rpc.interface import methods_of
from nova.scheduler.interface import INTERFACE
from nova.scheduler.interface import Scheduler

_NAME = 'scheduler.select_destinations'


class NotifyingManager:
    """A scheduler manager that sends a notification before and after each selection of hosts.

    :param manager: manager that driver.load returned
    """

    def __init__(self, manager: Scheduler, notifier: notify.Notifier) -> None:
        self._notifier = notifier
        self._methods = methods_of(INTERFACE, manager)
        self.methods = {**self._methods, 'select_destinations': self._select_destinations}
        self.start, self.stop, self.periodic_tasks = manager.start, manager.stop, manager.periodic_tasks
        self.in_progress = getattr(manager, 'in_progress', dict)

    def _select_destinations(self, ctx: nova_context.RequestContext, spec: objects.RequestSpec,
                             instance_uuids: list[str]) -> list[list[objects.Selection]]:
        row = spec.as_dict()
        self._notifier.publish(ctx, _NAME, events.START, row)
        selections = self._methods['select_destinations'](ctx, spec=spec, instance_uuids=instance_uuids)
        self._notifier.publish(ctx, _NAME, events.END, row)
        return selections
