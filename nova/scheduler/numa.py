"""NUMA cells of many hosts as arrays: which hosts may take a guest, before one of them is looked at closely.

The mask lets through every host that ``hardware.fit`` would place the guest on, and few others; what it lets through
is fitted one by one, the best weighed first, until one takes the guest.
"""
import functools

import numpy as np

from nova.virt.hardware import fit

# of each cell; whatever is free counts what the ratios allow
FACTS = ('cpus', 'shared', 'memory', 'free_memory', 'pinnable', 'cores', 'threads')


class Cells:
    """
    :param topologies: HostTopology or None of each host, iterated once: they need not be in memory together
    :param limits: [fit.Limits], as many
    """

    def __init__(self, topologies, limits):
        self._length, self._width = len(limits), 0
        self._facts = {name: self._empty() for name in FACTS}
        self._pages = {}
        for position, (topology, limit) in enumerate(zip(topologies, limits)):
            self._write(position, topology, limit)

    def __len__(self):
        return self._length

    def changed(self, hosts):
        """Cells in which these hosts are others: {position: (HostTopology or None, fit.Limits)}."""
        twin = object.__new__(Cells)
        twin.__dict__.update(self.__dict__)
        positions = list(hosts)
        for name in ('_facts', '_pages'):
            arrays = {key: array.copy() for key, array in getattr(self, name).items()}
            for array in arrays.values():
                array[positions] = -1
            setattr(twin, name, arrays)
        for position, (topology, limits_) in hosts.items():
            twin._write(position, topology, limits_)
        return twin

    def mask(self, guest):
        """True for the hosts that may take the guest (GuestTopology, not yet placed)."""
        if not self._width:
            return np.zeros(self._length, dtype=bool)
        needs, some = {}, np.zeros((self._length, self._width), dtype=bool)
        for part in guest.cells:
            key = (len(part.shared), len(part.pcpuset), part.memory, part.pagesize)
            needs[key] = needs.get(key, 0) + 1
        found = np.ones(self._length, dtype=bool)
        for key, count in needs.items():
            able = self._able(key, guest.cpu_thread_policy)
            found &= able.sum(axis=1) >= count
            some |= able
        return found & (some.sum(axis=1) >= len(guest.cells))

    def _able(self, need, policy):
        """[host, cell]: whether the cell has what one cell of the guest needs."""
        shared, pinned, memory, pagesize = need
        facts = self._facts
        able = facts['cpus'] >= 0
        if shared:
            able &= (facts['cpus'] >= shared) & (facts['shared'] >= shared)
        if pinned:
            # the emulator's own CPU is left to the close look
            able &= facts['pinnable'] >= pinned
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

    def _empty(self):
        return np.full((self._length, self._width), -1, dtype=np.int64)

    def _widen(self, width):
        more = ((0, 0), (0, width - self._width))
        for arrays in (self._facts, self._pages):
            for key, array in arrays.items():
                arrays[key] = np.pad(array, more, constant_values=-1)
        self._width = width

    def _write(self, position, topology, limits):
        cells = topology.cells if topology else ()
        if len(cells) > self._width:
            self._widen(len(cells))
        for column, cell in enumerate(cells):
            for name, value in _facts(cell, limits).items():
                self._facts[name][position, column] = value
            smallest = min((pages.size_kb for pages in cell.mempages), default=0)
            for pages in cell.mempages:
                key = ('small' if pages.size_kb == smallest else 'large', pages.size_kb)
                if key not in self._pages:
                    self._pages[key] = self._empty()
                free = pages.free
                if key[0] == 'small':
                    free = min(free, fit.free_memory(cell) * 1024 // pages.size_kb)
                self._pages[key][position, column] = free


@functools.lru_cache
def _grouped(siblings):
    """The CPUs of cores with several threads: most hosts of a cloud are alike."""
    return frozenset().union(*siblings)


def _facts(cell, limits):
    pinnable = fit.free_pinnable(cell)
    free = cell.pinnable - cell.pinned_cpus if pinnable else frozenset()
    alone = len(free - _grouped(cell.siblings))
    whole = len(cell.siblings) if free == cell.cpus else sum(map(free.issuperset, cell.siblings))
    return {'cpus': len(cell.cpuset), 'shared': fit.free_cpus(cell, limits), 'memory': cell.memory,
            'free_memory': fit.free_memory(cell, limits), 'pinnable': pinnable,
            'cores': alone + whole, 'threads': len(free) - alone}


def limits(row):
    """The fit.Limits of a compute node's row."""
    return fit.Limits(cpu_ratio=row['cpu_allocation_ratio'], ram_ratio=row['ram_allocation_ratio'])


def placed(hosts, guest, devices=None, pack=False):
    """Look closely at hosts, one after another, until one takes the guest.

    :param hosts: (position, HostTopology or None, fit.Limits) of those that the masks let through, the best first
    :param devices: {position: (pools, requests)} where a guest asks for PCI devices
    :returns: (position, the placed GuestTopology, reasons) or (None, None, reasons), reasons being
              {position: what stands against it} of the hosts that were looked at in vain
    """
    reasons = {}
    for position, host, limits_ in hosts:
        found = fit.fit(host, guest, limits_, (devices or {}).get(position), pack)
        if found.topology is not None:
            return position, found.topology, reasons
        reasons[position] = found.reason
    return None, None, reasons
