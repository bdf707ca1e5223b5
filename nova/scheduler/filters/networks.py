"""Hosts suitable for the ports of a Networking service: resource requests of ports and segments of networks."""
from __future__ import annotations

import typing

import numpy as np

from oslo_config import cfg

from nova import objects
from nova.conf.placement import placement as placement_options
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.placement_request import Request

if typing.TYPE_CHECKING:
    from nova.network.neutron import reachable_hosts


class NetworkResourcesFilter(base.Filter):
    """Hosts with the bandwidth and packet rate that ports request, and with a segment of each network.

    The Placement service has the inventory of hosts and the aggregates of segments. Neutron assigns hosts to these
    aggregates through the compute API. The filter only reads inventories; binding the port claims the resources. If the
    claim fails, the server is built on another host.
    """

    checks_capacity, run_on_rebuild = True, False
    why = 'lacks|lack the bandwidth or packet rate that ports request, or a segment of their networks'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._finder: reachable_hosts.HostFinder | None = None
        if placement_options.enabled(conf):
            # imported here to save memory in deployments without Neutron
            from nova.network.neutron import reachable_hosts

            self._finder = reachable_hosts.HostFinder(conf)

    def needs_facts(self, spec: objects.RequestSpec) -> bool:
        return self._finder is not None and not spec.has_no_networks

    def external_facts(self, hosts: host_view.Hosts, spec: objects.RequestSpec
                       ) -> reachable_hosts.ReachableHosts | None:
        """Return the reachable hosts, or None if all hosts are suitable."""
        assert self._finder is not None              # see needs_facts
        requested = spec.requested_networks if isinstance(spec.requested_networks, list) else []
        return self._finder.find(spec.instance_uuid, requested)

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        found = request.facts.get(self.name)
        if not found:
            return hosts.all_pass

        def fits(host: str, node: str, aggregates: list[dict[str, typing.Any]]) -> bool:
            return (found.nodes is None or node in found.nodes or host in found.bound) and all(
                node in each.nodes or any(aggregate['uuid'] in each.aggregates for aggregate in aggregates)
                for each in found.segments)
        return np.array([fits(*row) for row in zip(hosts.host, hosts.node, hosts.aggregates, strict=True)], dtype=bool)
