"""Rows of compute nodes: the inventory of a host, and the usage by claims."""
import builtins
from collections.abc import Mapping
from typing import Any, cast
import uuid as uuidlib

import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import exception
from nova import utils
from nova.db import statements
from nova.db.placement import numa_claims
from nova.db.placement import pci_devices
from nova.db.tables.cell import compute_nodes
from nova.db.tables.cell import services
from nova.db.tables.rows import ComputeNodesRow

USAGE = ('vcpus_used', 'memory_mb_used', 'local_gb_used', 'running_vms')    # only claims write these columns
_OWN = {'id', 'uuid', 'created_at', 'updated_at', 'change_number', 'usage_change_number', 'pci_stats', 'pci_devices',
        'numa_topology', *USAGE}
# columns that change with every report; schedulers do not reload a row in which only these have changed
_QUIET = {'uptime', 'disk_available_least'}


def report(conn: sa.Connection, host: str, nodes: builtins.list[dict[str, Any]]) -> None:
    """Store the inventory of a host; the usage is unchanged.

    Nodes that are not in ``nodes`` are removed. Unchanged rows are not written.

    :param nodes: dicts of columns with ``node``; ``pci_devices`` has the assignable devices as dicts of
        objects.pci.Device
    """
    known = {row['node']: row for row in by_host(conn, host)}
    had_devices = {name for name, row in known.items() if row['pci_stats'] is not None}
    now = utils.utcnow()
    for node in nodes:
        values = {name: value for name, value in node.items() if name not in _OWN and name != 'host'}
        row = known.pop(node['node'], None)
        if row is None:
            try:
                conn.execute(sa.insert(compute_nodes).values(
                    uuid=str(uuidlib.uuid4()), host=host, created_at=now, updated_at=now,
                    change_number=utils.change_number(), **values))
            except db_exc.DBDuplicateEntry as error:         # a repeated message has already inserted the row
                raise db_exc.RetryRequest(error) from error
            _report_topology(conn, {'host': host, 'node': node['node'], 'numa_topology': None}, node)
            continue
        _report_topology(conn, row, node)
        before: Mapping[str, Any] = row
        different = {name: value for name, value in values.items() if before[name] != value}
        if different:
            if different.keys() - _QUIET:
                different['change_number'] = utils.change_number()
            conn.execute(sa.update(compute_nodes).where(compute_nodes.c.id == row['id'])
                         .values(updated_at=now, **different))
    for node in nodes:
        devices = node.get('pci_devices')
        if devices or devices is not None and node['node'] in had_devices:
            pci_devices.report(conn, host, node['node'], devices)
    for name in had_devices & known.keys():
        pci_devices.report(conn, host, name, [])
    if known:
        conn.execute(sa.delete(compute_nodes).where(
            compute_nodes.c.id.in_([row['id'] for row in known.values()])))


def _report_topology(conn: sa.Connection, row: Mapping[str, Any], node: dict[str, Any]) -> None:
    if 'numa_topology' in node:
        numa_claims.report(conn, row, node['numa_topology'])


def get(conn: sa.Connection, node_id: int | str) -> ComputeNodesRow:
    """Return a node by its uuid or id.

    :raises ComputeHostNotFound: it does not exist
    """
    text = str(node_id)
    if len(text) == 36:
        condition = compute_nodes.c.uuid == text
    elif text.isascii() and text.isdigit() and len(text) <= 9:
        condition = compute_nodes.c.id == int(text)
    else:
        raise exception.ComputeHostNotFound(host=node_id)
    row = conn.execute(sa.select(compute_nodes).where(condition)).mappings().first()
    if row is None:
        raise exception.ComputeHostNotFound(host=node_id)
    return cast('ComputeNodesRow', statements.to_dict(row))


def by_host(conn: sa.Connection, host: str) -> builtins.list[ComputeNodesRow]:
    """Return the rows of the nodes of a host."""
    return statements.rows(conn, compute_nodes, ('id',), host=host)


def capabilities(conn: sa.Connection, hosts: builtins.list[str]) -> builtins.list[Any]:
    """Return [(host, {feature: whether the driver supports it})] of the nodes of these hosts."""
    return builtins.list(conn.execute(sa.select(compute_nodes.c.host, compute_nodes.c.capabilities).where(
        compute_nodes.c.host.in_(hosts))))


def capabilities_of(conn: sa.Connection, host: str | None, node: str | None) -> dict[str, bool] | None:
    """Return {feature: whether the node's driver supports it}, or None if unknown."""
    return conn.execute(sa.select(compute_nodes.c.capabilities).where(
        compute_nodes.c.host == host, compute_nodes.c.node == node)).scalar()


def exists(conn: sa.Connection, host: str | None, node: str | None = None) -> bool:
    """Tell whether a node on this host with this name exists.

    :param host, node: one of the two may be None, which allows any value
    """
    conditions = [column == name for name, column in ((host, compute_nodes.c.host), (node, compute_nodes.c.node))
                  if name]
    return conn.execute(sa.select(compute_nodes.c.id).where(*conditions).limit(1)).first() is not None


def list(conn: sa.Connection, *, limit: int | None = None, after_id: int | None = None, node_like: str | None = None,
         with_service: bool = False) -> builtins.list[ComputeNodesRow]:
    """Return nodes in the order of their ids.

    :param after_id: id of the last node of the previous page
    :param node_like: part of the node's name
    :param with_service: only nodes with a compute service on their host
    """
    statement = sa.select(compute_nodes).order_by(compute_nodes.c.id)
    if after_id is not None:
        statement = statement.where(compute_nodes.c.id > after_id)
    if node_like is not None:
        statement = statement.where(compute_nodes.c.node.contains(node_like, autoescape=True))
    if with_service:
        statement = statement.where(sa.exists().where(services.c.host == compute_nodes.c.host,
                                                      services.c.binary == 'nova-compute'))
    if limit is not None:
        statement = statement.limit(limit)
    return statements.dicts(conn.execute(statement))


def statistics(conn: sa.Connection) -> dict[str, int]:
    """Return sums over all nodes: {'count', 'vcpus', 'memory_mb', …}, as in ``os-hypervisors/statistics``."""
    names = ('vcpus', 'memory_mb', 'local_gb', *USAGE, 'disk_available_least')
    columns = [sa.func.coalesce(sa.func.sum(compute_nodes.c[name]), 0).label(name) for name in names]
    row = conn.execute(sa.select(sa.func.count().label('count'), *columns)
                       .select_from(compute_nodes)).mappings().one()
    return {name: int(value) for name, value in row.items()}
