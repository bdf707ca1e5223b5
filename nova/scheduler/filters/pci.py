"""The filter of PCI devices."""
import numpy as np

from nova.hardware import fit
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.placement_request import Request
from nova.scheduler.resources import numa_request
from nova.scheduler.resources import pci
from nova.scheduler.resources import pci_table

MAX_CHECKED_HOSTS = 100      # after this number of hosts with suitable devices, all further hosts pass unchecked


class PciPassthroughFilter(base.Filter):
    """Hosts with enough free devices for the flavor's aliases, near the guest's NUMA nodes if the policy requires it.

    The configuration cannot disable the filter, because the claim enforces the same rules.
    """

    checks_capacity, run_on_rebuild = True, False

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        requests = pci.requests_of(request)
        if not requests:
            return hosts.all_pass
        found, topology = hosts.pci.mask(requests), numa_request.find(request)
        if topology is not None and topology.source is not None:
            _judge(hosts, topology, requests, found)
        return found

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        requests = pci.requests_of(request)
        enough = hosts.pci.mask(requests)[removed]
        if enough.all():
            return f"has|have no free PCI devices near the guest's NUMA nodes ({words(requests)})"
        near = ", or none near the guest's NUMA nodes" if enough.any() else ''
        return f'has|have too few free PCI devices{near} ({words(requests)})'

    def shortfall(self, hosts: host_view.Hosts, request: Request) -> np.ndarray | float:
        number, counts = sum(each.count for each in pci.requests_of(request)), hosts.pci.counts
        if not number:
            return 0.0
        return 1.0 if counts is None else np.clip((number - counts) / number, 0, 1)


def _judge(hosts: host_view.Hosts, topology: numa_request.NumaRequest, requests: pci_table.Requests,
           found: np.ndarray) -> None:
    """Remove from ``found`` the hosts that have room for the guest's NUMA nodes but no free devices near these
    nodes.
    """
    near = 0
    for position in np.flatnonzero(found & topology.mask(hosts)).tolist():
        assert topology.source is not None           # set by the NUMA filter, which runs earlier
        host, limits = topology.source.host(hosts, position)
        pinned = fit.fit(hosts.numa.get(position, host), topology.guest, limits,
                         (hosts.pci.pools(position), requests), topology.pack)
        found[position] = pinned.topology is not None
        near += found[position]
        if near == MAX_CHECKED_HOSTS:
            return


def words(requests: pci_table.Requests) -> str:
    """Describe requests by aliases and counts: ``gpu:2, nic:1``."""
    return ', '.join(f'{each.alias_name}:{each.count}' for each in requests)
