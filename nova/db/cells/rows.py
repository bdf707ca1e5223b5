"""Rows of cells, and mappings of hosts and servers to cells, for the cell commands of nova-manage."""
import builtins
import collections
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nova import states
from nova.db import engine
from nova.db import statements
from nova.db.tables.api import cells
from nova.db.tables.api import host_mappings
from nova.db.tables.api import instance_mappings
from nova.db.tables.cell import compute_nodes
from nova.db.tables.cell import instances
from nova.db.tables.cell import instances_history
from nova.db.tables.cell import services
from nova.db.tables.rows import CellsRow
from nova.db.types import ColumnValues

# columns of a server that are also in its mapping
_OF_SERVER = ('project_id', 'user_id', 'vcpus', 'memory_mb', 'created_at', 'server_group_id', 'category')


def list(conn: sa.Connection) -> builtins.list[CellsRow]:
    """Return all cells as dicts, ordered by name."""
    return statements.dicts(conn.execute(sa.select(cells).order_by(cells.c.name)))


def counts(conn: sa.Connection) -> dict[str, dict[str, int]]:
    """Return {cell uuid: {'hosts': number, 'servers': number}} of the mappings. A cell without mappings has zeros."""
    found: dict[str, dict[str, int]] = collections.defaultdict(lambda: {'hosts': 0, 'servers': 0})
    for name, table, condition in (('hosts', host_mappings, sa.true()),
                                   ('servers', instance_mappings, sa.not_(instance_mappings.c.queued_for_delete))):
        query = sa.select(table.c.cell_uuid, sa.func.count()).where(condition).group_by(table.c.cell_uuid)
        for cell_uuid, number in conn.execute(query):
            found[cell_uuid][name] = number
    return found


def answers(conn: sa.Connection) -> bool:
    """Return True if the cell's database can be read."""
    return conn.execute(sa.select(1)).scalar() == 1


def insert(conn: sa.Connection, row: CellsRow) -> None:
    conn.execute(statements.insert(cells), [row])


def update(conn: sa.Connection, uuid: str, values: ColumnValues) -> None:
    statements.update(conn, cells, values, uuid=uuid)


def delete(conn: sa.Connection, uuid: str) -> None:
    """Delete a cell with the mappings of its hosts and servers."""
    for table in (instance_mappings, host_mappings):
        conn.execute(sa.delete(table).where(table.c.cell_uuid == uuid))
    conn.execute(sa.delete(cells).where(cells.c.uuid == uuid))


# ---- hosts -------------------------------------------------------------------

def hosts(conn: sa.Connection, cell_uuid: str | None = None) -> builtins.list[tuple[str, str, str]]:
    """Return [(cell name, cell uuid, host)] of all cells or of one cell, ordered by name and host."""
    statement = sa.select(cells.c.name, cells.c.uuid, host_mappings.c.host).join_from(
        host_mappings, cells, cells.c.uuid == host_mappings.c.cell_uuid).order_by(cells.c.name, host_mappings.c.host)
    if cell_uuid is not None:
        statement = statement.where(cells.c.uuid == cell_uuid)
    return [tuple(row) for row in conn.execute(statement)]


_CELL_OF_HOST = sa.select(host_mappings.c.cell_uuid).where(host_mappings.c.host == sa.bindparam('host'))


def cell_of_host(conn: sa.Connection, host: str) -> str | None:
    """Return the uuid of a host's cell, or None."""
    return conn.execute(_CELL_OF_HOST, {'host': host}).scalar()


def cells_of_hosts(conn: sa.Connection) -> dict[str, str]:
    """Return {host: cell uuid} of all mapped hosts."""
    return {host: cell for host, cell in conn.execute(
        sa.select(host_mappings.c.host, host_mappings.c.cell_uuid))}


def map_host(conn: sa.Connection, host: str, cell_uuid: str) -> str:
    """Map a host to a cell unless it is mapped; return the uuid of its cell."""
    while True:
        engine.insert_ignore(conn, host_mappings, {'host': host, 'cell_uuid': cell_uuid})
        found = cell_of_host(conn, host)
        if found is not None:                # None if another process has deleted the mapping since
            return found


def move_host(conn: sa.Connection, host: str, old: str, new: str) -> None:
    """Map a host of a deleted cell to another cell."""
    statements.update(conn, host_mappings, {'cell_uuid': new}, host=host, cell_uuid=old)


def forget_host(conn: sa.Connection, host: str) -> None:
    conn.execute(sa.delete(host_mappings).where(host_mappings.c.host == host))


def reporting(conn: sa.Connection, by_service: bool = False) -> dict[str, str]:
    """Return {host: uuid} of the compute nodes in a cell's database, or of its compute services."""
    statement = (sa.select(services.c.host, services.c.uuid).where(services.c.topic == 'compute') if by_service else
                 sa.select(compute_nodes.c.host, compute_nodes.c.uuid))
    return {host: uuid for host, uuid in conn.execute(statement.order_by(sa.text('host')))}


def first_service_at(conn: sa.Connection) -> datetime | None:
    """Return the creation time of the oldest service in a cell's database, or None."""
    return conn.execute(sa.select(sa.func.min(services.c.created_at))).scalar()


def has_servers(conn: sa.Connection, host: str) -> bool:
    return conn.execute(sa.select(instances.c.id).where(instances.c.host == host).limit(1)).first() is not None


# ---- servers -----------------------------------------------------------------

def mapped(conn: sa.Connection, cell_uuid: str, marker: str, limit: int) -> Sequence[str]:
    """Return the next ``limit`` uuids after ``marker`` of servers mapped to a cell, in order."""
    c = instance_mappings.c
    return conn.execute(sa.select(c.instance_uuid).where(c.cell_uuid == cell_uuid, c.instance_uuid > marker)
                        .order_by(c.instance_uuid).limit(limit)).scalars().all()


def any_exists(conn: sa.Connection, uuids: Sequence[str]) -> bool:
    """Return whether a cell's database has any of these servers."""
    return conn.execute(sa.select(instances.c.id).where(instances.c.uuid.in_(uuids)).limit(1)).first() is not None


def place_of_server(conn: sa.Connection, uuid: str) -> str | None:
    """Return 'live' if a cell's database has the server, 'deleted' if its history has it, or None."""
    for name, table in (('live', instances), ('deleted', instances_history)):
        if conn.execute(sa.select(table.c.id).where(table.c.uuid == uuid).limit(1)).first() is not None:
            return name
    return None


def oldest(conn: sa.Connection, after: tuple[datetime, int] | None, limit: int) -> builtins.list[dict[Any, Any]]:
    """Return the next servers in a cell's database, oldest first, with the columns that mappings need.

    :param after: (created_at, id) of the previous page's last server, or None to begin with the oldest
    """
    c = instances.c
    statement = sa.select(c.id, c.uuid, c.vm_state, *(c[name] for name in _OF_SERVER))
    if after is not None:
        created_at, number = after
        statement = statement.where(sa.or_(c.created_at > created_at,
                                           sa.and_(c.created_at == created_at, c.id > number)))
    return statements.dicts(conn.execute(statement.order_by(c.created_at, c.id).limit(limit)))


def map_servers(conn: sa.Connection, cell_uuid: str, rows: builtins.list[dict[Any, Any]],
                limit: int | None = None) -> tuple[int, bool]:
    """Map the unmapped servers of ``rows`` to a cell; return (number of new mappings, whether unmapped servers remain).

    :param rows: rows of ``oldest``
    :param limit: maximum number of new mappings, or None for no limit
    """
    c = instance_mappings.c
    known = set(conn.execute(sa.select(c.instance_uuid).where(
        c.instance_uuid.in_([row['uuid'] for row in rows]))).scalars())
    new = [{'instance_uuid': row['uuid'], 'cell_uuid': cell_uuid,
            'queued_for_delete': row['vm_state'] == states.SOFT_DELETED,
            **{name: row[name] for name in _OF_SERVER}} for row in rows if row['uuid'] not in known]
    chosen = new[:limit]
    if chosen:
        engine.insert_many_ignore(conn, instance_mappings, chosen)
    return len(chosen), len(new) > len(chosen)
