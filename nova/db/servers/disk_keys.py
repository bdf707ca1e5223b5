"""The sealed keys of the encrypted disks of servers."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.tables.cell import disk_keys

if TYPE_CHECKING:
    from nova.db.tables.rows import DiskKeysRow


def get(conn: sa.Connection, instance_uuid: str) -> DiskKeysRow | None:
    """The row of a server; None: it has none."""
    return next(iter(statements.rows(conn, disk_keys, ('id',), instance_uuid=instance_uuid)), None)


def insert(conn: sa.Connection, instance_uuid: str, sealed_with: str, sealed: str) -> None:
    """
    :raises DBDuplicateEntry: of oslo.db; the server has one
    """
    conn.execute(statements.insert(disk_keys), {
        'instance_uuid': instance_uuid, 'created_at': utils.utcnow(), 'sealed_with': sealed_with, 'sealed': sealed})


def delete(conn: sa.Connection, instance_uuid: str) -> None:
    """Destroy the key of a server: nobody can read its disks any more."""
    statements.delete(conn, disk_keys, instance_uuid=instance_uuid)


def sealed_with(conn: sa.Connection) -> set[str]:
    """The names of the keys of the deployment that rows were sealed with."""
    return set(conn.execute(sa.select(disk_keys.c.sealed_with).distinct()).scalars())
