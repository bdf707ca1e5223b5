"""Volume types that administrators created. Changing a type, or creating a volume of the type, locks its row.

A private type is visible only to projects with access.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova import context as nova_context
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.volume import volume_type_projects
from nova.db.tables.volume import volume_types
from nova.db.tables.volume import volumes

if TYPE_CHECKING:
    from nova.db.tables.rows import VolumeTypesRow


def every(conn: sa.Connection, project_id: nova_context.Projects | str) -> list[VolumeTypesRow]:
    """Return the types by name.

    :param project_id: only types that this project may use, or ALL_PROJECTS
    """
    found = conn.execute(sa.select(volume_types).where(*_may_use(project_id)).order_by(volume_types.c.name))
    return [statements.to_dict(row) for row in found.mappings()]


def get(conn: sa.Connection, name: str, project_id: nova_context.Projects | str,
        lock: bool = False) -> VolumeTypesRow | None:
    """Return the row with this id or name that the project may use, or None."""
    for column in (volume_types.c.id, volume_types.c.name):
        statement = sa.select(volume_types).where(column == name, *_may_use(project_id))
        row = conn.execute(statement.with_for_update() if lock else statement).mappings().first()
        if row is not None:
            return statements.to_dict(row)
    return None


def _may_use(project_id: nova_context.Projects | str) -> list[sa.ColumnElement[bool]]:
    if not nova_context.one_project(project_id):
        return []
    access = volume_type_projects
    return [sa.or_(volume_types.c.is_public, sa.exists().where(
        access.c.type_id == volume_types.c.id, access.c.project_id == project_id))]


def projects(conn: sa.Connection, type_id: str) -> list[str]:
    """Return the ids of the projects with access to a private type."""
    table = volume_type_projects
    return list(conn.execute(sa.select(table.c.project_id).where(table.c.type_id == type_id)
                             .order_by(table.c.project_id)).scalars())


def allow(conn: sa.Connection, type_id: str, project_id: str) -> bool:
    """Give a project access to a type; return False if it has access."""
    return bool(engine.insert_ignore(conn, volume_type_projects, {
        'type_id': type_id, 'project_id': project_id, 'created_at': utils.utcnow()}).rowcount)


def forbid(conn: sa.Connection, type_id: str, project_id: str | None = None) -> bool:
    """Remove the access of a project, or of all projects, to a type; return False if there was none."""
    table = volume_type_projects
    one = () if project_id is None else (table.c.project_id == project_id,)
    return bool(conn.execute(sa.delete(table).where(table.c.type_id == type_id, *one)).rowcount)


def has_volumes(conn: sa.Connection, name: str) -> bool:
    """Tell whether there are volumes of a type."""
    return conn.execute(sa.select(volumes.c.id).where(volumes.c.volume_type == name).limit(1)).first() is not None


def rename(conn: sa.Connection, name: str, new: str) -> None:
    """Write the new name of a type into the rows of its volumes."""
    conn.execute(sa.update(volumes).where(volumes.c.volume_type == name).values(volume_type=new))
