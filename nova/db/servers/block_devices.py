"""Block device mappings of servers."""
from typing import Any
import uuid as uuidlib
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.tables.cell import block_device_mappings
from nova.db.tables.cell import instances
from nova.db.tables.rows import BlockDeviceMappingsRow
from nova.db.types import ColumnValues

NEWEST = 1000                            # maximum number of connections that some_ceph_images reads
# columns of disks that guests may read; the metadata service reads only these, because connection_info contains secrets
OF_METADATA = ('tag', 'disk_bus', 'device_name', 'volume_id', 'source_type', 'destination_type', 'guest_format',
               'boot_index')


def insert(conn: sa.Connection, instance_uuid: str, devices: list[dict[str, Any]]) -> None:
    """Insert the block devices of a server, a list of {column: value}."""
    if devices:
        names = {name for device in devices for name in device}
        conn.execute(sa.insert(block_device_mappings), [
            {'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), 'delete_on_termination': False,
             **dict.fromkeys(names), **device, 'instance_uuid': instance_uuid} for device in devices])


def insert_many(conn: sa.Connection, uuids: list[str], devices: list[dict[str, Any]]) -> None:
    """Insert equal block devices for several servers. Each device must have a value for each column."""
    if devices:
        now = utils.utcnow()
        conn.execute(statements.insert(block_device_mappings), [
            {**device, 'uuid': str(uuidlib.uuid4()), 'instance_uuid': uuid, 'created_at': now}
            for uuid in uuids for device in devices])


def some_ceph_images(conn: sa.Connection) -> set[str]:
    """Return the Ceph images (pool/image) of the newest volume connections, of which at most NEWEST are read."""
    statement = sa.select(block_device_mappings.c.connection_info).where(
        block_device_mappings.c.connection_info.is_not(None)).order_by(block_device_mappings.c.id.desc()).limit(NEWEST)
    infos = [info for info in conn.execute(statement).scalars() if info]
    return {str(info['data']['name']) for info in infos
            if info.get('driver_volume_type') == 'rbd' and 'name' in info.get('data', {})}


def by_instance(conn: sa.Connection, uuid: str) -> list[BlockDeviceMappingsRow]:
    """Return the rows of one server in the order of creation."""
    return statements.rows(conn, block_device_mappings, ('id',), instance_uuid=uuid)


def of_metadata(conn: sa.Connection, uuid: str) -> list[dict[str, Any]]:
    """Return [{column of OF_METADATA: value}] of a server's disks in the order of creation."""
    c = block_device_mappings.c
    return statements.dicts(conn.execute(
        sa.select(*(c[name] for name in OF_METADATA)).where(c.instance_uuid == uuid).order_by(c.id)))


def by_volume(conn: sa.Connection, volume_id: str) -> list[BlockDeviceMappingsRow]:
    """Return the rows of this volume, for all servers to which it is attached."""
    return statements.rows(conn, block_device_mappings, ('id',), volume_id=volume_id)


def get(conn: sa.Connection, uuid: str) -> BlockDeviceMappingsRow | None:
    """Return the row of a device, or None."""
    return statements.first(conn, block_device_mappings, uuid=uuid)


def update(conn: sa.Connection, uuid: str, values: ColumnValues) -> bool:
    """Update a device; return False if it does not exist."""
    return bool(statements.update(conn, block_device_mappings, values, uuid=uuid))


def lock(conn: sa.Connection, uuid: str) -> BlockDeviceMappingsRow | None:
    """Return the row of a device, locked until the transaction ends, or None."""
    row = conn.execute(sa.select(block_device_mappings).where(
        block_device_mappings.c.uuid == uuid).with_for_update()).mappings().first()
    return None if row is None else statements.to_dict(row)


def delete(conn: sa.Connection, uuid: str) -> bool:
    """Delete a device; return False if it did not exist."""
    return bool(statements.delete(conn, block_device_mappings, uuid=uuid))


def shown(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the summary of volumes that is stored in the server's row (instances.volumes)."""
    return [{'id': row['volume_id'], 'delete_on_termination': row['delete_on_termination']}
            for row in rows if row['volume_id']]


def show_volumes(conn: sa.Connection, instance_uuid: str) -> list[BlockDeviceMappingsRow]:
    """Write the summary of volumes into a server's row; return the rows of its devices."""
    rows = by_instance(conn, instance_uuid)
    statements.update(conn, instances, {'volumes': shown(rows), 'updated_at': utils.utcnow()}, uuid=instance_uuid)
    return rows
