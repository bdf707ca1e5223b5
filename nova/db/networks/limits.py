"""Network quotas of projects that an administrator has set."""
import functools
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from nova.db.tables import network as t


def of(conn: sa.Connection, project_id: str) -> dict[str, int]:
    """Return {resource: limit} set for a project."""
    c = t.limits.c
    return {name: limit for name, limit in conn.execute(
        sa.select(c.resource, c.hard_limit).where(c.project_id == project_id))}


def room(name: str, table: sa.Table) -> sa.Label[int | None]:
    """Return an expression: how many more resources the quota of a project allows; NULL: any number.

    Its parameters are ``of_project`` and ``default_limit``.
    """
    c, project = t.limits.c, sa.bindparam('of_project', type_=sa.String)
    own = sa.select(c.hard_limit).where(c.project_id == project, c.resource == name).scalar_subquery()
    most = sa.func.coalesce(own, sa.bindparam('default_limit', type_=sa.Integer))
    used = sa.select(sa.func.count()).select_from(table).where(table.c.project_id == project).correlate(None)
    return sa.case((most >= 0, most - used.scalar_subquery())).label('room')


@functools.cache
def _room(name: str, table: sa.Table) -> sa.Select[Any]:
    return sa.select(room(name, table))


def left(conn: sa.Connection, name: str, table: sa.Table, project_id: str, default: int) -> int | None:
    """Return how many more rows of a table the quota of a project allows; None: any number.

    :param default: limit of projects without one of their own; -1: unlimited
    """
    found: int | None = conn.execute(_room(name, table), {'of_project': project_id, 'default_limit': default}).scalar()
    return found


def every(conn: sa.Connection) -> dict[str, dict[str, int]]:
    """Return {project: {resource: limit}} of all projects with limits."""
    found: dict[str, dict[str, int]] = {}
    for row in conn.execute(sa.select(t.limits).order_by(t.limits.c.project_id)).mappings():
        found.setdefault(row['project_id'], {})[row['resource']] = row['hard_limit']
    return found


def replace(conn: sa.Connection, project_id: str, limits: dict[str, int]) -> None:
    """Set these limits of a project; its other limits are unchanged."""
    if limits:
        remove(conn, project_id, limits)
        conn.execute(sa.insert(t.limits), [{'project_id': project_id, 'resource': name, 'hard_limit': limit}
                                           for name, limit in limits.items()])


def remove(conn: sa.Connection, project_id: str, resources: Collection[str]) -> None:
    """Remove the limits of a project for these resources."""
    c = t.limits.c
    conn.execute(sa.delete(t.limits).where(c.project_id == project_id, c.resource.in_(resources)))


def forget(conn: sa.Connection, project_id: str) -> None:
    """Remove the limits of a project."""
    conn.execute(sa.delete(t.limits).where(t.limits.c.project_id == project_id))
