"""VPN instances: one server of their category in a project, and the address where clients reach it."""
from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables.api import instance_mappings
from nova.db.tables.vpns import vpns as table


def servers(conn: sa.Connection, category: str, project_id: str | None = None) -> Sequence[Any]:
    """(server's uuid, project's id) of the VPN instances, of all projects or of one."""
    statement = sa.select(instance_mappings.c.instance_uuid, instance_mappings.c.project_id).where(
        instance_mappings.c.category == category, instance_mappings.c.queued_for_delete.is_(False)).order_by(
        instance_mappings.c.project_id, instance_mappings.c.instance_uuid)
    if project_id is not None:
        statement = statement.where(instance_mappings.c.project_id == project_id)
    return conn.execute(statement).all()


def endpoints(conn: sa.Connection) -> dict[str, tuple[str, int]]:
    """{project: (address, port)} of those that operators have set."""
    rows = conn.execute(sa.select(table.c.project_id, table.c.public_address, table.c.public_port).where(
        table.c.public_address.is_not(None)))
    return {row.project_id: (row.public_address, row.public_port) for row in rows}


def configure(conn: sa.Connection, project_id: str, address: str, port: int) -> None:
    """Set where clients reach the VPN instance of a project, whether there is one or not."""
    engine.insert_ignore(conn, table, {'project_id': project_id})
    conn.execute(sa.update(table).where(table.c.project_id == project_id).values(
        public_address=address, public_port=port))


def begin(conn: sa.Connection, project_id: str, now: datetime, abandoned: datetime) -> bool:
    """Whether the caller may make the VPN instance of a project: no other request is making it.

    :param abandoned: who began before has not come to an end
    """
    engine.insert_ignore(conn, table, {'project_id': project_id})
    found = conn.execute(sa.update(table).where(table.c.project_id == project_id, sa.or_(
        table.c.begun_at.is_(None), table.c.begun_at < abandoned)).values(begun_at=now))
    return bool(found.rowcount)


def end(conn: sa.Connection, project_id: str, begun_at: datetime) -> None:
    """The caller is done with it, unless another one has taken over."""
    conn.execute(sa.update(table).where(table.c.project_id == project_id, table.c.begun_at == begun_at).values(
        begun_at=None))
