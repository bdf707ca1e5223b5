"""PCI devices in placement: how many are free on which host, and the claim on them.

What the table says is a guess by pools (compute_nodes.pci_stats); which devices a server gets, and whether, is decided
in the claim's transaction (db/placement/pci_devices.py).
"""
import functools
import threading

import numpy as np

from nova.db.placement import pci_devices
from nova.hardware import pci_pools
from nova.objects import pci
from nova.scheduler import extras

NUMA = 'numa'            # in Claim.taken: (HostTopology, placed GuestTopology) of who was asked before
MOST = 4                 # kinds of pools that are remembered, as a multiple of the hosts


class Free:
    """The free devices of many hosts. Hosts whose pools are alike are judged once.

    :param stats: compute_nodes.pci_stats of each host; equal ones are best the same object (db.types.Shared)
    """

    def __init__(self, stats):
        self._known = _Known()
        self._codes = np.array([self._known.number(each) for each in stats], dtype=np.int64)
        self._counts = np.array([each.count for each in self._known.pools], dtype=np.int64)[self._codes]
        self._own = {}

    @property
    def counts(self):
        """Free devices of each host; None when no host has any."""
        return self._counts if self._counts.any() else None

    def mask(self, requests):
        """True for the hosts whose pools have all that is asked for."""
        kinds = np.zeros(int(self._codes.max(initial=-1)) + 1, dtype=bool)
        for number in np.flatnonzero(np.bincount(self._codes)):
            kinds[number] = self._known.pools[number].have(requests)
        found = kinds[self._codes]
        for position, each in self._own.items():
            found[position] = each.have(requests)
        return found

    def pools(self, position):
        """[pci.Pool] of one host."""
        return (self._own.get(position) or self._known.pools[self._codes[position]]).pools

    def changed(self, stats):
        """A Free in which these hosts have other pools: {position: pci_stats}."""
        if len(self._known.pools) > MOST * (len(self._codes) + 1):       # most are of no host any more
            listed = [self._known.pools[code].stats for code in self._codes]
            return Free([stats.get(position, each) for position, each in enumerate(listed)])
        twin = self._twin()
        twin._codes = self._codes.copy()
        for position, each in stats.items():
            twin._codes[position] = number = self._known.number(each)
            twin._counts[position] = self._known.pools[number].count
            twin._own.pop(position, None)
        return twin

    def without(self, position, requests):
        """A Free in which one host has given what is asked for, as far as pools tell."""
        position = int(position)
        left = pci_pools.taken(self.pools(position), requests)
        if left is None:
            return self
        twin = self._twin()
        twin._own[position] = own = _Pools(pci.dump(left))
        twin._counts[position] = own.count
        return twin

    def _twin(self):
        twin = object.__new__(Free)
        twin._known, twin._codes = self._known, self._codes
        twin._counts, twin._own = self._counts.copy(), dict(self._own)
        return twin


class _Known:
    """Pools that hosts have, or have had; shared by a Free and those that were made of it."""

    def __init__(self):
        self.pools, self._numbers, self._lock = [], {}, threading.Lock()

    def number(self, stats):
        """The place among ``pools`` of this pci_stats."""
        number = self._numbers.get(id(stats))
        if number is None:
            with self._lock:
                number = self._numbers.setdefault(id(stats), len(self.pools))
                if number == len(self.pools):
                    self.pools.append(_Pools(stats))         # which keeps the object, and with it its id
        return number


class _Pools:
    """The pools of a host; of most of them nobody wants to know more than the number."""

    def __init__(self, stats):
        self.stats = stats
        self.count = sum(pool['count'] for pool in stats or ())

    @functools.cached_property
    def pools(self):
        return pci.load_pools(self.stats or ())

    def have(self, requests):
        return self.count >= sum(each.count for each in requests) and pci_pools.supports(self.pools, requests)


class Devices(extras.Extra):
    """The PCI devices of a request."""

    def __init__(self, requests):
        self.requests = requests

    def take(self, conn, node, claim):
        host, guest = claim.taken.get(NUMA, (None, None))
        cells = guest and [cell.id for cell in guest.cells]
        return pci_devices.claim(conn, node['host'], node['node'], self.requests, claim.instance_uuid,
                                 held=claim.migration_id is not None, topology=host, cells=cells)

    def consume(self, hosts, position):
        hosts.pci = hosts.pci.without(position, self.requests)


def given_back(conn, hosts, row):
    """A view of the hosts in which the devices are free that the server of this instances row has."""
    if row['host'] is None or not pci.asked(row['flavor']):
        return hosts
    stats = pci_devices.without(conn, row['host'], row['node'], row['uuid'])
    hosts = hosts.copy()
    hosts.pci = hosts.pci.changed({position: stats for position in hosts.positions(row['host'])
                                   if hosts.node[position] == row['node']})
    return hosts


def wanted(conf, spec):
    """The Devices of a request, None when its flavor asks for none."""
    requests = pci.asked(spec.flavor)
    return Devices(requests) if requests else None


def asked(request):
    """The (pci.Request, …) of a pipeline.Request."""
    return next((extra.requests for extra in request.extras if isinstance(extra, Devices)), ())
