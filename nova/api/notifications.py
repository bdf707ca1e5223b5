"""Notifications of the API: what it does by itself, after it is committed. No operation fails because of them.

What begins a task is recorded where the task begins: by tasks.begin, then by a conductor; see conductor/events.py.
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
    """All phases of an event that is done in one transaction.

    :param row: the columns of what it is of; None: nothing is published
    :param about: host and by, of the publisher, where they are others than this service's
    """
    notifier = req.services.notifier
    if notifier.on and row is not None:
        for phase in events.EVENTS[name].phases:
            notifier.publish(req.context, name, phase, row, **about)


def for_events(req: api_request.Request, **about: Any) -> dict[str, Any]:
    """What an action's arguments have for its events alone; {} where none are sent."""
    return {instance_actions.EVENT_FACTS: about} if req.services.notifier.on else {}


def read(req: api_request.Request, database: engine.Database, get: Callable[..., Any], *args: Any) -> Any:
    """What ``get(conn, *args)`` gives, for an event; None where none are sent, nothing is there, or it cannot be read.
    """
    if not req.services.notifier.on:
        return None

    def ask() -> Any:
        with database.reader() as conn:
            return get(conn, *args)
    return _tried(req, ask)


def updated(req: api_request.Request, cell: db_cells.Cell, row: api_request.Row | None, **about: Any) -> None:
    """A server has another name, other tags, or is new.

    :param row: its columns; None: nothing is published
    :param about: old_state, old_task_state, old_display_name: what was
    """
    notifier = req.services.notifier
    if not notifier.on or row is None:
        return
    attached = _tried(req, event_facts.read_attached, cell.db, row['uuid'], notifier)
    if attached is not None:
        about = {'old_state': row['vm_state'], 'old_task_state': row['task_state'], **about, **attached}
        notifier.publish(req.context, 'instance.update', None, row, by=events.API, **about)


def _tried(req: api_request.Request, function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives; None when it fails."""
    try:
        return function(*args)
    except exception.NotFound:
        return None
    except Exception:
        req.services.notifier.failed(f'{req.method} {req.route.path}')
        return None
