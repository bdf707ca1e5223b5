"""Notifications of the API: what it does by itself, after it is committed.

What begins a task is told where the task begins, by a conductor; see conductor/notices.py.
"""
from nova.db import instance_actions
from nova.db import notices
from nova.notify import events


def tell(req, name, row, **about):
    """All phases of an event that is done in one transaction.

    :param row: the columns of what it is of
    :param about: host and by, of the publisher, where they are others than this service's
    """
    notifier = req.services.notifier
    if notifier.on:
        for phase in events.EVENTS[name].phases:
            notifier.tell(req.context, name, phase, row, **about)


def told(req, **about):
    """What an action's arguments carry for events alone, where somebody is told of it."""
    return {instance_actions.TOLD: about} if req.services.notifier.on else {}


def before(req, database, get, *args):
    """What ``get(conn, *args)`` gives before it is removed, where somebody is told; else None."""
    if not req.services.notifier.on:
        return None
    with database.reader() as conn:
        return get(conn, *args)


def updated(req, cell, row, **about):
    """A server has another name, other tags, or is new.

    :param about: old_state, old_task_state, old_display_name: what was
    """
    notifier = req.services.notifier
    if notifier.on:
        about = {'old_state': row['vm_state'], 'old_task_state': row['task_state'], **about}
        if notifier.devices or notifier.shares:
            with cell.db.reader() as conn:
                about.update(notices.attached(conn, row['uuid'], notifier))
        notifier.tell(req.context, 'instance.update', None, row, by=events.API, **about)
