"""The filter of NUMA cells. The configuration cannot disable the filter, because the claim enforces the same rules."""
import collections

import numpy as np

from nova.db.cells import cells as db_cells
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.placement_request import Request
from nova.scheduler.resources import numa_request
from nova.scheduler.resources import numa_table

MAX_EXAMINED_HOSTS = 20      # maximum number of removed hosts that ``reason`` examines


class NUMATopologyFilter(base.Filter):
    """Hosts with enough free CPUs, memory and pages in their NUMA cells for the requested topology."""

    checks_capacity, run_on_rebuild = True, False
    _topologies: numa_table.Topologies | None = None

    def start(self, cells: db_cells.Cells) -> None:
        self._topologies = numa_table.Topologies(cells)

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        needed = numa_request.find(request)
        if needed is None:
            return hosts.all_pass
        needed.source = self._topologies
        return needed.mask(hosts)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        found = collections.Counter(self.lacks(hosts, request, position) for position in removed[:MAX_EXAMINED_HOSTS])
        return 'has|have ' + ' or '.join(text.removeprefix('has ') for text, _ in found.most_common(2))

    def lacks(self, hosts: host_view.Hosts, request: Request, position: int) -> str:
        needed = numa_request.find(request)
        found = needed.fit(hosts, int(position)).reason if needed is not None else None
        return found or 'has too few free resources in its NUMA nodes'
