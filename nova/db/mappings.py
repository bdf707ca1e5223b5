"""Instance mappings: which servers there are, in all cells."""
import sqlalchemy as sa

from nova.db.tables_api import instance_mappings


def uuids(conn):
    """The uuids of all servers, as a set."""
    return set(conn.execute(sa.select(instance_mappings.c.instance_uuid)).scalars())
