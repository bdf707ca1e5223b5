"""Servers on hosts: queries for administrators' views and for filters of the scheduler."""
import collections.abc
from typing import Any

import sqlalchemy as sa

from nova import states
from nova.db.tables.cell import instances
from nova.db.tables.cell import migrations

# task states with high disk or network load. States in which servers wait for their compute service are included,
# because their host will soon have the load
BUSY = (states.SCHEDULING, states.NETWORKING, states.BLOCK_DEVICE_MAPPING, states.SPAWNING, states.RESIZE_PREP,
        states.RESIZE_MIGRATING, states.RESIZE_MIGRATED, states.RESIZE_FINISH, states.IMAGE_SNAPSHOT_PENDING,
        states.IMAGE_SNAPSHOT, states.IMAGE_PENDING_UPLOAD, states.IMAGE_UPLOADING, states.IMAGE_BACKUP,
        states.REBUILDING, states.REBUILD_BLOCK_DEVICE_MAPPING, states.REBUILD_SPAWNING, states.MIGRATING,
        states.SHELVING, states.SHELVING_IMAGE_PENDING_UPLOAD, states.SHELVING_IMAGE_UPLOADING, states.UNSHELVING,
        states.RESCUING, states.UNRESCUING)


def servers(conn: sa.Connection, nodes: list[str]) -> dict[str, list[dict[str, str]]]:
    """Return {node: [{uuid, name}]} of the servers of these nodes, oldest first."""
    found: dict[Any, Any] = {}
    rows = conn.execute(sa.select(instances.c.node, instances.c.uuid, instances.c.display_name)
                        .where(instances.c.node.in_(list(nodes))).order_by(instances.c.id))
    for node, uuid, name in rows:
        found.setdefault(node, []).append({'uuid': uuid, 'name': name})
    return found


def server_count(conn: sa.Connection, host: str) -> int | None:
    """Return the number of servers of a host."""
    return conn.execute(sa.select(sa.func.count()).select_from(instances)
                        .where(instances.c.host == host)).scalar()


def workloads(conn: sa.Connection) -> dict[str, int]:
    """Return {node: number of servers with a task in progress}, without zeros."""
    rows = conn.execute(sa.select(instances.c.node, sa.func.count())
                        .where(instances.c.task_state.is_not(None), instances.c.node.is_not(None))
                        .group_by(instances.c.node))
    return {node: number for node, number in rows}


def usage_by_project(conn: sa.Connection, host: str) -> list[dict[str, Any]]:
    """Return [{project_id, vcpus, memory_mb, local_gb}]: the flavor sizes of a host's servers, summed by project."""
    c = instances.c
    statement = (sa.select(c.project_id, sa.func.sum(c.vcpus).label('vcpus'),
                           sa.func.sum(c.memory_mb).label('memory_mb'),
                           sa.func.sum(c.root_gb + c.ephemeral_gb).label('local_gb'))
                 .where(c.host == host).group_by(c.project_id).order_by(c.project_id))
    return [{'project_id': row.project_id, 'vcpus': int(row.vcpus), 'memory_mb': int(row.memory_mb),
             'local_gb': int(row.local_gb)} for row in conn.execute(statement)]


# ---- facts for filters ----------------------------------------------------------

def busy_servers(conn: sa.Connection) -> dict[tuple[str, str], int]:
    """Return {(host, node): number of servers in a task of BUSY}, without zeros."""
    c = instances.c
    statement = sa.select(c.host, c.node, sa.func.count()).where(
        c.task_state.in_(BUSY), c.host.is_not(None)).group_by(c.host, c.node)
    return {(host, node): number for host, node, number in conn.execute(statement)}


def with_flavor(conn: sa.Connection, flavor_id: str) -> frozenset[str]:
    """Return the names of the hosts with a server of a flavor.

    :param flavor_id: the flavor's id in the API
    """
    c = instances.c
    return frozenset(conn.execute(sa.select(c.host).where(
        c.flavor_id == flavor_id, c.host.is_not(None)).distinct()).scalars())


def of_servers(conn: sa.Connection, project_id: str, uuids: collections.abc.Iterable[object]) -> frozenset[str]:
    """Return the names of the hosts of a project's servers, including destinations of moves.

    :param uuids: values from users; values that are not text are ignored
    """
    uuids = [uuid for uuid in uuids if isinstance(uuid, str)]
    placed = sa.select(instances.c.host).where(instances.c.uuid.in_(uuids), instances.c.project_id == project_id,
                                               instances.c.host.is_not(None))
    moving = sa.select(migrations.c.claimed_host).join(instances, instances.c.uuid == migrations.c.instance_uuid).where(
        instances.c.uuid.in_(uuids), instances.c.project_id == project_id, migrations.c.claimed_host.is_not(None))
    return frozenset(conn.execute(sa.union(placed, moving)).scalars())


def placed_servers(conn: sa.Connection) -> frozenset[tuple[str, str, str]]:
    """Return (host, node, uuid) of every server with a host."""
    c = instances.c
    return frozenset(tuple(row) for row in conn.execute(sa.select(c.host, c.node, c.uuid).where(
        c.host.is_not(None))))
