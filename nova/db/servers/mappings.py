"""Instance mappings: rows of the API database with the cell, project and size of each server."""
from collections.abc import Callable, Iterable
import datetime
from typing import Any

import sqlalchemy as sa

from nova import context as nova_context
from nova.db import statements
from nova.db.tables import api as t
from nova.db.tables.rows import InstanceMappingsRow

LOST_AFTER_S = 120          # age after which a mapping without an instance row counts as lost, see ``renew``


class Mapping(InstanceMappingsRow):
    """A mapping that has the server's uuid also under the key ``uuid``, as in the rows of servers."""

    uuid: str


_DELETE_MANY = sa.delete(t.instance_mappings).where(
    t.instance_mappings.c.instance_uuid.in_(sa.bindparam('uuids', expanding=True)))
_EXISTING = sa.select(t.instance_mappings.c.instance_uuid).where(
    t.instance_mappings.c.instance_uuid.in_(sa.bindparam('uuids', expanding=True)))
# one index lookup for each cell, so that the cost does not depend on the number of servers of the project
_CELLS = sa.select(t.cells.c.uuid).where(sa.exists().where(
    t.instance_mappings.c.project_id == sa.bindparam('project'), t.instance_mappings.c.cell_uuid == t.cells.c.uuid))


def insert(conn: sa.Connection, rows: list[dict[str, Any]]) -> None:
    """Insert the mappings of new servers."""
    conn.execute(statements.insert(t.instance_mappings), rows)


def uuids(conn: sa.Connection) -> set[str]:
    """Return the uuids of all servers."""
    return set(conn.execute(sa.select(t.instance_mappings.c.instance_uuid)).scalars())


def existing(conn: sa.Connection, uuids: set[str]) -> set[str]:
    """Return the subset of these servers that exist."""
    return set(conn.execute(_EXISTING, {'uuids': list(uuids)}).scalars())


def queued(conn: sa.Connection) -> set[str]:
    """Return the uuids of soft-deleted servers, which the quota does not count."""
    return set(conn.execute(sa.select(t.instance_mappings.c.instance_uuid).where(
        t.instance_mappings.c.queued_for_delete.is_(sa.true()))).scalars())


def delete_many(conn: sa.Connection, uuids: Iterable[str]) -> None:
    conn.execute(_DELETE_MANY, {'uuids': list(uuids)})


def renew(conn: sa.Connection, uuids: list[str], now: datetime.datetime) -> bool:
    """Set the creation time, because the request continues; return False if a mapping was removed as lost."""
    table = t.instance_mappings
    return conn.execute(sa.update(table).where(table.c.instance_uuid.in_(uuids)).values(
        created_at=now)).rowcount == len(uuids)


def lock_unchanged(conn: sa.Connection, created: dict[str, datetime.datetime], cell_uuid: str) -> list[str]:
    """Lock the mappings to this cell that still have these creation times; return their uuids."""
    table = t.instance_mappings
    rows = conn.execute(sa.select(table.c.instance_uuid, table.c.created_at).where(
        table.c.instance_uuid.in_(created), table.c.cell_uuid == cell_uuid).with_for_update())
    return [row.instance_uuid for row in rows if row.created_at == created[row.instance_uuid]]


def is_queued(conn: sa.Connection, uuid: str) -> bool:
    return bool(conn.execute(sa.select(t.instance_mappings.c.queued_for_delete).where(
        t.instance_mappings.c.instance_uuid == uuid)).scalar())


def set_queued(conn: sa.Connection, uuid: str, value: bool) -> None:
    """Set whether a server is soft-deleted, which excludes it from the quota."""
    statements.update(conn, t.instance_mappings, {'queued_for_delete': value}, instance_uuid=uuid)


def get(conn: sa.Connection, uuid: str) -> Mapping | None:
    """Return the mapping of a server, or None."""
    row = conn.execute(sa.select(t.instance_mappings, t.instance_mappings.c.instance_uuid.label('uuid')).where(
        t.instance_mappings.c.instance_uuid == uuid)).mappings().first()
    return None if row is None else statements.to_dict(row)


def cells_of_project(conn: sa.Connection, project_id: str) -> set[str]:
    """Return the uuids of the cells with servers of a project."""
    return set(conn.execute(_CELLS, {'project': project_id}).scalars())


def of_cells(conn: sa.Connection, cell_uuids: list[str], project_id: nova_context.Projects | str, limit: int,
             category: str | None = None) -> list[Mapping]:
    """Return the mappings of the servers of these cells, newest first, without soft-deleted servers.

    :param project_id: only this project, or ALL_PROJECTS
    :param category: only this instance category, or None for all
    """
    table = t.instance_mappings
    statement = sa.select(table, table.c.instance_uuid.label('uuid')).where(
        table.c.cell_uuid.in_(cell_uuids), table.c.queued_for_delete.is_(sa.false()))
    if nova_context.one_project(project_id):
        statement = statement.where(table.c.project_id == project_id)
    if category is not None:
        statement = statement.where(table.c.category == category)
    statement = statement.order_by(table.c.created_at.desc(), table.c.instance_uuid).limit(limit)
    return statements.dicts(conn.execute(statement))


def created(conn: sa.Connection, cell_uuid: str, marker: str, limit: int,
            since: datetime.datetime | None = None) -> dict[str, datetime.datetime]:
    """Return {instance uuid: creation time} of up to ``limit`` mappings of a cell, by uuid after ``marker``.

    :param since: only mappings created after this time
    """
    table = t.instance_mappings
    statement = sa.select(table.c.instance_uuid, table.c.created_at).where(
        table.c.instance_uuid > marker, table.c.cell_uuid == cell_uuid).order_by(table.c.instance_uuid).limit(limit)
    if since is not None:
        statement = statement.where(table.c.created_at > since)
    return {row.instance_uuid: row.created_at for row in conn.execute(statement)}


def sizes(conn: sa.Connection, cell_uuid: str, marker: str, limit: int) -> dict[str, tuple[int, int]]:
    """Return {instance uuid: usage (vCPUs, MiB)} of up to ``limit`` servers of a cell, by uuid after ``marker``."""
    column = t.instance_mappings.c.instance_uuid
    return _sizes(conn, cell_uuid, lambda found: found.where(column > marker).order_by(column).limit(limit))


def sizes_of(conn: sa.Connection, cell_uuid: str, uuids: list[str]) -> dict[str, tuple[int, int]]:
    """Return the sizes of these servers in the cell, in the form of ``sizes``."""
    return _sizes(conn, cell_uuid, lambda found: found.where(t.instance_mappings.c.instance_uuid.in_(uuids)))


def _sizes(conn: sa.Connection, cell_uuid: str, which: Callable[..., Any]) -> dict[str, tuple[int, int]]:
    table = t.instance_mappings
    rows = conn.execute(which(sa.select(table.c.instance_uuid, table.c.vcpus, table.c.memory_mb).where(
        table.c.cell_uuid == cell_uuid)))
    return {row.instance_uuid: (row.vcpus, row.memory_mb) for row in rows}


def hosts_of_cells(conn: sa.Connection, cell_uuids: list[str]) -> list[str]:
    """Return the sorted names of the hosts of these cells."""
    table = t.host_mappings
    return list(conn.execute(sa.select(table.c.host).where(table.c.cell_uuid.in_(cell_uuids))
                             .order_by(table.c.host)).scalars())
