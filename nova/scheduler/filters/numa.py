"""The filter of NUMA cells. It is always asked, because the claim would refuse what it does."""
import collections

from nova.scheduler import numa_request
from nova.scheduler import numa_table
from nova.scheduler.filters import base

LOOKED_AT = 20           # removed hosts of which it is found out what they lack


class NUMATopologyFilter(base.Filter):
    """Hosts with NUMA cells that have the CPUs, memory and pages that a server's topology asks for."""

    room, rebuild = True, False
    _topologies = None

    def begin(self, cells):
        self._topologies = numa_table.Topologies(cells)

    def mask(self, hosts, request):
        wish = numa_request.of(request)
        if wish is None:
            return hosts.everything
        wish.source = self._topologies
        return wish.mask(hosts)

    def reason(self, hosts, request, removed):
        found = collections.Counter(self._lack(hosts, request, position) for position in removed[:LOOKED_AT])
        return ' or '.join(text for text, _ in found.most_common(2)).replace('has ', 'has|have ', 1)

    def lacks(self, hosts, request, position):
        return self._lack(hosts, request, position)

    def _lack(self, hosts, request, position):
        """The end of a sentence about a host."""
        return numa_request.of(request).placed(hosts, int(position)).reason or 'has too little free of NUMA nodes'
