"""Data that the deletion of a server needs, read with one statement."""
import dataclasses

import sqlalchemy as sa

from nova import actions
from nova.db import statements
from nova.db.moves import migrations as server_migrations
from nova.db.tables import cell as t
from nova.db.tables.rows import InstancesRow


@dataclasses.dataclass(frozen=True)
class Ending:
    """Data that the deletion of a server needs.

    row      the server's row
    devices  whether the server has block devices
    shares   whether the server has shares
    moving   whether the server has an unfinished move
    images   ids of the images that the server's open actions create
    """

    row: InstancesRow
    devices: bool
    shares: bool
    moving: bool
    images: tuple[str, ...]


def _has(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists().where(table.c.instance_uuid == t.instances.c.uuid, *conditions).correlate(t.instances)


_FACTS = sa.select(
    t.instances, _has(t.block_device_mappings).label('has_devices'), _has(t.share_mappings).label('has_shares'),
    _has(t.migrations, t.migrations.c.status.not_in(server_migrations.OVER)).label('is_moving'),
    t.instance_actions.c.arguments.label('open_arguments')).outerjoin_from(
        t.instances, t.instance_actions, sa.and_(
            t.instance_actions.c.instance_uuid == t.instances.c.uuid, t.instance_actions.c.finished_at.is_(None),
            statements.one_of(t.instance_actions.c.action, actions.IMAGE_CREATING))).where(
            t.instances.c.uuid == sa.bindparam('key_uuid'))


def read(conn: sa.Connection, uuid: str) -> Ending | None:
    """Return the Ending of a server, or None if it has no row."""
    found = statements.dicts(conn.execute(_FACTS, {'key_uuid': uuid}))
    if not found:
        return None
    arguments = [row.pop('open_arguments') or {} for row in found]
    row = found[0]
    return Ending(devices=bool(row.pop('has_devices')), shares=bool(row.pop('has_shares')),
                  moving=bool(row.pop('is_moving')), row=row,
                  images=tuple(each['image_id'] for each in arguments if 'image_id' in each))
