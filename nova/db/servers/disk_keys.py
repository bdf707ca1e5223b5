"""Encrypted keys of the encrypted disks and volumes of servers."""
import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.tables.cell import disk_keys
from nova.db.tables.cell import volume_keys
from nova.db.tables.rows import DiskKeysRow
from nova.db.tables.rows import VolumeKeysRow


def get(conn: sa.Connection, instance_uuid: str) -> DiskKeysRow | None:
    """Return the row with the disk key of a server, or None."""
    return next(iter(statements.rows(conn, disk_keys, ('id',), instance_uuid=instance_uuid)), None)


def insert(conn: sa.Connection, instance_uuid: str, encryption_key_id: str, encrypted_key: str) -> None:
    """Insert the key of a server.

    :raises DBDuplicateEntry: from oslo.db; the server has a key
    """
    conn.execute(statements.insert(disk_keys), {
        'instance_uuid': instance_uuid, 'created_at': utils.utcnow(), 'encryption_key_id': encryption_key_id,
        'encrypted_key': encrypted_key})


def delete(conn: sa.Connection, instance_uuid: str) -> None:
    """Delete the key of a server, which makes its disks unreadable."""
    statements.delete(conn, disk_keys, instance_uuid=instance_uuid)


def encryption_key_ids(conn: sa.Connection, apart: str) -> set[str]:
    """Return the names of the deployment keys that encrypt the newest disk key and the newest volume key.

    :param apart: name of a deployment key to exclude
    """
    found = (conn.execute(sa.select(table.c.encryption_key_id).where(table.c.encryption_key_id != apart).order_by(
        table.c.id.desc()).limit(1)).scalar() for table in (disk_keys, volume_keys))
    return {name for name in found if name is not None}


# ---- volumes

def of_volume(conn: sa.Connection, instance_uuid: str, volume_id: str) -> VolumeKeysRow | None:
    """Return the row with the key of a server's volume, or None."""
    return next(iter(statements.rows(conn, volume_keys, ('id',), instance_uuid=instance_uuid, volume_id=volume_id)),
                None)


def insert_of_volume(conn: sa.Connection, instance_uuid: str, volume_id: str, encryption_key_id: str,
                     encrypted_key: str) -> None:
    """Insert the key of a server's volume.

    :raises DBDuplicateEntry: from oslo.db; the key exists
    """
    conn.execute(statements.insert(volume_keys), {
        'instance_uuid': instance_uuid, 'volume_id': volume_id, 'created_at': utils.utcnow(),
        'encryption_key_id': encryption_key_id, 'encrypted_key': encrypted_key})


def delete_of_volumes(conn: sa.Connection, instance_uuid: str) -> None:
    """Delete the keys of all volumes of a server."""
    statements.delete(conn, volume_keys, instance_uuid=instance_uuid)


def delete_of_volume(conn: sa.Connection, instance_uuid: str, volume_id: str) -> None:
    statements.delete(conn, volume_keys, instance_uuid=instance_uuid, volume_id=volume_id)
