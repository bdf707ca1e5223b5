"""What runs on hosts, for the administrators' views."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova.db.tables.cell import instances


def servers(conn: sa.Connection, nodes: list[str]) -> dict[str, list[dict[str, str]]]:
    """{node: [{uuid, name}]} of the servers of these nodes, oldest first."""
    found = {}
    rows = conn.execute(sa.select(instances.c.node, instances.c.uuid, instances.c.display_name)
                        .where(instances.c.node.in_(list(nodes))).order_by(instances.c.id))
    for node, uuid, name in rows:
        found.setdefault(node, []).append({'uuid': uuid, 'name': name})
    return found


def server_count(conn: sa.Connection, host: str) -> int:
    """How many servers a host has."""
    return conn.execute(sa.select(sa.func.count()).select_from(instances)
                        .where(instances.c.host == host)).scalar()


def workloads(conn: sa.Connection) -> dict[str, int]:
    """{node: servers with a task in progress}; nodes without any are not in it."""
    rows = conn.execute(sa.select(instances.c.node, sa.func.count())
                        .where(instances.c.task_state.is_not(None), instances.c.node.is_not(None))
                        .group_by(instances.c.node))
    return {node: number for node, number in rows}


def usage_by_project(conn: sa.Connection, host: str) -> list[dict[str, Any]]:
    """[{project_id, vcpus, memory_mb, local_gb}] of the servers of a host, as their flavors have it, by project."""
    c = instances.c
    statement = (sa.select(c.project_id, sa.func.sum(c.vcpus).label('vcpus'),
                           sa.func.sum(c.memory_mb).label('memory_mb'),
                           sa.func.sum(c.root_gb + c.ephemeral_gb).label('local_gb'))
                 .where(c.host == host).group_by(c.project_id).order_by(c.project_id))
    return [{'project_id': row.project_id, 'vcpus': int(row.vcpus), 'memory_mb': int(row.memory_mb),
             'local_gb': int(row.local_gb)} for row in conn.execute(statement)]
