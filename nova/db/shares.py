"""Shares of servers."""
import uuid as uuidlib

import sqlalchemy as sa

from nova import utils
from nova.db.tables_cell import share_mappings


def insert(conn, values):
    """Add a mapping and return it as a dict."""
    now = utils.utcnow()
    row = {'uuid': str(uuidlib.uuid4()), 'created_at': now, 'updated_at': now, **values}
    conn.execute(sa.insert(share_mappings).values(**row))
    return row


def by_instance(conn, instance_uuid):
    """Mappings of a server, oldest first."""
    statement = sa.select(share_mappings).where(share_mappings.c.instance_uuid == instance_uuid).order_by(
        share_mappings.c.id)
    return [dict(row) for row in conn.execute(statement).mappings()]


def get(conn, instance_uuid, share_id):
    """The mapping of a share of a server, None when it has it not."""
    return next((row for row in by_instance(conn, instance_uuid) if row['share_id'] == share_id), None)


def update(conn, uuid, values):
    """Write columns of a mapping; False when it is gone."""
    return bool(conn.execute(sa.update(share_mappings).where(share_mappings.c.uuid == uuid).values(
        updated_at=utils.utcnow(), **values)).rowcount)


def delete(conn, uuid):
    conn.execute(sa.delete(share_mappings).where(share_mappings.c.uuid == uuid))
