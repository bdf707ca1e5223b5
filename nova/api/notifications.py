"""Notifications that the API publishes after a commit. A failure to publish does not affect the operation.

Notifications of tasks are published by tasks.begin and the conductor; see conductor/events.py.
"""
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from nova import exception
from nova.api import request as api_request
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.servers import event_facts
from nova.db.servers import instance_actions
from nova.notify import Notifier
from nova.notify import events


P = ParamSpec('P')
R = TypeVar('R')


def send(req: api_request.Request, name: str, row: api_request.Row | None, host: str | None = None,
         by: str | None = None) -> None:
    """Publish all phases of an event together, because one transaction completes the operation.

    :param row: columns of the event's subject; None: publish nothing
    :param host, by: host and binary of the publisher, if it is another service
    """
    notifier = req.services.notifier
    if notifier.on and row is not None:
        for phase in events.EVENTS[name].phases:
            notifier.publish(req.context, name, phase, row, host, by)


def for_events(req: api_request.Request, **about: str) -> dict[str, dict[str, str]]:
    """Return action arguments that only notifications use; {} if notifications are off."""
    return {instance_actions.EVENT_FACTS: about} if req.services.notifier.on else {}


def read(req: api_request.Request, database: engine.Database, get: Callable[Concatenate[engine.Connection, P], R],
         *args: P.args, **kwargs: P.kwargs) -> R | None:
    """Return ``get(conn, *args)`` for a notification; None if notifications are off, or the read fails."""
    notifier = req.services.notifier
    if not notifier.on:
        return None

    def ask() -> R:
        with database.reader() as conn:
            return get(conn, *args, **kwargs)
    return _tried(req, notifier, ask)


def updated(req: api_request.Request, cell: db_cells.Cell, row: api_request.Row | None, **about: str | None) -> None:
    """Publish instance.update for a new server, or a server with new name or tags.

    :param row: the server's columns; None: publish nothing
    :param about: previous values: old_state, old_task_state, old_display_name
    """
    notifier = req.services.notifier
    if not notifier.on or row is None:
        return
    attached = _tried(req, notifier, event_facts.read_attached, cell.db, row['uuid'], notifier)
    if attached is not None:
        states = {'old_state': row['vm_state'], 'old_task_state': row['task_state']}
        notifier.publish(req.context, 'instance.update', None, row, by=events.API, **{**states, **about, **attached})


def _tried(req: api_request.Request, notifier: Notifier, function: Callable[P, R],
           *args: P.args, **kwargs: P.kwargs) -> R | None:
    """Return the result of a function, or None if the function fails."""
    try:
        return function(*args, **kwargs)
    except exception.NotFound:
        return None
    except Exception:
        notifier.failed(f'{req.method} {req.route.path}')
        return None
