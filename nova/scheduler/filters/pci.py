"""The filter of PCI devices."""
import numpy as np

from nova.hardware import fit
from nova.scheduler import numa_request
from nova.scheduler import pci
from nova.scheduler.filters import base

ENOUGH = 100             # hosts that are found to have devices near a guest; others are left for the claim to look at


class PciPassthroughFilter(base.Filter):
    """Hosts with as many free devices as the flavor's aliases ask for, and near the NUMA nodes of a guest that has a
    topology, as the policy says. It is always asked: the claim would refuse."""

    room, rebuild = True, False

    def mask(self, hosts, request):
        requests = pci.asked(request)
        if not requests:
            return hosts.everything
        found, wish = hosts.pci.mask(requests), numa_request.of(request)
        if wish is not None and wish.source is not None:
            _judge(hosts, wish, requests, found)
        return found

    def reason(self, hosts, request, removed):
        requests = pci.asked(request)
        enough = hosts.pci.mask(requests)[removed]
        if enough.all():
            return f'has|have no free PCI devices near its NUMA nodes ({words(requests)})'
        return f'has|have too few free PCI devices{", or not near," * bool(enough.any())} ({words(requests)})'

    def shortfall(self, hosts, request):
        asked, counts = sum(each.count for each in pci.asked(request)), hosts.pci.counts
        if not asked:
            return 0.0
        return 1.0 if counts is None else np.clip((asked - counts) / asked, 0, 1)


def _judge(hosts, wish, requests, found):
    """Take those hosts out of ``found`` whose NUMA nodes have room for the guest, but none near enough to devices."""
    near = 0
    for position in np.flatnonzero(found & wish.mask(hosts)).tolist():
        host, limits = wish.source.host(hosts, position)
        placed = fit.fit(hosts.numa.get(position, host), wish.guest, limits, (hosts.pci.pools(position), requests),
                         wish.pack)
        found[position] = placed.topology is not None
        near += found[position]
        if near == ENOUGH:
            return


def words(requests):
    """``gpu:2, nic:1``."""
    return ', '.join(f'{each.alias_name}:{each.count}' for each in requests)
