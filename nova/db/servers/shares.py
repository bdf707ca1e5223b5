"""Shares of servers."""
from collections.abc import Collection
from typing import Any
import uuid as uuidlib

import sqlalchemy as sa
from sqlalchemy import Connection

from nova import utils
from nova.db import statements
from nova.db.tables.cell import instances
from nova.db.tables.cell import share_mappings
from nova.db.tables.rows import ShareMappingsRow


def insert(conn: Connection, values: dict[str, str]) -> dict[str, Any]:
    """Insert a share mapping and return its row as a dict."""
    now = utils.utcnow()
    row = {'uuid': str(uuidlib.uuid4()), 'created_at': now, 'updated_at': now, **values}
    conn.execute(statements.insert(share_mappings), row)
    return row


def by_instance(conn: Connection, instance_uuid: str) -> list[ShareMappingsRow]:
    """Return the share mappings of a server, oldest first."""
    return statements.rows(conn, share_mappings, ('id',), instance_uuid=instance_uuid)


def having(conn: Connection, uuids: Collection[str]) -> set[str]:
    """Return the uuids of those servers that have shares."""
    c = share_mappings.c
    return set(conn.execute(sa.select(c.instance_uuid).distinct().where(c.instance_uuid.in_(uuids))).scalars())


def get(conn: Connection, instance_uuid: str, share_id: str) -> ShareMappingsRow | None:
    """Return the mapping of a server's share, or None."""
    return next((row for row in by_instance(conn, instance_uuid) if row['share_id'] == share_id), None)


def others(conn: Connection, instance_uuid: str, share_id: str, host: str) -> bool:
    """Tell whether another server of a host has the share."""
    joined = share_mappings.join(instances, instances.c.uuid == share_mappings.c.instance_uuid)
    return conn.execute(sa.select(share_mappings.c.id).select_from(joined).where(
        share_mappings.c.share_id == share_id, share_mappings.c.instance_uuid != instance_uuid,
        instances.c.host == host).limit(1)).first() is not None


def update(conn: Connection, uuid: str, values: dict[str, str]) -> bool:
    """Update a mapping; return False if it does not exist."""
    return bool(statements.update(conn, share_mappings, {'updated_at': utils.utcnow(), **values}, uuid=uuid))


def delete(conn: Connection, uuid: str) -> None:
    statements.delete(conn, share_mappings, uuid=uuid)
