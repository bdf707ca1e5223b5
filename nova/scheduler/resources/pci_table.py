"""Table of free PCI devices on many hosts, grouped into pools (compute_nodes.pci_stats)."""
from __future__ import annotations

import collections.abc
import functools
import threading
import typing

import numpy as np

from nova.hardware import pci_pools
from nova.objects import pci

Stats = list[dict[str, typing.Any]] | None               # compute_nodes.pci_stats
Requests = collections.abc.Sequence[pci.Request]

KINDS_PER_HOST = 4                 # maximum number of cached distinct pci_stats, as a multiple of the number of hosts


class FreeDevices:
    """Free devices of many hosts. Requests are compared once with each distinct pci_stats, not with each host.

    :param stats: pci_stats of each host. Equal values should be one object (db.types.Shared)
    """

    def __init__(self, stats: collections.abc.Iterable[Stats]) -> None:
        self._known = _PoolKinds()
        self._codes = np.array([self._known.number(each) for each in stats], dtype=np.int64)
        self._counts = np.array([each.count for each in self._known.pools], dtype=np.int64)[self._codes]
        self._own: dict[int, _Pools] = {}

    @property
    def counts(self) -> np.ndarray | None:
        """Number of free devices of each host, or None if no host has free devices."""
        return self._counts if self._counts.any() else None

    def mask(self, requests: Requests) -> np.ndarray:
        """Return a mask of the hosts with enough free devices for all requests."""
        hosts_of_kinds = np.bincount(self._codes)
        kinds = np.zeros(len(hosts_of_kinds), dtype=np.bool_)
        for number in np.flatnonzero(hosts_of_kinds):
            kinds[number] = self._known.pools[number].have(requests)
        found = kinds[self._codes]
        for position, each in self._own.items():
            found[position] = each.have(requests)
        return found

    def pools(self, position: int) -> list[pci.Pool]:
        """Return [pci.Pool] of one host."""
        return self._of(position).pools

    def _of(self, position: int) -> _Pools:
        return self._own.get(position) or self._known.pools[self._codes[position]]

    def changed(self, stats: dict[int, Stats]) -> FreeDevices:
        """Return FreeDevices with new pci_stats of some hosts: {position: pci_stats}."""
        if len(self._known.pools) > KINDS_PER_HOST * (len(self._codes) + 1):       # remove unused pci_stats
            listed = [self._of(position).stats for position in range(len(self._codes))]
            return FreeDevices([stats.get(position, each) for position, each in enumerate(listed)])
        twin = self._twin()
        twin._codes = self._codes.copy()
        for position, each in stats.items():
            twin._codes[position] = number = self._known.number(each)
            twin._counts[position] = self._known.pools[number].count
            twin._own.pop(position, None)
        return twin

    def without(self, position: int, requests: Requests) -> FreeDevices:
        """Remove the requested devices of one host: return new FreeDevices, or self if the host lacks some devices."""
        position = int(position)
        left = pci_pools.taken(self.pools(position), requests)
        if left is None:
            return self
        twin = self._twin()
        twin._own[position] = own = _Pools(pci.dump(left))
        twin._counts[position] = own.count
        return twin

    def _twin(self) -> FreeDevices:
        twin = object.__new__(FreeDevices)
        twin._known, twin._codes = self._known, self._codes
        twin._counts, twin._own = self._counts.copy(), dict(self._own)
        return twin


class _PoolKinds:
    """Distinct pci_stats of present and former hosts, shared by a FreeDevices and its copies."""

    def __init__(self) -> None:
        self.pools: list[_Pools] = []
        self._numbers: dict[int, int] = {}
        self._lock = threading.Lock()

    def number(self, stats: Stats) -> int:
        """Return the index of these pci_stats in ``pools``."""
        number = self._numbers.get(id(stats))
        if number is None:
            with self._lock:
                number = self._numbers.get(id(stats))
                if number is None:
                    # the reference in _Pools prevents Python from reusing the id of this object
                    self.pools.append(_Pools(stats))
                    # assign the number last, because other threads read it without the lock
                    number = self._numbers[id(stats)] = len(self.pools) - 1
        return number


class _Pools:
    """Pools of a pci_stats value, parsed on demand, because most callers need only the number of devices."""

    def __init__(self, stats: Stats) -> None:
        self.stats = stats
        self.count = sum(pool['count'] for pool in stats or ())

    @functools.cached_property
    def pools(self) -> list[pci.Pool]:
        return pci.load_pools(self.stats or ())

    def have(self, requests: Requests) -> bool:
        return self.count >= sum(each.count for each in requests) and pci_pools.supports(self.pools, requests)
