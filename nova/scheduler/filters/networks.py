"""Filters for the ports of a server.

They check resources and segments of Neutron, or guarantees of the embedded network service.
"""
from __future__ import annotations

import typing

import numpy as np

from oslo_config import cfg

from nova import objects
from nova.db.cells import cells as db_cells
from nova.db.networks import guarantees
from nova.network import selection
from nova.conf.placement import placement as placement_options
from nova.objects import guarantees as names
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


class NetworkGuaranteesFilter(base.Filter):
    """Hosts that can guarantee the bandwidth and packet rate that ports of the embedded network service need.

    The network service claims these resources in the row of a port when it binds the port; the filter only reads. If
    the claim fails, the server is built on another host.
    """

    checks_capacity, run_on_rebuild = True, False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._cells: db_cells.Cells | None = None

    def start(self, cells: db_cells.Cells) -> None:
        self._cells = cells
        # query existing servers too, because users attach ports after the build
        self.reads_existing = self.conf.network.backend == 'embedded'

    def needs_facts(self, spec: objects.RequestSpec) -> bool:
        requested = spec.requested_networks
        return self.conf.network.backend == 'embedded' and isinstance(requested, list) and any(
            each.get(selection.GUARANTEED) for each in requested)

    def external_facts(self, hosts: host_view.Hosts, spec: objects.RequestSpec) -> guarantees.Needs | None:
        """Return the bandwidth and packet rate that the ports of a server need, or None if the ports need neither."""
        assert self._cells is not None
        requested = spec.requested_networks if isinstance(spec.requested_networks, list) else []
        with self._cells.api_db.reader() as conn:
            needed = guarantees.needs_of(
                conn, spec.instance_uuid, [each['port_id'] for each in requested if each.get('port_id')],
                [each['network_id'] for each in requested if not each.get('port_id')])
            return guarantees.Needs(needed, guarantees.free(conn, spec.instance_uuid)) if needed else None

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        found = request.facts.get(self.name)
        if not found:
            return hosts.all_pass
        return np.array([not guarantees.lacking(found.needed, found.left.get(host, {})) for host in hosts.host],
                        dtype=bool)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        found = request.facts[self.name]
        amounts = ' and '.join(sorted(
            f'{amount} {names.NAMES[name]}' for (name, _), amount in found.needed.items()))
        if not any(hosts.host[position] in found.left for position in removed):
            return f'guarantees|guarantee no network resources, but the ports of the server need {amounts}'
        return f'cannot|cannot guarantee {amounts} to the ports of the server'

    def lacks(self, hosts: host_view.Hosts, request: Request, position: int) -> str:
        found = request.facts[self.name]
        there = found.left.get(hosts.host[position])
        if there is None:
            return 'guarantees no network resources ([network] guaranteed_bandwidth, guaranteed_packet_rate)'
        return f'has only {guarantees.lacking(found.needed, there)} left'
