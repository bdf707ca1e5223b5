"""Ids hidden from users: administrative servers and their resources."""
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from nova.db.placement import categories
from nova.db.tables import network as t_network
from nova.db.tables import volume as t_volume
from nova.db.volumes import volumes


def among(conn: sa.Connection, idents: Collection[str]) -> set[str]:
    """Return those of ``idents`` that are administrative servers, their ports or volumes, or images of categories."""
    if not idents:
        return set()
    named = list(idents)
    found = categories.administrative_of(conn, named) | (categories.registered_images(conn) & set(named))
    for column, condition in _conditions():
        found |= set(conn.execute(sa.select(column).where(column.in_(named), condition)).scalars())
    return found


def _conditions() -> list[tuple[Any, Any]]:
    ports = t_network.ports
    return [(ports.c.id, categories.is_administrative(ports.c.device_id)), *(
        (table.c.id, volumes.is_administrative(table))
        for table in (t_volume.volumes, t_volume.volume_snapshots, t_volume.volume_attachments))]
