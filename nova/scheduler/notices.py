"""Notifications of the scheduler."""
import functools

from nova.notify import events

_NAME = 'scheduler.select_destinations'


def tell_with(manager, notifier):
    """Let a scheduler's ``select_destinations`` tell a notifier; nothing where it is off."""
    if notifier.on:
        manager.select_destinations = functools.partial(_telling, notifier, manager.select_destinations)


def _telling(notifier, function, ctx, spec, instance_uuids):
    row = spec.as_dict()
    notifier.publish(ctx, _NAME, events.START, row)
    selections = function(ctx, spec=spec, instance_uuids=instance_uuids)
    notifier.publish(ctx, _NAME, events.END, row)
    return selections
