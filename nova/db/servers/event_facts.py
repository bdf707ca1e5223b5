"""Data of a cell's database that events about servers contain, in addition to the server's row."""
from typing import Protocol, TypedDict

import sqlalchemy as sa

from nova.actions import Action
from nova.context import RequestContext
from nova.db import engine
from nova.db import statements
from nova.db.servers import block_devices
from nova.db.servers import history
from nova.db.servers import instances
from nova.db.servers import shares
from nova.db.tables.cell import instance_actions
from nova.db.tables.rows import BlockDeviceMappingsRow, InstanceActionsRow, InstancesRow, ShareMappingsRow

_OPEN = sa.select(*(instance_actions.c[name] for name in (
    'action', 'arguments', 'request_id', 'owner', 'project_id', 'user_id'))).where(
    instance_actions.c.instance_uuid == sa.bindparam('of_uuid'), instance_actions.c.finished_at.is_(None)).order_by(
    instance_actions.c.id)


class Contents(Protocol):
    """Tells whether the configured events contain the devices and the shares of servers; see nova.notify.Notifier."""

    @property
    def devices(self) -> bool: ...

    @property
    def shares(self) -> bool: ...


def row(conn: sa.Connection, uuid: str) -> InstancesRow | None:
    """Return the row of a server, or None. The row of a deleted server is in the history."""
    found = instances.get_many(conn, [uuid]).get(uuid)
    if found is not None or not history.deleted(conn, [uuid]):
        return found
    return history.get(conn, uuid)


def open_actions(conn: sa.Connection, uuid: str) -> list[InstanceActionsRow]:
    """Return the open actions of a server as dicts, oldest first."""
    return [statements.to_dict(found) for found in conn.execute(_OPEN, {'of_uuid': uuid}).mappings()]


def record_begun(conn: sa.Connection, ctx: RequestContext, action: Action, before: InstancesRow | None,
                 row: InstancesRow) -> None:
    """Notify the caller's observer that an action has begun, or has finished immediately.

    :param before: the server's columns before the action, or None if states are not observed
    """
    observer, on_request = ctx.observer, action.events.on_request
    if on_request is None and before is None:
        return
    about = attached(conn, row['uuid'], observer)
    if on_request is not None:
        observer.record(conn, ctx, 'instance.' + on_request, None, row, action=action.record, **about)
    observer.record_states(conn, ctx, before, row, **about)


class Attached(TypedDict, total=False):
    """Block devices and shares of a server; only those that the configured events contain."""

    devices: list[BlockDeviceMappingsRow]
    shares: list[ShareMappingsRow]


def attached(conn: sa.Connection, uuid: str, notifier: Contents) -> Attached:
    """Return the devices and shares of a server, as far as the configured events contain them."""
    found: Attached = {}
    if notifier.devices:
        found['devices'] = [device for device in block_devices.by_instance(conn, uuid) if device['volume_id']]
    if notifier.shares:
        found['shares'] = shares.by_instance(conn, uuid)
    return found


def read_attached(db: engine.Database, uuid: str, notifier: Contents) -> Attached:
    """Return the result of ``attached`` on a new connection, or {} without a query if no such data is needed."""
    if not (notifier.devices or notifier.shares):
        return {}
    with db.reader() as conn:
        return attached(conn, uuid, notifier)
