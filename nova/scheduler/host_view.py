"""The hosts at one moment: a struct of arrays with an entry for each compute node."""
from __future__ import annotations

import collections
import collections.abc
import datetime
import operator
import types
import typing

import numpy as np

from nova.db.placement import host_changes
from nova.objects import numa as topologies
from nova.scheduler.resources import pci_table

if typing.TYPE_CHECKING:
    import numpy.typing as npt

Row = host_changes.Node
T = typing.TypeVar('T')

RESOURCES = ('vcpus', 'memory_mb', 'local_gb')
# columns that change often, but in few rows at a time, as the usage of RESOURCES does; HostTable computes io_ops
COUNTERS = ('running_vms', 'io_ops', 'failed_builds')
# columns that can change without making the cache of a view invalid
USAGE = frozenset(('change_number', 'usage_change_number', 'last_seen_at', 'metrics', 'pci_stats', *COUNTERS,
                   *(name + '_used' for name in RESOURCES)))
MAX_CACHED = 512  # maximum number of cached masks and tables of a view


class Hosts:
    """A view of the hosts at one moment: arrays of equal length.

    Scheduling a request changes the usage in a copy, never in a shared view.

    ids, host, node, zone   identity of the node (arrays of objects, ids of integers)
    enabled, forced_down    state of the host's service
    seen                    last heartbeat of the service (numpy datetime64, NaT for none)
    total, capacity, used   {resource: array} for the resources vcpus, memory_mb and local_gb
    running_vms             servers on the node
    io_ops                  servers on the node in a task with high disk and network load
    failed_builds           failed builds on the node since the last success
    metrics                 {name: value} from the monitors of the host, or None
    numa                    {position: HostTopology} that replaces the topology in the host's row during this request:
                            it includes servers that the request has placed, and excludes the present usage of
                            a server that the request places again
    all_pass                array of True; a filter that returns this object removes no host
    placed                  positions of the hosts chosen for servers of the request so far
    pci                     free PCI devices of the nodes
    policies, members       policies of the request's server group, and the number of its members on each host
    """

    policies: frozenset[str] = frozenset()
    members: np.ndarray | None = None
    placed: tuple[int, ...] = ()
    numa: collections.abc.Mapping[int, topologies.HostTopology | None] = types.MappingProxyType({})

    def __init__(self, rows: collections.abc.Sequence[Row]) -> None:
        def column(name: str, dtype: npt.DTypeLike = object) -> np.ndarray:
            array = np.empty(len(rows), dtype=dtype)
            array[:] = list(map(operator.itemgetter(name), rows))
            return array
        self.rows = rows
        self.ids = column('id', np.int64)
        self.host, self.node = column('host'), column('node')
        self.zone = column('availability_zone')
        self.enabled = np.array([row['disabled'] is not None and not row['disabled'] for row in rows], dtype=bool)
        self.forced_down = np.array([bool(row['forced_down']) for row in rows], dtype=bool)
        self.seen = column('last_seen_at', 'datetime64[us]')
        self.running_vms, self.io_ops, self.failed_builds = (
            np.array([row.get(name) or 0 for row in rows], dtype=np.int64) for name in COUNTERS)
        self.metrics = np.empty(len(rows), dtype=object)
        self.metrics[:] = [_metrics(row) for row in rows]
        self.pci = pci_table.FreeDevices([row.get('pci_stats') for row in rows])
        self.all_pass = np.ones(len(rows), dtype=bool)
        self.all_pass.flags.writeable = False
        self._cache: dict[collections.abc.Hashable, typing.Any] = {}
        self.total = {name: column(name, np.int64) for name in RESOURCES}
        self.capacity = {
            'vcpus': self.total['vcpus'] * column('cpu_allocation_ratio', float),
            'memory_mb': ((self.total['memory_mb'] - column('reserved_memory_mb', np.int64))
                          * column('ram_allocation_ratio', float)),
            'local_gb': ((self.total['local_gb'] - column('reserved_disk_gb', np.int64))
                         * column('disk_allocation_ratio', float))}
        self.used = {name: column(name + '_used', np.int64) for name in RESOURCES}
        self._free: dict[str, np.ndarray] = {}
        self._left: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def free(self, resource: str) -> np.ndarray:
        """Return the amount that one more server can use on each host: unused capacity, but at most the total."""
        found = self._free.get(resource)
        if found is None:
            found = self._free[resource] = np.minimum(self.left(resource), self.total[resource])
        return found

    def left(self, resource: str) -> np.ndarray:
        """Return the unused capacity of each host; negative if the capacity has shrunk below the usage."""
        found = self._left.get(resource)
        if found is None:
            found = self._left[resource] = self.capacity[resource] - self.used[resource]
        return found

    def copy(self) -> Hosts:
        """Return a copy with separate usage arrays."""
        twin = object.__new__(Hosts)
        twin.__dict__.update(self.__dict__)
        twin.used = {name: array.copy() for name, array in self.used.items()}
        twin._free, twin._left = {}, {}
        twin.running_vms, twin.io_ops, twin.failed_builds = (
            self.running_vms.copy(), self.io_ops.copy(), self.failed_builds.copy())
        return twin

    def with_usage(self, rows: collections.abc.Mapping[int, Row]) -> Hosts:
        """Return a view with the usage from these rows, {position: row}."""
        twin = self.copy()
        twin.rows, twin.metrics = list(self.rows), self.metrics.copy()
        devices = {position: row.get('pci_stats') for position, row in rows.items()
                   if row.get('pci_stats') is not self.rows[position].get('pci_stats')}
        if devices:
            twin.pci = self.pci.changed(devices)
        positions, found = list(rows), list(rows.values())
        for position, row in rows.items():
            twin.rows[position] = row
            if row.get('metrics') is not None or twin.metrics[position] is not None:
                twin.metrics[position] = _metrics(row)
        for name in RESOURCES:
            twin.used[name][positions] = list(map(operator.itemgetter(name + '_used'), found))
        for name in COUNTERS:
            getattr(twin, name)[positions] = [row.get(name) or 0 for row in found]
        return twin

    def with_rows(self, rows: collections.abc.Mapping[int, Row]) -> Hosts:
        """Return a view in which the hosts at these positions have the values of ``rows``, {position: row}."""
        twin, part, positions = self.with_usage(rows), Hosts(list(rows.values())), list(rows)
        for name, found in vars(part).items():
            if name == 'all_pass' or name.startswith('_'):
                continue
            if isinstance(found, np.ndarray):
                setattr(twin, name, _written(getattr(twin, name), positions, found))
            elif name in ('total', 'capacity', 'used'):
                setattr(twin, name, {key: _written(array, positions, found[key])
                                     for key, array in getattr(twin, name).items()})
        twin._cache = {}
        return twin

    def with_seen(self, moments: dict[int, datetime.datetime | None]) -> Hosts:
        """Return a view with these heartbeats: {position: moment}."""
        twin = object.__new__(Hosts)
        twin.__dict__.update(self.__dict__)
        twin.seen = _written(self.seen, list(moments), np.array(list(moments.values()), dtype='datetime64[us]'))
        return twin

    def consume(self, position: int, resources: dict[str, int]) -> None:
        """Add a server's resources to the usage of a host."""
        for name in RESOURCES:
            self.used[name][position] += resources[name]
            if name in self._left:
                self._left[name][position] = self.capacity[name][position] - self.used[name][position]
            if name in self._free:
                self._free[name][position] = min(self.left(name)[position], self.total[name][position])
        self.running_vms[position] += 1
        self.io_ops[position] += 1
        self.placed = (*self.placed, int(position))
        if self.members is not None:
            self.members = self.members + (self.host == self.host[position])

    # ---- cached values: independent of usage, shared with all views that differ only in usage ------------------------

    def cached(self, key: collections.abc.Hashable, make: collections.abc.Callable[[], T]) -> T:
        """Return the cached result of ``make()`` for a key. The result must be read-only and independent of usage,
        counters and metrics.
        """
        found = self._cache.get(key)
        if found is None:
            found = make()
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[key] = found
        return found

    def values(self, name: str) -> np.ndarray:
        """Return a column as an array of objects."""
        def make() -> np.ndarray:
            array = np.empty(len(self.rows), dtype=object)
            array[:] = [row.get(name) for row in self.rows]
            return array
        return self.cached(('values', name), make)

    def distinct(self, name: str) -> tuple[list[typing.Any], np.ndarray]:
        """Return (distinct values of a column, index into these values for each host).

        Documents of the type db.types.Shared are compared by identity, because equal documents are one object.
        """
        def make() -> tuple[list[typing.Any], np.ndarray]:
            numbers: dict[str | int, int] = {}
            found: list[typing.Any] = []
            codes = np.empty(len(self.rows), dtype=np.int64)
            for position, row in enumerate(self.rows):
                value = row.get(name)
                key = value if isinstance(value, (str, int)) else id(value)
                number = numbers.get(key)
                if number is None:
                    number = numbers[key] = len(found)
                    found.append(value)
                codes[position] = number
            return found, codes
        return self.cached(('distinct', name), make)

    def match_column(self, name: str, judge: collections.abc.Callable[[typing.Any], typing.Any]) -> np.ndarray:
        """Return a mask of ``judge(value)`` for a column; ``judge`` is called once for each distinct value."""
        values, codes = self.distinct(name)
        return np.array([bool(judge(value)) for value in values], dtype=bool)[codes]

    def numbers(self, name: str) -> np.ndarray:
        """Return a column of integers, in which 0 replaces None."""
        return self.cached(('numbers', name),
                           lambda: np.array([row.get(name) or 0 for row in self.rows], dtype=np.int64))

    def positions(self, host: str) -> list[int]:
        """Return the positions of the nodes of a host, [] for an unknown host."""
        def make() -> dict[str, list[int]]:
            found = collections.defaultdict(list)
            for position, row in enumerate(self.rows):
                found[row['host']].append(position)
            return dict(found)
        return self.cached('positions', make).get(host, [])

    def on_hosts(self, names: collections.abc.Iterable[str]) -> np.ndarray:
        """Return a mask of the nodes of these hosts."""
        mask = np.zeros(len(self.rows), dtype=bool)
        for name in names:
            mask[self.positions(name)] = True
        return mask

    @property
    def aggregates(self) -> np.ndarray:
        """The aggregates of each node's host: [{'id', 'uuid', 'name', 'metadata'}]."""
        def make() -> np.ndarray:
            array = np.empty(len(self.rows), dtype=object)
            array[:] = [row.get('aggregates') or [] for row in self.rows]
            return array
        return self.cached('aggregates', make)

    @property
    def aggregate_sets(self) -> list[dict[str, frozenset[str]]]:
        """Distinct values of a host's merged aggregate metadata: [{key: frozenset of the values}]."""
        return self._merged()[0]

    @property
    def aggregate_set(self) -> np.ndarray:
        """Index in ``aggregate_sets`` of each node's metadata."""
        return self._merged()[1]

    def _merged(self) -> tuple[list[dict[str, frozenset[str]]], np.ndarray]:
        def make() -> tuple[list[dict[str, frozenset[str]]], np.ndarray]:
            lists, codes = self.distinct('aggregates')
            numbers: dict[frozenset[tuple[str, frozenset[str]]], int] = {}
            found: list[dict[str, frozenset[str]]] = []
            of_list: list[int] = []
            for listed in lists:
                values_of: dict[str, set[str]] = {}
                for aggregate in listed or ():
                    for key, value in aggregate['metadata'].items():
                        values_of.setdefault(key, set()).add(value)
                merged = {key: frozenset(values) for key, values in values_of.items()}
                same = frozenset(merged.items())
                if same not in numbers:
                    numbers[same] = len(found)
                    found.append(merged)
                of_list.append(numbers[same])
            return found, np.array(of_list, dtype=np.int64)[codes]
        return self.cached('aggregate_sets', make)

    def by_aggregates(self, judge: collections.abc.Callable[[dict[str, frozenset[str]]], bool]) -> np.ndarray:
        """Return a mask of the hosts for which ``judge({key: frozenset of values})`` is true; ``judge`` is called once
        for each of ``aggregate_sets``.
        """
        return np.array([judge(merged) for merged in self.aggregate_sets], dtype=bool)[self.aggregate_set]


def _written(array: np.ndarray, positions: list[int], values: np.ndarray) -> np.ndarray:
    array = array.copy()
    array[positions] = values
    return array


def _metrics(row: Row) -> dict[str, float] | None:
    listed = row.get('metrics')
    return {each['name']: each['value'] for each in listed} if listed else None
