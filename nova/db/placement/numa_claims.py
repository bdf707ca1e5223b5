"""NUMA cells of the compute nodes: CPUs, memory and pages that servers have claimed (objects.numa, hardware.usage).

    report   store the hardware of a node with the existing claims
    take     record a claim of a server or a move
    free     release a claim
    audit    recompute the claims from the servers

The topology of a node, with all claims on the node, is in the node's row. The topologies of servers and moves are in
their rows. A change of a node's topology locks the node's row until the transaction ends. A server without a topology
needs no statement.
"""
import functools
import logging
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from nova import utils
from nova.db.tables import cell as t
from nova.hardware import host as hosts
from nova.hardware import usage
from nova.objects import numa

LOG = logging.getLogger(__name__)

_c = t.compute_nodes.c
_OF_NODE = sa.select(_c.numa_topology).where(
    _c.host == sa.bindparam('key_host'), _c.node == sa.bindparam('key_node'))
_LOCKED = sa.select(_c.id, _c.numa_topology).where(
    _c.host == sa.bindparam('key_host'), _c.node == sa.bindparam('key_node')).with_for_update()
_WRITE = sa.update(t.compute_nodes).where(_c.id == sa.bindparam('key_id'))
_SERVERS = sa.select(t.instances.c.host, t.instances.c.node, t.instances.c.numa_topology).where(
    t.instances.c.host.is_not(None), t.instances.c.numa_topology.is_not(None))
_MOVES = sa.select(t.migrations.c.claimed_host, t.migrations.c.claimed_node,
                   t.migrations.c.claimed_numa_topology).where(
    t.migrations.c.claimed_host.is_not(None), t.migrations.c.claimed_numa_topology.is_not(None))
_COUNTED = ('cpu_usage', 'memory_usage', 'pinned_cpus', 'mempages')

# cached because many hosts of a cloud are equal; callers must not change the result
load_host = functools.lru_cache(maxsize=4096)(numa.load_host)


def pinned(text: str | None) -> int:
    """Return the number of pinned vCPUs of a server with this topology, or 0 for None."""
    return len(numa.dedicated(text))


def report(conn: sa.Connection, node: Mapping[str, Any], text: str | None) -> None:
    """Store the topology of a node.

    :param text: a HostTopology without guests, or None
    """
    if _is_known(node['numa_topology'], text):
        return
    stored = _lock(conn, node['host'], node['node'])
    if stored is None or _is_known(stored.numa_topology, text):
        return
    if text is not None:
        guests = _guests(conn, (node['host'], node['node']))
        text = numa.text_of_host(usage.recount(load_host(text), guests.get((node['host'], node['node']), ())))
    _write(conn, stored.id, text)


def of_node(conn: sa.Connection, host: str, node: str) -> str | None:
    """Return the stored topology of a node, or None."""
    return conn.execute(_OF_NODE, {'key_host': host, 'key_node': node}).scalar()


def take(conn: sa.Connection, node_id: int, topology: numa.HostTopology) -> None:
    """Store a HostTopology that includes the new claim in the row of a locked node."""
    _write(conn, node_id, numa.text_of_host(topology))


def free(conn: sa.Connection, host: str, node: str, text: str) -> None:
    """Release the share of a server or a move with this topology; without effect if the node was deleted.

    If the hardware no longer has some of the resources, nothing is released. The audit corrects the claims later.
    """
    stored = _lock(conn, host, node)
    if stored is None or stored.numa_topology is None:
        return
    try:
        left = usage.free(load_host(stored.numa_topology), numa.load_guest(text))
    except usage.Overcommitted as error:
        LOG.warning('Cannot release the NUMA resources of a server on compute node %s: %s. The periodic check of '
                    'claims corrects them.', node, error)
        return
    _write(conn, stored.id, numa.text_of_host(left))


def audit(conn: sa.Connection) -> list[dict[str, Any]]:
    """Recompute the servers' shares of the nodes' cells and correct differences; see claims.audit."""
    guests, mended = _guests(conn), []
    suspects = [(host, node) for host, node, text in conn.execute(sa.select(_c.host, _c.node, _c.numa_topology).where(
        _c.numa_topology.is_not(None))) if _differences(text, guests.get((host, node)))]
    for host, node in suspects:
        stored = _lock(conn, host, node)
        if stored is None or stored.numa_topology is None:
            continue
        here = _guests(conn, (host, node)).get((host, node))
        different = _differences(stored.numa_topology, here)
        if different:
            right = usage.recount(load_host(stored.numa_topology), here or ())
            _write(conn, stored.id, numa.text_of_host(right))
        for column, was, value in different:
            LOG.error('Usage of node %s differed from its servers: %s was %s, is %s.', node, column, was, value)
            mended.append({'host': host, 'node': node, 'column': column, 'was': was, 'is': value})
    return mended


def _differences(text: str, guests: list[numa.GuestTopology] | None) -> list[tuple[str, Any, Any]]:
    """Return [(name, stored value, correct value)] of the cells of a node with this topology and these guests."""
    stored = load_host(text)
    right = usage.recount(stored, guests) if guests else _unused(text)
    return [(f'numa_topology[{cell.id}].{name}', _shown(getattr(cell, name)), _shown(getattr(other, name)))
            for cell, other in zip(stored.cells, right.cells, strict=True) for name in _COUNTED
            if getattr(cell, name) != getattr(other, name)]


def _shown(value: int | frozenset[int] | tuple[numa.Pages, ...]) -> int | list[int] | dict[int, int]:
    if isinstance(value, int):
        return value
    return sorted(value) if isinstance(value, frozenset) else {pages.size_kb: pages.used for pages in value}


@functools.lru_cache(maxsize=4096)
def _unused(text: str) -> numa.HostTopology:
    return hosts.unused(load_host(text))


def _is_known(stored: str | None, text: str | None) -> bool:
    if stored is None or text is None:
        return stored is text
    return _unused(stored) == load_host(text)


def _guests(conn: sa.Connection,
            place: tuple[str, str] | None = None) -> dict[tuple[str, str], list[numa.GuestTopology]]:
    """Return {(host, node): [GuestTopology]} of the servers and moves on one node or on all nodes."""
    servers, moves = _SERVERS, _MOVES
    if place is not None:
        on_host, on_node = place
        servers = servers.where(t.instances.c.host == on_host, t.instances.c.node == on_node)
        moves = moves.where(t.migrations.c.claimed_host == on_host, t.migrations.c.claimed_node == on_node)
    found: dict[tuple[str, str], list[numa.GuestTopology]] = {}
    # one statement: if a move and its server swapped their claims between two statements, a claim would be missed
    for host, name, text in conn.execute(sa.union_all(servers, moves)):
        found.setdefault((host, name), []).append(numa.load_guest(text))
    return found


def _lock(conn: sa.Connection, host: str, node: str) -> sa.Row[Any, Any] | None:
    return conn.execute(_LOCKED, {'key_host': host, 'key_node': node}).first()


def _write(conn: sa.Connection, node_id: int, text: str | None) -> None:
    conn.execute(_WRITE, {'key_id': node_id, 'numa_topology': text, 'numa_change_number': utils.change_number()})
