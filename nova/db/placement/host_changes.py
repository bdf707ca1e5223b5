"""Queries with which schedulers update their host tables: copies of the rows of nodes and their compute services.

Statements are built only once, because a scheduler runs one of them for each request.
"""
import collections.abc
import datetime
import typing

import sqlalchemy as sa

from nova.db import statements
from nova.db.placement.server_groups import HostAggregate
from nova.db.tables.cell import compute_nodes
from nova.db.tables.cell import services
from nova.json_types import JsonObject

NODE_COLUMNS = ('id', 'host', 'node', 'change_number', 'vcpus', 'memory_mb', 'local_gb', 'reserved_memory_mb',
                'reserved_disk_gb', 'cpu_allocation_ratio', 'ram_allocation_ratio', 'disk_allocation_ratio',
                'vcpus_used', 'memory_mb_used', 'local_gb_used', 'running_vms', 'capabilities', 'hypervisor_type',
                'hypervisor_version', 'host_ip', 'cpu_info', 'supported_instances', 'traits', 'metrics',
                'failed_builds', 'pci_stats')
SERVICE_COLUMNS = ('availability_zone', 'disabled', 'forced_down', 'last_seen_at', 'aggregates')
# columns that claims write
USAGE = ('usage_change_number', 'vcpus_used', 'memory_mb_used', 'local_gb_used', 'running_vms')

CHUNK = 1000                 # maximum rows of one SELECT
MODULUS = 2 ** 31 - 1        # sums of remainders fit into 64 bits; sums of change numbers would not

_c = compute_nodes.c


def _since(*usage: sa.Column[typing.Any]) -> sa.CompoundSelect[typing.Any]:
    """Select (node, change_number, usage_change_number, *usage) of the nodes changed since a change number.

    A node may have two rows: with its usage if that has changed, and with NULL as usage if other columns have changed.
    """
    numbers = _c.id, _c.change_number, _c.usage_change_number
    return sa.union_all(
        sa.select(*numbers, *(sa.null().label(column.name) for column in usage)).where(
            _c.change_number >= sa.bindparam('since')),
        sa.select(*numbers, *usage).where(_c.usage_change_number >= sa.bindparam('since')))


def _sums(*columns: sa.Column[typing.Any]) -> sa.CompoundSelect[typing.Any]:
    """Select the count and sum of the values of each column in [since, until), to compare these instead of all rows."""
    return sa.union_all(*[sa.select(sa.func.count(), sa.func.sum(column % MODULUS)).where(
        column >= sa.bindparam('since'), column < sa.bindparam('until')) for column in columns])


# two forms: with the usage columns, or without them for callers that already know most rows
_WITH_USAGE, _NUMBERS_SINCE = _since(*[_c[name] for name in USAGE[1:]]), _since()
_NUMBERS = sa.select(_c.id, _c.change_number, _c.usage_change_number)
_SUMS = _sums(_c.change_number, _c.usage_change_number)
_USAGE = sa.select(_c.id, *[_c[name] for name in USAGE]).where(_c.id.in_(sa.bindparam('ids', expanding=True)))
_NODES = sa.select(*[_c[name] for name in dict.fromkeys([*NODE_COLUMNS, *USAGE])],
                   *[services.c[name] for name in SERVICE_COLUMNS]).select_from(
    compute_nodes.outerjoin(services, sa.and_(services.c.host == _c.host, services.c.topic == 'compute')))
_SOME_NODES = _NODES.where(_c.id.in_(sa.bindparam('ids', expanding=True)))
_SEEN = sa.select(services.c.id, services.c.host, services.c.last_seen_at).where(
    services.c.topic == 'compute', services.c.id > sa.bindparam('after')).order_by(services.c.id).limit(CHUNK)
_TOPOLOGIES = sa.select(*[_c[name] for name in ('id', 'host', 'node', 'numa_change_number', 'numa_topology',
                                                'cpu_allocation_ratio', 'ram_allocation_ratio')])
_SOME_TOPOLOGIES = _TOPOLOGIES.where(_c.id.in_(sa.bindparam('ids', expanding=True)))
_TOPOLOGY_NUMBERS = sa.select(_c.id, _c.numa_change_number).where(_c.numa_change_number >= sa.bindparam('since'))

Ids = collections.abc.Iterable[int]
Used = int | None


Metric = typing.TypedDict('Metric', {'name': str, 'value': float})
Ratios = typing.TypedDict('Ratios', {'cpu_allocation_ratio': float, 'ram_allocation_ratio': float})
Topology = typing.TypedDict('Topology', {
    'id': int, 'host': str, 'node': str, 'numa_change_number': int | None, 'numa_topology': str | None,
    'cpu_allocation_ratio': float, 'ram_allocation_ratio': float})
# NODE_COLUMNS, USAGE and SERVICE_COLUMNS (None if the host has no compute service). The host table adds ``cell``
# (uuid of the cell) and ``io_ops``, an estimate of the number of servers in I/O-intensive tasks.
Node = typing.TypedDict('Node', {
    'id': int, 'host': str, 'node': str, 'cell': str, 'io_ops': int, 'change_number': int, 'usage_change_number': int,
    'vcpus': int, 'memory_mb': int, 'local_gb': int, 'reserved_memory_mb': int, 'reserved_disk_gb': int,
    'cpu_allocation_ratio': float, 'ram_allocation_ratio': float, 'disk_allocation_ratio': float, 'vcpus_used': int,
    'memory_mb_used': int, 'local_gb_used': int, 'running_vms': int, 'capabilities': JsonObject | None,
    'hypervisor_type': str, 'hypervisor_version': int, 'host_ip': str | None, 'cpu_info': JsonObject,
    'supported_instances': list[list[str]], 'traits': list[str], 'metrics': list[Metric] | None, 'failed_builds': int,
    'pci_stats': list[JsonObject] | None, 'availability_zone': str | None, 'disabled': bool | None,
    'forced_down': bool | None, 'last_seen_at': datetime.datetime | None, 'aggregates': list[HostAggregate] | None})


def nodes(conn: sa.Connection, ids: Ids | None = None) -> collections.abc.Iterator[Node]:
    """Yield the rows of these nodes, or of all nodes."""
    if ids is None:
        yield from statements.dicts(conn.execute(_NODES))
        return
    for part in _chunks(ids):
        yield from statements.dicts(conn.execute(_SOME_NODES, {'ids': part}))


def usage(conn: sa.Connection, ids: Ids) -> collections.abc.Iterator[dict[str, int]]:
    """Yield rows of ``id`` and USAGE of these nodes."""
    for part in _chunks(ids):
        yield from statements.dicts(conn.execute(_USAGE, {'ids': part}))


def numbers(conn: sa.Connection, since: int | None = None) -> collections.abc.Sequence[tuple[int, int, int]]:
    """Return (node, change_number, usage_change_number) of all nodes, or of nodes changed since number ``since``."""
    statement = _NUMBERS if since is None else _NUMBERS_SINCE
    return conn.execute(statement, {} if since is None else {'since': since}).all()


def numbers_and_usage(conn: sa.Connection,
                      since: int) -> collections.abc.Sequence[tuple[int, int, int, Used, Used, Used, Used]]:
    """Return the rows of ``numbers`` with the other columns of USAGE, which are None in some rows; see _since."""
    return conn.execute(_WITH_USAGE, {'since': since}).all()


def number_sums(conn: sa.Connection, since: int, until: int) -> list[tuple[int, int]]:
    """Return (count, sum of the remainders modulo MODULUS) of each of the two change numbers in [since, until)."""
    return [(count, int(total or 0)) for count, total in conn.execute(_SUMS, {'since': since, 'until': until})]


def heartbeats(conn: sa.Connection, after: int) -> collections.abc.Sequence[tuple[int, str, datetime.datetime]]:
    """Return (id of the service, host, last heartbeat) of up to CHUNK compute services, by id.

    :param after: id of the last service of the previous chunk
    """
    return conn.execute(_SEEN, {'after': after}).all()


def topologies(conn: sa.Connection, ids: Ids | None = None) -> list[Topology]:
    """Return the topologies of these nodes, or of all."""
    if ids is None:
        return statements.dicts(conn.execute(_TOPOLOGIES))
    return [row for part in _chunks(ids) for row in statements.dicts(conn.execute(_SOME_TOPOLOGIES, {'ids': part}))]


def topology_numbers(conn: sa.Connection, since: int) -> collections.abc.Sequence[tuple[int, int]]:
    """Return (node, numa_change_number) of the nodes with a numa_change_number of at least ``since``."""
    return conn.execute(_TOPOLOGY_NUMBERS, {'since': since}).all()


def _chunks(ids: Ids) -> collections.abc.Iterator[list[int]]:
    ordered = sorted(ids)
    return (ordered[begin:begin + CHUNK] for begin in range(0, len(ordered), CHUNK))
