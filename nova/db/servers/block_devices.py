"""Block device mappings of servers."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING
import uuid as uuidlib

import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.tables.cell import block_device_mappings
from nova.db.tables.cell import instances

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from nova.db.tables.rows import BlockDeviceMappingsRow

NEWEST = 1000                            # connections of volumes that a check looks at
# What guests may read of their disks. Who answers them reads these columns alone: connection_info has secrets.
OF_METADATA = ('tag', 'disk_bus', 'device_name', 'volume_id', 'source_type', 'destination_type', 'guest_format',
               'boot_index')


def insert(conn: sa.Connection, instance_uuid: str, devices: list[dict[str, Any]]) -> None:
    """Store the block devices of a server: a list of {column: value}."""
    if devices:
        names = {name for device in devices for name in device}
        conn.execute(sa.insert(block_device_mappings), [
            {'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), 'delete_on_termination': False,
             **dict.fromkeys(names), **device, 'instance_uuid': instance_uuid} for device in devices])


def insert_many(conn: sa.Connection, uuids: list[str], devices: list[dict[str, Any]]) -> None:
    """Store the same block devices, with a value for each column, of several servers."""
    if devices:
        now = utils.utcnow()
        conn.execute(statements.insert(block_device_mappings), [
            {**device, 'uuid': str(uuidlib.uuid4()), 'instance_uuid': uuid, 'created_at': now}
            for uuid in uuids for device in devices])


def some_ceph_images(conn: sa.Connection) -> set[str]:
    """Images of Ceph (pool/image) that servers have as volumes: those of the newest NEWEST connections."""
    statement = sa.select(block_device_mappings.c.connection_info).where(
        block_device_mappings.c.connection_info.is_not(None)).order_by(block_device_mappings.c.id.desc()).limit(NEWEST)
    infos = [info for info in conn.execute(statement).scalars() if info]
    return {str(info['data']['name']) for info in infos
            if info.get('driver_volume_type') == 'rbd' and 'name' in info.get('data', {})}


def by_instance(conn: sa.Connection, uuid: str) -> list[BlockDeviceMappingsRow]:
    """Rows of one server, in the order of their making."""
    return statements.rows(conn, block_device_mappings, ('id',), instance_uuid=uuid)


def of_metadata(conn: sa.Connection, uuid: str) -> list[dict[str, Any]]:
    """[{column of OF_METADATA: value}] of a server's disks, in the order of their making."""
    c = block_device_mappings.c
    return [statements.to_dict(row) for row in conn.execute(
        sa.select(*(c[name] for name in OF_METADATA)).where(c.instance_uuid == uuid).order_by(c.id)).mappings()]


def by_volume(conn: sa.Connection, volume_id: str) -> list[BlockDeviceMappingsRow]:
    """Rows of all servers that a volume is attached to."""
    return statements.rows(conn, block_device_mappings, ('id',), volume_id=volume_id)


def get(conn: sa.Connection, uuid: str) -> BlockDeviceMappingsRow | None:
    """The row of a device, None when it is gone."""
    return statements.first(conn, block_device_mappings, uuid=uuid)


def update(conn: sa.Connection, uuid: str, values: dict[str, Any]) -> bool:
    """Write columns of a device; False when it is gone."""
    return bool(statements.update(conn, block_device_mappings, values, uuid=uuid))


def lock(conn: sa.Connection, uuid: str) -> BlockDeviceMappingsRow | None:
    """The row of a device, locked until the transaction ends; None when it is gone."""
    row = conn.execute(sa.select(block_device_mappings).where(
        block_device_mappings.c.uuid == uuid).with_for_update()).mappings().first()
    return None if row is None else statements.to_dict(row)


def delete(conn: sa.Connection, uuid: str) -> bool:
    """Remove a device; False when it was gone."""
    return bool(statements.delete(conn, block_device_mappings, uuid=uuid))


def shown(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the server's row keeps of its volumes (instances.volumes)."""
    return [{'id': row['volume_id'], 'delete_on_termination': row['delete_on_termination']}
            for row in rows if row['volume_id']]


def show_volumes(conn: sa.Connection, instance_uuid: str) -> list[BlockDeviceMappingsRow]:
    """Write into a server's row which volumes it has; the rows of its devices."""
    rows = by_instance(conn, instance_uuid)
    statements.update(conn, instances, {'volumes': shown(rows), 'updated_at': utils.utcnow()}, uuid=instance_uuid)
    return rows
