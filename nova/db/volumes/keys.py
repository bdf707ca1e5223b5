"""Encrypted data keys of encrypted volumes. Volumes, snapshots and backups reference a key; a copy references the key
of its source.
"""
from typing import Any

import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.tables.rows import VolumeEncryptionKeysRow
from nova.db.tables import volume as t

_KEYS = t.volume_encryption_keys
_USERS = (t.volumes, t.volume_snapshots, t.volume_backups)
_UNUSED = tuple(~sa.exists().where(table.c.key_id == _KEYS.c.id) for table in _USERS)
# Values of ``encryption_key_id`` for keys in a Key Manager service. ``encrypted_key`` is then the id of the key in that
# service, or empty until the id is known. GIVEN_UP means that the key must be destroyed in that service.
BARBICAN, GIVEN_UP = 'barbican', 'barbican-unused'
OUTSIDE = (BARBICAN, GIVEN_UP)


def insert(conn: sa.Connection, key_id: str, type_id: str, encryption_key_id: str, encrypted_key: str) -> None:
    conn.execute(sa.insert(_KEYS).values(id=key_id, type_id=type_id, created_at=utils.utcnow(),
                                         encryption_key_id=encryption_key_id, encrypted_key=encrypted_key))


def get(conn: sa.Connection, key_id: str) -> VolumeEncryptionKeysRow | None:
    row = conn.execute(sa.select(_KEYS).where(_KEYS.c.id == key_id)).mappings().first()
    return None if row is None else statements.to_dict(row)


def encryption_key_ids(conn: sa.Connection) -> set[str]:
    """Return a set with the name of the deployment key that encrypts the newest volume key; empty without keys."""
    found = conn.execute(sa.select(_KEYS.c.encryption_key_id).where(_KEYS.c.encryption_key_id.not_in(OUTSIDE)).order_by(
        _KEYS.c.created_at.desc()).limit(1)).scalar()
    return {found} if found else set()


def of_type(conn: sa.Connection, type_id: str) -> bool:
    """Tell whether there are keys of volumes, snapshots or backups of a type."""
    return conn.execute(sa.select(_KEYS.c.id).where(_KEYS.c.type_id == type_id).limit(1)).first() is not None


def forget_unused(conn: sa.Connection, key_id: str | None = None) -> int:
    """Delete unreferenced keys, except those in a Key Manager service; return the number of deleted keys.

    :param key_id: only this key
    """
    unused: list[Any] = [*_UNUSED, _KEYS.c.encryption_key_id.not_in(OUTSIDE)]
    if key_id is not None:
        unused.append(_KEYS.c.id == key_id)
    return conn.execute(sa.delete(_KEYS).where(*unused)).rowcount


# ---- keys in a Key Manager service

def lock(conn: sa.Connection, key_id: str) -> VolumeEncryptionKeysRow | None:
    """Return the row of a key, locked until the transaction ends, or None."""
    row = conn.execute(sa.select(_KEYS).where(_KEYS.c.id == key_id).with_for_update()).mappings().first()
    return None if row is None else statements.to_dict(row)


def set_secret(conn: sa.Connection, key_id: str, secret: str) -> None:
    conn.execute(sa.update(_KEYS).where(_KEYS.c.id == key_id).values(encrypted_key=secret))


def unused_outside(conn: sa.Connection) -> list[str]:
    """Return the row ids of unreferenced keys that are stored in a Key Manager service."""
    return list(conn.scalars(sa.select(_KEYS.c.id).where(_KEYS.c.encryption_key_id.in_(OUTSIDE), *_UNUSED)))


def give_up(conn: sa.Connection, key_id: str) -> VolumeEncryptionKeysRow | None:
    """Mark an unreferenced key for destruction; return its row, or None if the key is referenced or missing."""
    row = lock(conn, key_id)
    if row is None or conn.execute(sa.select(_KEYS.c.id).where(_KEYS.c.id == key_id, *_UNUSED)).first() is None:
        return None
    conn.execute(sa.update(_KEYS).where(_KEYS.c.id == key_id).values(encryption_key_id=GIVEN_UP))
    return row


def delete(conn: sa.Connection, key_id: str) -> None:
    conn.execute(sa.delete(_KEYS).where(_KEYS.c.id == key_id))
