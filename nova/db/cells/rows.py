"""The rows of cells, and which hosts and servers are theirs: what the commands of cells read and write."""
from __future__ import annotations

import builtins
import collections
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, TYPE_CHECKING

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

if TYPE_CHECKING:
    from nova.db.tables.rows import CellsRow
    from nova.db.types import ColumnValues

# what a mapping has of its server
_OF_SERVER = ('project_id', 'user_id', 'vcpus', 'memory_mb', 'created_at', 'server_group_id', 'category')


def list(conn: sa.Connection) -> builtins.list[CellsRow]:
    """All rows as dicts, by name."""
    return statements.dicts(conn.execute(sa.select(cells).order_by(cells.c.name)))


def counts(conn: sa.Connection) -> dict[str, dict[str, int]]:
    """{uuid of a cell: {'hosts': their number, 'servers': their number}}, by the mappings; zeros of any other cell."""
    found: dict[str, dict[str, int]] = collections.defaultdict(lambda: {'hosts': 0, 'servers': 0})
    for name, table, condition in (('hosts', host_mappings, sa.true()),
                                   ('servers', instance_mappings, sa.not_(instance_mappings.c.queued_for_delete))):
        query = sa.select(table.c.cell_uuid, sa.func.count()).where(condition).group_by(table.c.cell_uuid)
        for cell_uuid, number in conn.execute(query):
            found[cell_uuid][name] = number
    return found


def answers(conn: sa.Connection) -> bool:
    """True, of a cell's database that can be read."""
    return conn.execute(sa.select(1)).scalar() == 1


def insert(conn: sa.Connection, row: ColumnValues) -> None:
    conn.execute(statements.insert(cells), [row])


def update(conn: sa.Connection, uuid: str, values: ColumnValues) -> None:
    statements.update(conn, cells, values, uuid=uuid)


def delete(conn: sa.Connection, uuid: str) -> None:
    """Forget a cell with the mappings of its hosts and servers."""
    for table in (instance_mappings, host_mappings):
        conn.execute(sa.delete(table).where(table.c.cell_uuid == uuid))
    conn.execute(sa.delete(cells).where(cells.c.uuid == uuid))


# ---- hosts -------------------------------------------------------------------

def hosts(conn: sa.Connection, cell_uuid: str | None = None) -> builtins.list[tuple[str, str, str]]:
    """[(cell's name, cell's uuid, host)] of all cells or of one, in order."""
    statement = sa.select(cells.c.name, cells.c.uuid, host_mappings.c.host).join_from(
        host_mappings, cells, cells.c.uuid == host_mappings.c.cell_uuid).order_by(cells.c.name, host_mappings.c.host)
    if cell_uuid is not None:
        statement = statement.where(cells.c.uuid == cell_uuid)
    return [tuple(row) for row in conn.execute(statement)]


_CELL_OF_HOST = sa.select(host_mappings.c.cell_uuid).where(host_mappings.c.host == sa.bindparam('host'))


def cell_of_host(conn: sa.Connection, host: str) -> str | None:
    """The uuid of the cell of a host; None: it has none."""
    return conn.execute(_CELL_OF_HOST, {'host': host}).scalar()


def cells_of_hosts(conn: sa.Connection, hosts: Collection[str] | None = None) -> dict[str, str]:
    """{host: uuid of its cell} of all mapped hosts, or of these."""
    statement = sa.select(host_mappings.c.host, host_mappings.c.cell_uuid)
    if hosts is not None:
        statement = statement.where(host_mappings.c.host.in_([*hosts]))
    return {host: cell for host, cell in conn.execute(statement)}


def map_host(conn: sa.Connection, host: str, cell_uuid: str) -> str:
    """The uuid of the cell of a host, which is the one that is given where it had none."""
    while True:
        engine.insert_ignore(conn, host_mappings, {'host': host, 'cell_uuid': cell_uuid})
        found = cell_of_host(conn, host)
        if found is not None:                # None: a mapping that it had was deleted in between
            return found


def move_host(conn: sa.Connection, host: str, old: str, new: str) -> None:
    """Let a host that a cell had, which is gone, belong to another one."""
    statements.update(conn, host_mappings, {'cell_uuid': new}, host=host, cell_uuid=old)


def forget_host(conn: sa.Connection, host: str) -> None:
    conn.execute(sa.delete(host_mappings).where(host_mappings.c.host == host))


def reporting(conn: sa.Connection, by_service: bool = False) -> dict[str, str]:
    """{host: uuid} of the compute nodes of a cell's database, or of its compute services."""
    statement = (sa.select(services.c.host, services.c.uuid).where(services.c.topic == 'compute') if by_service else
                 sa.select(compute_nodes.c.host, compute_nodes.c.uuid))
    return {host: uuid for host, uuid in conn.execute(statement.order_by(sa.text('host')))}


def first_service_at(conn: sa.Connection) -> datetime | None:
    """When the oldest service of a cell's database came to be; None: it knows none."""
    return conn.execute(sa.select(sa.func.min(services.c.created_at))).scalar()


def has_servers(conn: sa.Connection, host: str) -> bool:
    return conn.execute(sa.select(instances.c.id).where(instances.c.host == host).limit(1)).first() is not None


# ---- servers -----------------------------------------------------------------

def mapped(conn: sa.Connection, cell_uuid: str, marker: str, limit: int) -> Sequence[str]:
    """The next uuids of servers that are mapped to a cell, in order."""
    c = instance_mappings.c
    return conn.execute(sa.select(c.instance_uuid).where(c.cell_uuid == cell_uuid, c.instance_uuid > marker)
                        .order_by(c.instance_uuid).limit(limit)).scalars().all()


def any_exists(conn: sa.Connection, uuids: Sequence[str]) -> bool:
    """Whether a cell's database has any of these servers."""
    return conn.execute(sa.select(instances.c.id).where(instances.c.uuid.in_(uuids)).limit(1)).first() is not None


def place_of_server(conn: sa.Connection, uuid: str) -> str | None:
    """'live', 'deleted' or None: where a cell's database has a server."""
    for name, table in (('live', instances), ('deleted', instances_history)):
        if conn.execute(sa.select(table.c.id).where(table.c.uuid == uuid).limit(1)).first() is not None:
            return name
    return None


def oldest(conn: sa.Connection, after: tuple[datetime, int] | None, limit: int) -> builtins.list[dict[Any, Any]]:
    """The next servers of a cell's database with what a mapping has of them, from oldest to newest.

    :param after: (created_at, id) of the last one; None: from the first one on
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
    """Map those of these rows of ``oldest`` that are not mapped; (how many were, whether more are left).

    :param limit: servers at most; None: all
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
