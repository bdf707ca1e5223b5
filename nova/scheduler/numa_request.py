"""What a request takes of NUMA cells: an extra of claiming.py."""
import contextlib
import dataclasses

import numpy as np

from nova.db.placement import numa_claims
from nova.hardware import fit
from nova.hardware import guest_request as hardware
from nova.hardware import usage
from nova.objects import numa as topologies
from nova.objects import pci
from nova.scheduler import extras
from nova.scheduler import numa

PLACED = 'numa'              # in Claim.taken: (HostTopology as it was, placed GuestTopology)


class Numa(extras.Extra):
    """CPUs, memory and pages of NUMA cells.

    guest     the GuestTopology that is asked for, not yet placed
    requests  pci.Request of the devices that must be near it
    pack      on the cells that are used most
    source    numa_table.Topologies, once the filter has looked there
    """

    def __init__(self, guest, requests, pack):
        self.guest, self.requests, self.pack = guest, requests, pack
        self.source = None

    def mask(self, hosts):
        """True for the hosts of a view that may have it; those in ``hosts.numa`` are looked at closely."""
        found = self.source.mask(hosts, self.guest)
        for position in hosts.numa:
            found[position] = self.placed(hosts, position).topology is not None
        return found

    def placed(self, hosts, position):
        """The fit.Fit on a host of a view."""
        host, limits = self._host(hosts, position)
        return fit.fit(host, self.guest, limits, pack=self.pack)

    def _host(self, hosts, position):
        host, limits = self.source.host(hosts, position)
        return hosts.numa.get(position, host), limits

    def closely(self, hosts):
        if self.source is None:
            return hosts
        twin = hosts.copy()
        twin.numa = {**hosts.numa, **{position: self._host(hosts, position)[0]
                                      for position in map(int, np.flatnonzero(self.mask(hosts)))}}
        return twin

    def consume(self, hosts, position):
        if self.source is None:
            return
        position = int(position)
        found = self.placed(hosts, position).topology
        if found is not None:
            host, limits = self._host(hosts, position)
            hosts.numa = {**hosts.numa, position: usage.claim(host, found, limits)}

    def take(self, conn, node, claim):
        text, limits = node['numa_topology'], numa.limits(node)
        host = None if text is None else numa_claims.load_host(text)
        devices = (pci.load_pools(node['pci_stats'] or ()), self.requests) if self.requests else None
        found = fit.fit(host, self.guest, limits, devices, self.pack).topology
        if found is None:
            return False
        placed = dataclasses.replace(found, instance_uuid=claim.instance_uuid)
        numa_claims.take(conn, node['id'], usage.claim(host, placed, limits))
        column = 'numa_topology' if claim.migration_id is None else 'held_numa_topology'
        claim.values[column] = topologies.text_of_guest(placed)
        claim.taken[PLACED] = (host, placed)
        return True


def wanted(conf, spec):
    """The Numa of a request, None when it asks for no topology."""
    guest = asked(spec.flavor, spec.image)
    if guest is None:
        return None
    return Numa(guest, pci.asked(spec.flavor), conf.compute.packing_host_numa_cells_allocation_strategy)


def shared(asked, extras):
    """What a request asks of the node's numbers: vCPUs with a CPU each to themselves are no part of those.

    :param asked: claims.resources() of all its vCPUs
    """
    guest = next((extra.guest for extra in extras if isinstance(extra, Numa)), None)
    if guest is None:
        return asked
    return {**asked, 'vcpus': asked['vcpus'] - sum(len(cell.pcpuset) for cell in guest.cells)}


def asked(flavor, image):
    """The GuestTopology that a flavor and an image ask for, None when they ask for none."""
    properties = (image or {}).get('properties') or {}
    if not hardware.concerns(flavor, properties):
        return None
    return hardware.topology({**flavor, 'extra_specs': flavor.get('extra_specs')}, properties)


def given_back(conn, hosts, row):
    """A view of the hosts in which the server of this instances row has nothing of its node's cells."""
    text = None if row['host'] is None or row['numa_topology'] is None else numa_claims.of_node(
        conn, row['host'], row['node'])
    positions = np.flatnonzero((hosts.host == row['host']) & (hosts.node == row['node'])) if text else ()
    if not len(positions):
        return hosts
    twin = hosts.copy()
    with contextlib.suppress(usage.Overcommitted):
        left = usage.free(numa_claims.load_host(text), topologies.load_guest(row['numa_topology']))
        twin.numa = {**hosts.numa, int(positions[0]): left}
    return twin


def of(request):
    """The Numa of a pipeline.Request; None without one."""
    return next((extra for extra in request.extras if isinstance(extra, Numa)), None)
