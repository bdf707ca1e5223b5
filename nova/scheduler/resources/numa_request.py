"""NUMA resources of a request, a kind of placement_request.SpecialResource."""
import collections.abc
import contextlib
import dataclasses

import numpy as np
from oslo_config import cfg

from nova import objects
from nova.db import engine
from nova.db.placement import numa_claims
from nova.db.tables.rows import ComputeNodesRow, InstancesRow
from nova.hardware import fit
from nova.hardware import guest_request
from nova.hardware import usage
from nova.objects import numa as topologies
from nova.objects import pci
from nova.objects.flavor import Flavor
from nova.objects.image import Image
from nova.scheduler import host_view
from nova.scheduler import placement_request
from nova.scheduler.resources import numa
from nova.scheduler.resources import numa_table

Overcommit = fit.Overcommit              # alias, because the method NumaRequest.fit hides the module ``fit``


class NumaRequest(placement_request.SpecialResource):
    """Request for CPUs, memory and pages of NUMA cells.

    guest     the requested GuestTopology without pinning
    requests  pci.Request of the devices that must be near the guest's NUMA nodes
    pack      whether to prefer the host cells with the highest usage
    source    numa_table.Topologies, set by the NUMA filter
    """

    def __init__(self, guest: topologies.GuestTopology, requests: tuple[pci.Request, ...], pack: bool) -> None:
        self.guest, self.requests, self.pack = guest, requests, pack
        self.source: numa_table.Topologies | None = None

    def mask(self, hosts: host_view.Hosts) -> np.ndarray:
        """Return a mask of the hosts that may have room; hosts in ``hosts.numa`` are checked by ``fit``."""
        found = self._source().mask(hosts, self.guest)
        for position in hosts.numa:
            found[position] = self.fit(hosts, position).topology is not None
        return found

    def fit(self, hosts: host_view.Hosts, position: int) -> fit.Fit:
        """Try to place the guest on the NUMA cells of a host of a view."""
        host, limits = self._host(hosts, position)
        return fit.fit(host, self.guest, limits, pack=self.pack)

    def _source(self) -> numa_table.Topologies:
        assert self.source is not None           # the NUMA filter has set ``source``
        return self.source

    def _host(self, hosts: host_view.Hosts, position: int) -> tuple[topologies.HostTopology | None, Overcommit]:
        host, limits = self._source().host(hosts, position)
        return hosts.numa.get(position, host), limits

    def verified(self, hosts: host_view.Hosts) -> host_view.Hosts:
        if self.source is None:
            return hosts
        twin = hosts.copy()
        twin.numa = {**hosts.numa, **{position: self._host(hosts, position)[0]
                                      for position in map(int, np.flatnonzero(self.mask(hosts)))}}
        return twin

    def consume(self, hosts: host_view.Hosts, position: int) -> None:
        if self.source is None:
            return
        position = int(position)
        found = self.fit(hosts, position).topology
        host, limits = self._host(hosts, position)
        if host is not None and found is not None:
            hosts.numa = {**hosts.numa, position: usage.claim(host, found, limits)}

    def take(self, conn: engine.Connection, node: ComputeNodesRow,
             claim: placement_request.Claim) -> bool:
        text, limits = node['numa_topology'], numa.limits(node)
        host = None if text is None else numa_claims.load_host(text)
        devices = (pci.load_pools(node['pci_stats'] or ()), self.requests) if self.requests else None
        found = fit.fit(host, self.guest, limits, devices, self.pack).topology
        if host is None or found is None:
            return False
        placed = dataclasses.replace(found, instance_uuid=claim.instance_uuid)
        numa_claims.take(conn, node['id'], usage.claim(host, placed, limits))
        column = 'numa_topology' if claim.migration_id is None else 'claimed_numa_topology'
        claim.values[column] = topologies.text_of_guest(placed)
        claim.taken[placement_request.PINNED] = (host, placed)
        return True


def requested(conf: cfg.ConfigOpts, spec: objects.RequestSpec) -> NumaRequest | None:
    """Return the NumaRequest of a request, or None for a request without topology."""
    guest = topology(spec.flavor, spec.image)
    if guest is None:
        return None
    return NumaRequest(guest, pci.requested(spec.flavor), conf.compute.packing_host_numa_cells_allocation_strategy)


def without_pinned(resources: dict[str, int],
                   special: collections.abc.Iterable[placement_request.SpecialResource]) -> dict[str, int]:
    """Return resources without the pinned vCPUs of a request, because NumaRequest.take claims the pinned vCPUs.

    :param resources: claims.resources() with all vCPUs of the request
    """
    guest = next((each.guest for each in special if isinstance(each, NumaRequest)), None)
    if guest is None:
        return resources
    return {**resources, 'vcpus': resources['vcpus'] - sum(len(cell.pcpuset) for cell in guest.cells)}


def topology(flavor: Flavor, image: Image | None) -> topologies.GuestTopology | None:
    """Return the GuestTopology that a flavor and an image request, or None if neither requests a topology."""
    properties = image and image.get('properties') or {}
    if not guest_request.concerns(flavor, properties):
        return None
    return guest_request.topology(flavor, properties)


def without_server(conn: engine.Connection, hosts: host_view.Hosts, row: InstancesRow) -> host_view.Hosts:
    """Return a view of the hosts in which the NUMA resources of a server, given its instances row, are free."""
    host, node, own = row['host'], row['node'], row['numa_topology']
    text = None if host is None or node is None or own is None else numa_claims.of_node(conn, host, node)
    if not text or own is None:
        return hosts
    positions = np.flatnonzero((hosts.host == host) & (hosts.node == node))
    if not len(positions):
        return hosts
    twin = hosts.copy()
    with contextlib.suppress(usage.Overcommitted):
        left = usage.free(numa_claims.load_host(text), topologies.load_guest(own))
        twin.numa = {**hosts.numa, int(positions[0]): left}
    return twin


def find(request: placement_request.Request) -> NumaRequest | None:
    """Return the NumaRequest of a Request, or None if the Request has none."""
    return next((each for each in request.special if isinstance(each, NumaRequest)), None)
