"""Claims. A claim is a server's share of a compute node, taken and released by conditional UPDATEs.

The condition of the UPDATE checks the capacity, so claims cannot exceed it even if the scheduler's data was stale. The
caller changes the server's host and the node's usage in one transaction.
"""
from __future__ import annotations

from collections.abc import Iterator
import functools
import logging
from typing import Any, NotRequired, TYPE_CHECKING, TypedDict

import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.placement import numa_claims
from nova.db.placement import pci_devices
from nova.db.tables import cell as t
from nova.db.tables.rows import InstancesRow
from nova.hardware import machines
from nova.objects import pci
from nova.objects.flavor import Flavor

if TYPE_CHECKING:
    from typing_extensions import ReadOnly

LOG = logging.getLogger(__name__)

RESOURCES = ('vcpus', 'memory_mb', 'local_gb')
_NEEDED = ('host', 'node', 'vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb', 'image_id', 'flavor', 'numa_topology')
# columns of a move with its share, in the order of _NEEDED; in place of root_gb, the size of all local disks
_SHARE: tuple[sa.ColumnElement[Any], ...] = (
    t.migrations.c.claimed_host, t.migrations.c.claimed_node, t.migrations.c.claimed_vcpus,
    t.migrations.c.claimed_memory_mb, t.migrations.c.claimed_local_gb, sa.literal(0), sa.literal('claimed'),
    sa.literal(None, t.instances.c.flavor.type), sa.literal(None, t.instances.c.numa_topology.type))
_CLAIMED = [column.label(name) for name, column in zip(_NEEDED, _SHARE)]


class Sizes(TypedDict):
    """The columns of an instances row that determine its share."""

    flavor: ReadOnly[Flavor | None]
    vcpus: ReadOnly[int]
    memory_mb: ReadOnly[int]
    root_gb: ReadOnly[int]
    ephemeral_gb: ReadOnly[int]
    image_id: ReadOnly[str | None]
    numa_topology: NotRequired[ReadOnly[str | None]]


def resources(row: Sizes, with_pinned: bool = False) -> dict[str, int]:
    """Return a server's share of its node: {'vcpus', 'memory_mb', 'local_gb'}.

    The root disk of a server that boots from a volume is not on the node. The amounts of a bare metal server are 0.
    :param with_pinned: whether to count the pinned vCPUs, which numa_claims counts
    """
    flavor = row['flavor']
    if flavor and machines.wanted(flavor.get('extra_specs')) is not None:
        return dict.fromkeys(RESOURCES, 0)
    swap_mb = flavor and flavor.get('swap') or 0
    disk = (row['root_gb'] if row['image_id'] else 0) + row['ephemeral_gb'] + -(-swap_mb // 1024)
    shared = row['vcpus'] - (0 if with_pinned else numa_claims.pinned(row.get('numa_topology')))
    return {'vcpus': shared, 'memory_mb': row['memory_mb'], 'local_gb': disk}


_c = t.compute_nodes.c
# {resource: (total of the node, part of it for servers, allocation ratio of this part)}
CAPACITIES: dict[str, tuple[sa.ColumnElement[Any], ...]] = {
    'vcpus': (_c.vcpus, _c.vcpus, _c.cpu_allocation_ratio),
    'memory_mb': (_c.memory_mb, _c.memory_mb - _c.reserved_memory_mb, _c.ram_allocation_ratio),
    'local_gb': (_c.local_gb, _c.local_gb - _c.reserved_disk_gb, _c.disk_allocation_ratio),
}


def _room(names: tuple[str, ...], limited: frozenset[str]) -> Iterator[sa.ColumnElement[bool]]:
    """Yield the conditions of a claim: the free capacity suffices, and no amount exceeds the node's total.

    :param limited: names of the ``limits``, see claim()
    """
    for name in names:
        total, given, ratio = CAPACITIES[name]
        if name in limited:
            ratio = sa.bindparam('limit_' + name, type_=sa.Float)
        yield _c[name + '_used'] + sa.bindparam('by_' + name) <= given * ratio
        yield total >= sa.bindparam('by_' + name)
    if 'running_vms' in limited:
        yield _c.running_vms < sa.bindparam('limit_running_vms')


def _changing(*conditions: sa.ColumnElement[bool]) -> sa.Update:
    """Return an UPDATE that changes the usage of nodes by the amounts that ``_by`` returns."""
    return sa.update(t.compute_nodes).where(*conditions).values({
        name: t.compute_nodes.c[name] + sa.bindparam('by_' + name.removesuffix('_used'))
        for name in ('running_vms', *(name + '_used' for name in RESOURCES))})


def _by(requested: dict[str, int], sign: int) -> dict[str, int]:
    return {'usage_change_number': utils.change_number(), 'by_running_vms': sign,
            **{'by_' + name: sign * requested[name] for name in RESOURCES}}


_NUMBER = t.compute_nodes.c.id == sa.bindparam('key_id')
_OF_NUMBER = _changing(_NUMBER)
_OF_NAME = _changing(t.compute_nodes.c.host == sa.bindparam('key_host'),
                     t.compute_nodes.c.node == sa.bindparam('key_node'))


@functools.cache
def _claim_of(names: tuple[str, ...], limited: frozenset[str]) -> sa.Update:
    return _changing(_NUMBER, *_room(names, limited))


def claim(conn: sa.Connection, node_id: int, requested: dict[str, int], limits: dict[str, float] | None = None) -> bool:
    """Claim ``requested`` (see resources()) on a node; return False if the node has no room.

    :param limits: {resource: ratio that replaces the node's ratio}, and ``running_vms``, the maximum number of servers
        on the node. The scheduler's filters set these limits.
    """
    limits = limits or {}
    statement = _claim_of(tuple(name for name in RESOURCES if requested[name]), frozenset(limits))
    return bool(conn.execute(statement, {'key_id': node_id, **_by(requested, 1), **{
        'limit_' + name: value for name, value in limits.items()
        if name == 'running_vms' or requested[name]}}).rowcount)


def free(conn: sa.Connection, row: InstancesRow) -> None:
    """Release the share that a server (a row) has on its node; without effect for a server without a node.

    The caller changes or removes the row in the same transaction.
    """
    if row['host'] is None or row['node'] is None:
        return
    free_share(conn, row['host'], row['node'], resources(row))
    if row['numa_topology'] is not None:
        numa_claims.free(conn, row['host'], row['node'], row['numa_topology'])
    if pci.requested(row['flavor']):
        pci_devices.release(conn, row['host'], row['node'], row['uuid'], claimed_by_move=False)


def free_share(conn: sa.Connection, host: str, node: str, requested: dict[str, int]) -> None:
    """Release ``requested`` on a node; without effect if the node was deleted."""
    conn.execute(_OF_NAME, {'key_host': host, 'key_node': node, **_by(requested, -1)})


def free_node(conn: sa.Connection, node_id: int, requested: dict[str, int]) -> None:
    """Release ``requested`` on the node with this id, after a claim that is not used."""
    conn.execute(_OF_NUMBER, {'key_id': node_id, **_by(requested, -1)})


def _usage(conn: sa.Connection, node: sa.RowMapping | None = None) -> dict[tuple[str, str], dict[str, int]]:
    """Return {(host, node): {usage column: sum over the servers and the shares of moves}}."""
    statement = sa.select(*[t.instances.c[name] for name in _NEEDED]).where(t.instances.c.host.is_not(None))
    moves = sa.select(*_CLAIMED).where(t.migrations.c.claimed_host.is_not(None))
    if node is not None:
        statement = statement.where(t.instances.c.host == node['host'], t.instances.c.node == node['node'])
        moves = moves.where(t.migrations.c.claimed_host == node['host'], t.migrations.c.claimed_node == node['node'])
    usage: dict[tuple[str, str], dict[str, int]] = {}
    # one statement: if a move and its server swapped their claims between two statements, a claim would be missed
    for row in statements.dicts(conn.execute(sa.union_all(statement, moves))):
        sums = usage.setdefault((row['host'], row['node']),
                                {'running_vms': 0, **{name + '_used': 0 for name in RESOURCES}})
        for name, value in resources(row).items():
            sums[name + '_used'] += value
        sums['running_vms'] += 1
    return usage


def _difference(node: sa.RowMapping, usage: dict[tuple[str, str], dict[str, int]]) -> dict[str, tuple[int, int]]:
    found = usage.get((node['host'], node['node']), {})
    names = ('running_vms', *[name + '_used' for name in RESOURCES])
    return {name: (node[name], found.get(name, 0)) for name in names if node[name] != found.get(name, 0)}


def audit(conn: sa.Connection) -> list[dict[str, Any]]:
    """Recompute the usage of all nodes from their servers and correct differences.

    The first comparison takes no lock. If a node differs, it is compared again under its row lock, because a concurrent
    claim may be the reason. Normally no node differs.
    :returns: [{'host', 'node', 'column', 'was', 'is'}] of the corrections
    """
    usage = _usage(conn)
    mended = []
    for suspect in conn.execute(sa.select(t.compute_nodes)).mappings().all():
        if not _difference(suspect, usage):
            continue
        locked = sa.select(t.compute_nodes).where(t.compute_nodes.c.id == suspect['id']).with_for_update()
        node = conn.execute(locked).mappings().first()
        if node is None:
            continue
        different = _difference(node, _usage(conn, node))
        if different:
            conn.execute(sa.update(t.compute_nodes).where(t.compute_nodes.c.id == node['id']).values(
                usage_change_number=utils.change_number(), **{name: value for name, (_, value) in different.items()}))
        for name, (was, value) in different.items():
            LOG.error('Usage of node %s differed from its servers: %s was %s, is %s.',
                      node['node'], name, was, value)
            mended.append({'host': node['host'], 'node': node['node'], 'column': name, 'was': was, 'is': value})
    return mended + numa_claims.audit(conn)
