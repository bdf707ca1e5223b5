"""Automatically allocated networks and routers of projects."""
import sqlalchemy as sa

from nova.db import statements
from nova.db.tables import network as t
from nova.db.tables.rows import AutoTopologiesRow


def of(conn: sa.Connection, project_id: str) -> AutoTopologiesRow | None:
    """Return the row of a project if its network exists, or None."""
    c = t.topologies.c
    row = conn.execute(sa.select(t.topologies).join_from(
        t.topologies, t.networks, t.networks.c.id == c.network_id).where(c.project_id == project_id)).mappings().first()
    return None if row is None else statements.to_dict(row)


def insert(conn: sa.Connection, project_id: str, network_id: str, router_id: str) -> None:
    """Insert the topology of a project, in place of a row that refers to a deleted network. The primary key prevents
    a second topology by a concurrent transaction.
    """
    conn.execute(sa.delete(t.topologies).where(t.topologies.c.project_id == project_id,
                                               t.topologies.c.network_id.not_in(sa.select(t.networks.c.id))))
    conn.execute(sa.insert(t.topologies), [
        {'project_id': project_id, 'network_id': network_id, 'router_id': router_id}])


def remove(conn: sa.Connection, project_id: str) -> None:
    conn.execute(sa.delete(t.topologies).where(t.topologies.c.project_id == project_id))
