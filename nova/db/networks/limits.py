"""Network quotas of projects that an administrator has set."""
import sqlalchemy as sa

from nova.db.tables import network as t


def of(conn: sa.Connection, project_id: str) -> dict[str, int]:
    """Return {resource: limit} set for a project."""
    c = t.limits.c
    return {name: limit for name, limit in conn.execute(
        sa.select(c.resource, c.hard_limit).where(c.project_id == project_id))}


def every(conn: sa.Connection) -> dict[str, dict[str, int]]:
    """Return {project: {resource: limit}} of all projects with limits."""
    found: dict[str, dict[str, int]] = {}
    for row in conn.execute(sa.select(t.limits).order_by(t.limits.c.project_id)).mappings():
        found.setdefault(row['project_id'], {})[row['resource']] = row['hard_limit']
    return found


def replace(conn: sa.Connection, project_id: str, limits: dict[str, int]) -> None:
    """Set these limits of a project; its other limits are unchanged."""
    c = t.limits.c
    if limits:
        conn.execute(sa.delete(t.limits).where(c.project_id == project_id, c.resource.in_(list(limits))))
        conn.execute(sa.insert(t.limits), [{'project_id': project_id, 'resource': name, 'hard_limit': limit}
                                           for name, limit in limits.items()])


def forget(conn: sa.Connection, project_id: str) -> None:
    """Remove the limits of a project."""
    conn.execute(sa.delete(t.limits).where(t.limits.c.project_id == project_id))
