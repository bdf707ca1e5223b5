"""Notifications that the API publishes after its commit. Failures do not affect the operation.

Notifications of tasks are published by tasks.begin and the conductor; see conductor/events.py.
"""
from collections.abc import Callable
from typing import Any

from nova import exception
from nova.api import request as api_request
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.servers import event_facts
from nova.db.servers import instance_actions
from nova.notify import events


def send(req: api_request.Request, name: str, row: api_request.Row | None, **about: Any) -> None:
    """Publish all phases of an event that is complete within one transaction.

    :param row: columns of the event's subject; None: publish nothing
    :param about: host and by, if the publisher is another service
    """
    notifier = req.services.notifier
    if notifier.on and row is not None:
        for phase in events.EVENTS[name].phases:
            notifier.publish(req.context, name, phase, row, **about)


def for_events(req: api_request.Request, **about: Any) -> dict[str, Any]:
    """Return action arguments that only notifications use; {} if notifications are off."""
    return {instance_actions.EVENT_FACTS: about} if req.services.notifier.on else {}


def read(req: api_request.Request, database: engine.Database, get: Callable[..., Any], *args: Any) -> Any:
    """Return ``get(conn, *args)`` for a notification; None if notifications are off, or the read fails."""
    if not req.services.notifier.on:
        return None

    def ask() -> Any:
        with database.reader() as conn:
            return get(conn, *args)
    return _tried(req, ask)


def updated(req: api_request.Request, cell: db_cells.Cell, row: api_request.Row | None, **about: Any) -> None:
    """Publish instance.update for a new server, or a server with new name or tags.

    :param row: its columns; None: publish nothing
    :param about: the previous old_state, old_task_state, old_display_name
    """
    notifier = req.services.notifier
    if not notifier.on or row is None:
        return
    attached = _tried(req, event_facts.read_attached, cell.db, row['uuid'], notifier)
    if attached is not None:
        about = {'old_state': row['vm_state'], 'old_task_state': row['task_state'], **about, **attached}
        notifier.publish(req.context, 'instance.update', None, row, by=events.API, **about)


def _tried(req: api_request.Request, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function; return None if it fails."""
    try:
        return function(*args)
    except exception.NotFound:
        return None
    except Exception:
        req.services.notifier.failed(f'{req.method} {req.route.path}')
        return None
