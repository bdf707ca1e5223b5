"""Types of volumes that administrators have made. Who changes one, or makes a volume of one, locks its row."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import statements
from nova.db.tables.volume import volume_types
from nova.db.tables.volume import volumes

if TYPE_CHECKING:
    from nova.db.tables.rows import VolumeTypesRow


def every(conn: sa.Connection) -> list[VolumeTypesRow]:
    """In the order of their names."""
    found = conn.execute(sa.select(volume_types).order_by(volume_types.c.name))
    return [statements.to_dict(row) for row in found.mappings()]


def get(conn: sa.Connection, name: str, lock: bool = False) -> VolumeTypesRow | None:
    """The row with an id, or else with a name; None: there is none."""
    for column in (volume_types.c.id, volume_types.c.name):
        statement = sa.select(volume_types).where(column == name)
        row = conn.execute(statement.with_for_update() if lock else statement).mappings().first()
        if row is not None:
            return statements.to_dict(row)
    return None


def has_volumes(conn: sa.Connection, name: str) -> bool:
    """Whether there are volumes of a type."""
    return conn.execute(sa.select(volumes.c.id).where(volumes.c.volume_type == name).limit(1)).first() is not None


def rename(conn: sa.Connection, name: str, new: str) -> None:
    """Give the volumes of a type its new name."""
    conn.execute(sa.update(volumes).where(volumes.c.volume_type == name).values(volume_type=new))
