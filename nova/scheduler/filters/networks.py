"""Hosts that ports of a Networking service can go to: what they request, and the segments of their networks."""
from __future__ import annotations

import typing

import numpy as np

from nova.conf.placement import placement as placement_options
from nova.scheduler.filters import base

if typing.TYPE_CHECKING:
    from oslo_config import cfg

    from nova import objects
    from nova.network.neutron import reachable_hosts
    from nova.scheduler import host_view
    from nova.scheduler import pipeline


class NetworkResourcesFilter(base.Filter):
    """Hosts that have the bandwidth and packet rate that ports request, and that a segment of each network reaches.

    The Placement service knows what hosts have, and the aggregates of segments; which hosts are in these, Neutron
    writes with the compute API. The filter looks; the port claims when it is bound, and a host that has no more then
    is left for another one.
    """

    room, rebuild = True, False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._finder: reachable_hosts.HostFinder | None = None
        if placement_options.enabled(conf):
            from nova.network.neutron import reachable_hosts    # what it loads is left out where it is not needed

            self._finder = reachable_hosts.HostFinder(conf)

    def wants(self, spec: objects.RequestSpec) -> bool:
        return self._finder is not None and not spec.has_no_networks

    def outside(self, hosts: host_view.Hosts, spec: objects.RequestSpec) -> typing.Any:
        """reachable_hosts.ReachableHosts, None: all hosts will do."""
        assert self._finder is not None              # wants
        requested = spec.requested_networks if isinstance(spec.requested_networks, list) else []
        return self._finder.find(spec.instance_uuid, requested)

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        found = request.facts.get(self.name)
        if not found:
            return hosts.everything

        def fits(host: str, node: str, aggregates: list[dict[str, typing.Any]]) -> bool:
            return (found.nodes is None or node in found.nodes or host in found.bound) and all(
                node in each.nodes or any(aggregate['uuid'] in each.aggregates for aggregate in aggregates)
                for each in found.segments)
        return np.array([fits(*row) for row in zip(hosts.host, hosts.node, hosts.aggregates, strict=True)], dtype=bool)

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return 'lacks|lack the bandwidth or packet rate that ports request, or a segment of their networks'
