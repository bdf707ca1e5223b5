"""Names of the deployment keys that encrypt rows of the API database."""
import sqlalchemy as sa

from nova.db.key_manager import records
from nova.db.volumes import keys


def used(conn: sa.Connection) -> set[str]:
    """Return the names of the deployment keys that encrypt the newest secret of the key manager and the newest key of a
    volume.
    """
    return records.encryption_key_ids(conn) | keys.encryption_key_ids(conn)
