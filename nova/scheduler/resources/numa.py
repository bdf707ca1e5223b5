"""NUMA cells of many hosts as arrays, to find quickly the hosts that may have room for a guest's NUMA topology.

The mask contains every host on which ``hardware.fit`` can place the guest, and few other hosts. The claim then calls
``hardware.fit`` for these hosts, in order of weight, until one of them has room.
"""
from __future__ import annotations

import collections.abc
import functools

import numpy as np

from nova.db.placement import host_changes
from nova.hardware import fit
from nova.objects import numa

# topology of a host: an object or the text of the database; None if the host has no NUMA topology
Topology = numa.HostTopology | str | None
Need = tuple[int, int, int, int | str | None]    # requested by a guest cell: shared CPUs, pinned CPUs, MiB, page size
Pages = tuple[tuple[tuple[str, int], int], ...]              # ((kind, size in KiB), number of free pages), …

FACTS = ('cpus', 'shared', 'memory', 'free_memory', 'pinnable', 'cores', 'threads', 'apart')



def _without(array: np.ndarray, positions: list[int]) -> np.ndarray:
    """Return a copy of an array in which the hosts at these positions have the value -1 (no value)."""
    copied = array.copy()
    copied[positions] = -1
    return copied


class Cells:
    """NUMA cells of many hosts.

    :param topologies: Topology of each host
    :param limits: fit.Overcommit of each host
    """

    def __init__(self, topologies: collections.abc.Iterable[Topology], limits: collections.abc.Sequence[fit.Overcommit]
                 ) -> None:
        self._length, self._width = len(limits), 0
        self._facts = {name: self._empty() for name in FACTS}
        self._pages: dict[tuple[str, int], np.ndarray] = {}
        self._write(range(self._length), zip(topologies, limits))

    def __len__(self) -> int:
        return self._length

    def changed(self, hosts: dict[int, tuple[Topology, fit.Overcommit]]) -> Cells:
        """Return Cells with new data of some hosts: {position: (topology, fit.Overcommit)}."""
        twin = object.__new__(Cells)
        twin.__dict__.update(self.__dict__)
        positions = list(hosts)
        twin._facts = {key: _without(array, positions) for key, array in self._facts.items()}
        twin._pages = {key: _without(array, positions) for key, array in self._pages.items()}
        twin._write(positions, hosts.values())
        return twin

    def mask(self, guest: numa.GuestTopology) -> np.ndarray:
        """Return a mask of the hosts that may have room for the guest, which is not pinned yet."""
        if not self._width:
            return np.zeros(self._length, dtype=bool)
        needs: dict[Need, int] = {}
        some = np.zeros((self._length, self._width), dtype=bool)
        for part in guest.cells:
            key = (len(part.shared), len(part.pcpuset), part.memory, part.pagesize)
            needs[key] = needs.get(key, 0) + 1
        found = np.ones(self._length, dtype=bool)
        for key, count in needs.items():
            able = self._able(key, guest.cpu_thread_policy)
            found &= able.sum(axis=1) >= count
            some |= able
        return found & (some.sum(axis=1) >= len(guest.cells))

    def _able(self, need: Need, policy: str | None) -> np.ndarray:
        """Return a mask [host, cell] of the host cells with enough resources for one guest cell."""
        shared, pinned, memory, pagesize = need
        facts = self._facts
        able = facts['cpus'] >= 0
        if shared:
            able &= (facts['cpus'] >= shared) & (facts['shared'] >= shared)
        if pinned:
            # hardware.fit, not this mask, checks the CPU for emulator threads
            able &= facts['pinnable'] >= pinned
            if shared:
                # only a host cell with separate CPUs for pinning has both kinds of CPUs
                able &= facts['apart'] > 0
            if policy == 'isolate':
                able &= facts['cores'] >= pinned
            elif policy == 'require':
                able &= facts['threads'] >= pinned
        if pagesize is None:
            return able & (facts['memory'] >= memory) & (facts['free_memory'] >= memory)
        enough = np.zeros_like(able)
        for (kind, size), free in self._pages.items():
            if pagesize in ('any', kind, size) and not memory * 1024 % size:
                enough |= free >= memory * 1024 // size
        return able & enough

    def _empty(self) -> np.ndarray:
        return np.full((self._length, self._width), -1, dtype=np.int64)

    def _widen(self, width: int) -> None:
        more = ((0, 0), (0, width - self._width))
        self._facts = {key: np.pad(array, more, constant_values=-1) for key, array in self._facts.items()}
        self._pages = {key: np.pad(array, more, constant_values=-1) for key, array in self._pages.items()}
        self._width = width

    def _write(self, positions: collections.abc.Iterable[int],
               hosts: collections.abc.Iterable[tuple[Topology, fit.Overcommit]]) -> None:
        """Write the data of hosts at positions where the arrays contain only -1.

        :param hosts: (topology, limits) for each position
        """
        rows, columns, facts = [], [], []
        paged: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
        for position, (topology, limits_) in zip(positions, hosts):
            for column, (values, pages) in enumerate(_entry(topology, limits_)):
                rows.append(position)
                columns.append(column)
                facts.append(values)
                for key, free in pages:
                    paged.setdefault(key, []).append((position, column, free))
        if not rows:
            return
        if max(columns) >= self._width:
            self._widen(max(columns) + 1)
        table = np.array(facts, dtype=np.int64)
        for number, name in enumerate(FACTS):
            self._facts[name][rows, columns] = table[:, number]
        for kind, found in paged.items():
            if kind not in self._pages:
                self._pages[kind] = self._empty()
            at, cells, free = np.array(found, dtype=np.int64).T
            self._pages[kind][at, cells] = free


def _entry(topology: Topology, limits: fit.Overcommit) -> collections.abc.Sequence[tuple[tuple[int, ...], Pages]]:
    """Return ((values of FACTS, Pages), …) of the cells of a host."""
    if topology is None:
        return ()
    if isinstance(topology, str):
        return [_of_text(text, limits) for text in numa.cell_texts(topology)]
    return [_of_cell(cell, limits) for cell in topology.cells]


def _of_cell(cell: numa.HostCell, limits: fit.Overcommit) -> tuple[tuple[int, ...], Pages]:
    smallest = min((pages.size_kb for pages in cell.mempages), default=0)
    pages = []
    for each in cell.mempages:
        free, kind = each.free, 'large'
        if each.size_kb == smallest:
            free, kind = min(free, fit.free_memory(cell) * 1024 // each.size_kb), 'small'
        pages.append(((kind, each.size_kb), free))
    return _facts(cell, limits), tuple(pages)


@functools.lru_cache(maxsize=1 << 15)
def _of_text(text: str, limits: fit.Overcommit) -> tuple[tuple[int, ...], Pages]:
    """Return (values of FACTS, Pages) of a cell, cached because many cells have equal hardware and usage."""
    return _of_cell(numa.load_cell(text), limits)


@functools.lru_cache
def _grouped(siblings: tuple[frozenset[int], ...]) -> frozenset[int]:
    """Return the CPUs of all cores with several threads, cached because most hosts have equal hardware."""
    return frozenset().union(*siblings)


def _facts(cell: numa.HostCell, limits: fit.Overcommit) -> tuple[int, ...]:
    """Return the values of a cell in the order of FACTS."""
    pinnable = fit.free_pinnable(cell)
    free = cell.pinnable - cell.pinned_cpus if pinnable else frozenset()
    alone = len(free - _grouped(cell.siblings))
    whole = len(cell.siblings) if free == cell.cpus else sum(map(free.issuperset, cell.siblings))
    return (len(cell.cpuset), fit.free_cpus(cell, limits), cell.memory, fit.free_memory(cell, limits), pinnable,
            alone + whole, len(free) - alone, int(cell.pcpuset is not None))


def limits(row: host_changes.Ratios) -> fit.Overcommit:
    return fit.Overcommit(cpu_ratio=row['cpu_allocation_ratio'], ram_ratio=row['ram_allocation_ratio'])
