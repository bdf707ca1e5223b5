"""What events of servers need from a cell's database besides the server's row."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova.db.servers import block_devices
from nova.db.servers import history
from nova.db.servers import instances
from nova.db.servers import shares
from nova.db.tables.cell import instance_actions

if TYPE_CHECKING:
    from nova.actions import Action
    from nova.context import RequestContext
    from nova.db import engine
    from nova.db.tables.rows import InstancesRow

_OPEN = sa.select(*(instance_actions.c[name] for name in (
    'action', 'arguments', 'request_id', 'owner', 'project_id', 'user_id'))).where(
    instance_actions.c.instance_uuid == sa.bindparam('of_uuid'), instance_actions.c.finished_at.is_(None)).order_by(
    instance_actions.c.id)


def row(conn: sa.Connection, uuid: str) -> InstancesRow | None:
    """The row of a server, from the history when it is deleted; None when nothing is known of it."""
    found = instances.get_many(conn, [uuid]).get(uuid)
    if found is not None or not history.deleted(conn, [uuid]):
        return found
    return history.get(conn, uuid)


def open_actions(conn: sa.Connection, uuid: str) -> list[dict[Any, Any]]:
    """The open actions of a server, oldest first, as dicts."""
    return [dict(found) for found in conn.execute(_OPEN, {'of_uuid': uuid}).mappings()]


def record_begun(conn: sa.Connection, ctx: RequestContext, action: Action, before: InstancesRow | None,
                 row: InstancesRow) -> None:
    """Let the caller's observer record that an action has begun, or is done at once.

    :param before: the server's columns before, None where its states are not observed
    """
    observer = ctx.observer
    if action.on_request is None and before is None:
        return
    about = attached(conn, row['uuid'], observer)
    if action.on_request is not None:
        observer.record(conn, ctx, 'instance.' + action.on_request, None, row, action=action.record, **about)
    observer.record_states(conn, ctx, before, row, **about)


def attached(conn: sa.Connection, uuid: str, notifier: Any) -> dict[str, Any]:
    """{'devices': rows, 'shares': rows} of a server, as far as events are configured to name them."""
    found: dict[str, list[Any]] = {}
    if notifier.devices:
        found['devices'] = [device for device in block_devices.by_instance(conn, uuid) if device['volume_id']]
    if notifier.shares:
        found['shares'] = shares.by_instance(conn, uuid)
    return found


def read_attached(db: engine.Database, uuid: str, notifier: Any) -> dict[str, Any]:
    """``attached``, read from the database of its cell where there is something to name."""
    if not (notifier.devices or notifier.shares):
        return {}
    with db.reader() as conn:
        return attached(conn, uuid, notifier)
