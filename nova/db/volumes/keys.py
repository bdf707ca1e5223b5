"""The sealed keys of encrypted volumes. Volumes, snapshots and backups name theirs; copies have their source's."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.tables.volume import volume_backups
from nova.db.tables.volume import volume_encryption_keys
from nova.db.tables.volume import volume_snapshots
from nova.db.tables.volume import volumes

if TYPE_CHECKING:
    from nova.db.tables.rows import VolumeEncryptionKeysRow

_KEYS = volume_encryption_keys
_USERS = (volumes, volume_snapshots, volume_backups)


def insert(conn: sa.Connection, key_id: str, type_id: str, sealed_with: str, sealed: str) -> None:
    conn.execute(sa.insert(_KEYS).values(id=key_id, type_id=type_id, created_at=utils.utcnow(),
                                         sealed_with=sealed_with, sealed=sealed))


def get(conn: sa.Connection, key_id: str) -> VolumeEncryptionKeysRow | None:
    row = conn.execute(sa.select(_KEYS).where(_KEYS.c.id == key_id)).mappings().first()
    return None if row is None else statements.to_dict(row)


def sealed_with(conn: sa.Connection) -> set[str]:
    """The name of the key of the deployment that the newest row was sealed with."""
    found = conn.execute(sa.select(_KEYS.c.sealed_with).order_by(_KEYS.c.created_at.desc()).limit(1)).scalar()
    return {found} if found else set()


def of_type(conn: sa.Connection, type_id: str) -> bool:
    """Whether there are keys of volumes, snapshots or backups of a type."""
    return conn.execute(sa.select(_KEYS.c.id).where(_KEYS.c.type_id == type_id).limit(1)).first() is not None


def forget_unused(conn: sa.Connection, key_id: str | None = None) -> int:
    """Destroy keys that nothing names any more; how many there were.

    :param key_id: this one alone
    """
    unused: list[Any] = [~sa.exists().where(table.c.key_id == _KEYS.c.id) for table in _USERS]
    if key_id is not None:
        unused.append(_KEYS.c.id == key_id)
    return conn.execute(sa.delete(_KEYS).where(*unused)).rowcount
