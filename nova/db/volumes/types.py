"""Volume types that administrators created. A transaction that changes a type or creates a volume of it locks the type.

A private type is visible only to projects with access.
"""
import sqlalchemy as sa

from nova import context as nova_context
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.tables.rows import VolumeDefaultTypesRow
from nova.db.tables.rows import VolumeTypesRow
from nova.db.tables import volume as t


def every(conn: sa.Connection, project_id: nova_context.Projects | str) -> list[VolumeTypesRow]:
    """Return the types, ordered by name.

    :param project_id: only types that this project may use, or ALL_PROJECTS
    """
    found = conn.execute(sa.select(t.volume_types).where(*_may_use(project_id)).order_by(t.volume_types.c.name))
    return [statements.to_dict(row) for row in found.mappings()]


def get(conn: sa.Connection, name: str, project_id: nova_context.Projects | str,
        lock: bool = False) -> VolumeTypesRow | None:
    """Return the type with this id or name if the project may use it, otherwise None."""
    for column in (t.volume_types.c.id, t.volume_types.c.name):
        statement = sa.select(t.volume_types).where(column == name, *_may_use(project_id))
        row = conn.execute(statement.with_for_update() if lock else statement).mappings().first()
        if row is not None:
            return statements.to_dict(row)
    return None


def _may_use(project_id: nova_context.Projects | str) -> list[sa.ColumnElement[bool]]:
    if not nova_context.one_project(project_id):
        return []
    access = t.volume_type_projects
    return [sa.or_(t.volume_types.c.is_public, sa.exists().where(
        access.c.type_id == t.volume_types.c.id, access.c.project_id == project_id))]


def projects(conn: sa.Connection, type_id: str) -> list[str]:
    """Return the ids of the projects with access to a private type."""
    table = t.volume_type_projects
    return list(conn.execute(sa.select(table.c.project_id).where(table.c.type_id == type_id)
                             .order_by(table.c.project_id)).scalars())


def allow(conn: sa.Connection, type_id: str, project_id: str) -> bool:
    """Give a project access to a type; return False if the project already has access."""
    return bool(engine.insert_ignore(conn, t.volume_type_projects, {
        'type_id': type_id, 'project_id': project_id, 'created_at': utils.utcnow()}).rowcount)


def forbid(conn: sa.Connection, type_id: str, project_id: str | None = None) -> bool:
    """Remove the access of a project, or of all projects, to a type; return False if there was none."""
    table = t.volume_type_projects
    one = () if project_id is None else (table.c.project_id == project_id,)
    return bool(conn.execute(sa.delete(table).where(table.c.type_id == type_id, *one)).rowcount)


def default_of(conn: sa.Connection, project_id: str) -> str | None:
    """Return the id of a project's default type, or None."""
    table = t.volume_default_types
    return conn.execute(sa.select(table.c.type_id).where(table.c.project_id == project_id)).scalar_one_or_none()


def defaults(conn: sa.Connection) -> list[VolumeDefaultTypesRow]:
    """Return the default types of projects, ordered by project."""
    table = t.volume_default_types
    return [statements.to_dict(row) for row in conn.execute(sa.select(table).order_by(table.c.project_id)).mappings()]


def set_default(conn: sa.Connection, project_id: str, type_id: str) -> None:
    """Set or replace the default type of a project."""
    table = t.volume_default_types
    if not engine.insert_ignore(conn, table, {'project_id': project_id, 'type_id': type_id}).rowcount:
        conn.execute(sa.update(table).where(table.c.project_id == project_id).values(type_id=type_id))


def unset_default(conn: sa.Connection, project_id: str) -> None:
    table = t.volume_default_types
    conn.execute(sa.delete(table).where(table.c.project_id == project_id))


def is_default(conn: sa.Connection, type_id: str) -> bool:
    """Tell whether a type is the default of a project."""
    table = t.volume_default_types
    return conn.execute(sa.select(table.c.type_id).where(table.c.type_id == type_id).limit(1)).first() is not None


def has_volumes(conn: sa.Connection, name: str) -> bool:
    """Tell whether there are volumes of a type."""
    return conn.execute(sa.select(t.volumes.c.id).where(t.volumes.c.volume_type == name).limit(1)).first() is not None


def rename(conn: sa.Connection, name: str, new: str) -> None:
    """Write the new name of a type into the rows of its volumes."""
    conn.execute(sa.update(t.volumes).where(t.volumes.c.volume_type == name).values(volume_type=new))
