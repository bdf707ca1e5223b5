"""VPN instances. A project has at most one VPN instance, to which clients connect at a public address."""
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables.api import instance_mappings
from nova.db.tables.api import vpns as table


def servers(conn: sa.Connection, category: str, project_id: str | None = None) -> Sequence[Any]:
    """Return (server uuid, project id) of the VPN instances of all projects or of one project."""
    statement = sa.select(instance_mappings.c.instance_uuid, instance_mappings.c.project_id).where(
        instance_mappings.c.category == category, instance_mappings.c.queued_for_delete.is_(False)).order_by(
        instance_mappings.c.project_id, instance_mappings.c.instance_uuid)
    if project_id is not None:
        statement = statement.where(instance_mappings.c.project_id == project_id)
    return conn.execute(statement).all()


def endpoints(conn: sa.Connection) -> dict[str, tuple[str, int]]:
    """Return {project: (public address, port)} of VPN instances, as set by operators."""
    rows = conn.execute(sa.select(table.c.project_id, table.c.public_address, table.c.public_port).where(
        table.c.public_address.is_not(None)))
    return {row.project_id: (row.public_address, row.public_port) for row in rows}


def configure(conn: sa.Connection, project_id: str, address: str, port: int) -> None:
    """Set the public address and port of a project's VPN instance, even before it exists."""
    engine.insert_ignore(conn, table, {'project_id': project_id})
    conn.execute(sa.update(table).where(table.c.project_id == project_id).values(
        public_address=address, public_port=port))


def begin(conn: sa.Connection, project_id: str, now: datetime, abandoned: datetime) -> bool:
    """Reserve the creation of a project's VPN instance; return False if another request is creating it.

    :param abandoned: creations that began earlier are treated as failed
    """
    engine.insert_ignore(conn, table, {'project_id': project_id})
    found = conn.execute(sa.update(table).where(table.c.project_id == project_id, sa.or_(
        table.c.started_at.is_(None), table.c.started_at < abandoned)).values(started_at=now))
    return bool(found.rowcount)


def end(conn: sa.Connection, project_id: str, started_at: datetime) -> None:
    """End the caller's reservation from ``begin``, unless another request has taken it over."""
    conn.execute(sa.update(table).where(table.c.project_id == project_id, table.c.started_at == started_at).values(
        started_at=None))
