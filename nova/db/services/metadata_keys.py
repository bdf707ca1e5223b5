"""The deployment's key for session tokens of the metadata service."""
import secrets

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db.tables.api import metadata_keys

_ONLY = 1


def obtain(conn: sa.Connection) -> bytes:
    """Return the key; the first call creates it."""
    statement = sa.select(metadata_keys.c.key).where(metadata_keys.c.id == _ONLY)
    found = conn.execute(statement).scalar()
    if found is None:
        engine.insert_ignore(conn, metadata_keys, {'id': _ONLY, 'key': secrets.token_hex(32),
                                                   'created_at': utils.utcnow()})
        found = conn.execute(statement).scalar_one()
    return bytes.fromhex(found)
