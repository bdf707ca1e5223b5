"""The hosts at one moment: a struct of arrays, one entry a compute node."""
from __future__ import annotations

import collections
import collections.abc
import datetime
import types
import typing

import numpy as np

from nova.objects import numa as topologies
from nova.scheduler.resources import pci

if typing.TYPE_CHECKING:
    from nova.scheduler import groups
    from nova.scheduler import pipeline

Row = collections.abc.Mapping[str, typing.Any]
T = typing.TypeVar('T')

RESOURCES = ('vcpus', 'memory_mb', 'local_gb')
# what changes often, and of single hosts, besides the usage of RESOURCES; io_ops is no column: see hosts.HostTable
COUNTERS = ('running_vms', 'io_ops', 'failed_builds')
# columns that a view takes over without forgetting what it has remembered
USAGE = frozenset(('changed', 'used_changed', 'last_seen_at', 'metrics', 'pci_stats', *COUNTERS,
                   *(name + '_used' for name in RESOURCES)))
REMEMBERED = 512             # masks and tables that a view keeps of what is needed again and again


class Hosts:
    """A moment's view: arrays of equal length. Choosing changes ``used`` of its own copy only.

    ids, host, node, zone   who and where (arrays of objects, ids of integers)
    enabled, forced_down    of the host's service; seen: its last heartbeat (numpy datetime64, NaT for none)
    total, capacity, used   {resource: array}; resources are vcpus, memory_mb and local_gb
    running_vms             servers on the node
    io_ops                  servers on the node in a task that keeps its disks and network busy
    failed_builds           builds that have failed on the node since the last that succeeded
    metrics                 {name: value} that its monitors measured, or None
    numa                    {position: HostTopology} of hosts of whose cells servers of the same request have taken, or
                            a server is thought to have given back
    everything              True for each; a filter's mask that is this object removes nothing
    request                 the pipeline.Request that is placed; placed: positions of its servers that have a place
    pci                     the free PCI devices of the nodes, a scheduler.pci.Free
    group, members          the scheduler.groups.Group that is placed, and how many of it are on each host
    """

    request: pipeline.Request | None = None
    group: groups.Group | None = None
    members: np.ndarray | None = None
    placed: tuple[int, ...] = ()
    numa: collections.abc.Mapping[int, topologies.HostTopology | None] = types.MappingProxyType({})

    def __init__(self, rows: collections.abc.Sequence[Row]) -> None:
        def column(name: str, dtype: typing.Any = object) -> np.ndarray:
            array = np.empty(len(rows), dtype=dtype)
            array[:] = [row[name] for row in rows]
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
        self.pci = pci.Free([row.get('pci_stats') for row in rows])
        self.everything = np.ones(len(rows), dtype=bool)
        self.everything.flags.writeable = False
        self._remembered: dict[collections.abc.Hashable, typing.Any] = {}
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
        """What one more server could get on each: what is left of the capacity, at most what the node has."""
        found = self._free.get(resource)
        if found is None:
            found = self._free[resource] = np.minimum(self.left(resource), self.total[resource])
        return found

    def left(self, resource: str) -> np.ndarray:
        """What is left of the capacity on each; negative where it has shrunk below what is used."""
        found = self._left.get(resource)
        if found is None:
            found = self._left[resource] = self.capacity[resource] - self.used[resource]
        return found

    def copy(self) -> Hosts:
        """A view whose usage may be changed."""
        twin = object.__new__(Hosts)
        twin.__dict__.update(self.__dict__)
        twin.used = {name: array.copy() for name, array in self.used.items()}
        twin._free, twin._left = {}, {}
        twin.running_vms, twin.io_ops, twin.failed_builds = (
            self.running_vms.copy(), self.io_ops.copy(), self.failed_builds.copy())
        return twin

    def of(self, request: pipeline.Request) -> Hosts:
        """The same view for one request; its arrays are those of this one."""
        twin = object.__new__(Hosts)
        twin.__dict__.update(self.__dict__)
        twin.request, twin.group, twin.members = request, request.group, None
        if request.group is not None:
            twin.members = np.zeros(len(self), dtype=np.int64)
            for host, number in request.group.members.items():
                twin.members[self.positions(host)] = number
        return twin

    def with_usage(self, rows: collections.abc.Mapping[int, Row]) -> Hosts:
        """A view in which these rows, of hosts that it has, have other usage: {position: row}."""
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
            twin.used[name][positions] = [row[name + '_used'] for row in found]
        for name in COUNTERS:
            getattr(twin, name)[positions] = [row.get(name) or 0 for row in found]
        return twin

    def with_rows(self, rows: collections.abc.Mapping[int, Row]) -> Hosts:
        """A view in which these rows, of hosts that it has, are others in whatever column: {position: row}."""
        twin, part, positions = self.with_usage(rows), Hosts(list(rows.values())), list(rows)
        for name, found in vars(part).items():
            if name == 'everything' or name.startswith('_'):
                continue
            if isinstance(found, np.ndarray):
                setattr(twin, name, _written(getattr(twin, name), positions, found))
            elif name in ('total', 'capacity', 'used'):
                setattr(twin, name, {key: _written(array, positions, found[key])
                                     for key, array in getattr(twin, name).items()})
        twin._remembered = {}
        return twin

    def with_seen(self, moments: dict[int, datetime.datetime | None]) -> Hosts:
        """A view in which these hosts' heartbeats are others: {position: moment}."""
        twin = object.__new__(Hosts)
        twin.__dict__.update(self.__dict__)
        twin.seen = _written(self.seen, list(moments), np.array(list(moments.values()), dtype='datetime64[us]'))
        return twin

    def consume(self, position: int, resources: dict[str, int]) -> None:
        """Let a server have this much of a host."""
        for name in RESOURCES:
            self.used[name][position] += resources[name]
            if name in self._left:
                self._left[name][position] = self.capacity[name][position] - self.used[name][position]
            if name in self._free:
                self._free[name][position] = min(self.left(name)[position], self.total[name][position])
        self.running_vms[position] += 1
        self.io_ops[position] += 1
        self.placed = (*self.placed, int(position))
        if self.group is not None:
            self.members = self.members + (self.host == self.host[position])

    # ---- what depends on no usage: found out once, for this view and those that differ from it in usage alone --------

    def once(self, key: collections.abc.Hashable, make: collections.abc.Callable[[], T]) -> T:
        """What ``make()`` gave for this key; it must not look at usage, counters or metrics, and may not be changed."""
        found = self._remembered.get(key)
        if found is None:
            found = make()
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = found
        return found

    def values(self, name: str) -> np.ndarray:
        """A column as an array of objects."""
        def make() -> np.ndarray:
            array = np.empty(len(self.rows), dtype=object)
            array[:] = [row.get(name) for row in self.rows]
            return array
        return self.once(('values', name), make)

    def distinct(self, name: str) -> tuple[list[typing.Any], np.ndarray]:
        """(distinct values of a column, for each host its position among them).

        Documents of the type db.types.Shared are one object when they are equal, and are compared by identity.
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
        return self.once(('distinct', name), make)

    def each(self, name: str, judge: collections.abc.Callable[[typing.Any], typing.Any]) -> np.ndarray:
        """An array of booleans, ``judge(value)`` of a column; called once for each distinct value."""
        values, codes = self.distinct(name)
        return np.array([bool(judge(value)) for value in values], dtype=bool)[codes]

    def numbers(self, name: str) -> np.ndarray:
        """A column of integers, 0 for none."""
        return self.once(('numbers', name), lambda: np.array([row.get(name) or 0 for row in self.rows], dtype=np.int64))

    def positions(self, host: str) -> list[int]:
        """Positions of the nodes of a host, [] for one that is not known."""
        def make() -> dict[str, list[int]]:
            found = collections.defaultdict(list)
            for position, row in enumerate(self.rows):
                found[row['host']].append(position)
            return dict(found)
        return self.once('positions', make).get(host, [])

    def on(self, names: collections.abc.Iterable[str]) -> np.ndarray:
        """True for the nodes of these hosts."""
        mask = np.zeros(len(self.rows), dtype=bool)
        for name in names:
            mask[self.positions(name)] = True
        return mask

    @property
    def aggregates(self) -> np.ndarray:
        """Of each node's host: [{'id', 'uuid', 'name', 'metadata'}]."""
        def make() -> np.ndarray:
            array = np.empty(len(self.rows), dtype=object)
            array[:] = [row.get('aggregates') or [] for row in self.rows]
            return array
        return self.once('aggregates', make)

    @property
    def aggregate_sets(self) -> list[dict[str, frozenset[str]]]:
        """[{key: frozenset of the values}] of the metadata of all aggregates of a host, each distinct one once."""
        return self._merged()[0]

    @property
    def aggregate_set(self) -> np.ndarray:
        """For each node its position in ``aggregate_sets``."""
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
        return self.once('aggregate_sets', make)

    def by_aggregates(self, judge: collections.abc.Callable[[dict[str, frozenset[str]]], typing.Any]) -> np.ndarray:
        """An array of what ``judge({key: frozenset of values})`` gives; called once for each of ``aggregate_sets``."""
        return np.array([judge(merged) for merged in self.aggregate_sets])[self.aggregate_set]


def _written(array: np.ndarray, positions: list[int], values: np.ndarray) -> np.ndarray:
    array = array.copy()
    array[positions] = values
    return array


def _metrics(row: Row) -> dict[str, float] | None:
    listed = row.get('metrics')
    return {each['name']: each['value'] for each in listed} if listed else None
