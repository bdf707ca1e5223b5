"""Find the hosts that a server's ports can be bound to, by requested resources and segments of routed networks."""
from typing import Any, NamedTuple

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova.network.neutron import client
from nova.network.neutron import documents
from nova.network.neutron.documents import Port
from nova.network.neutron import placement
from nova.network.neutron import requests

Document = dict[str, Any]

SEGMENT = 'segment'                  # alias of Neutron's extension
COMPUTE = 'compute:'                 # prefix of device_owner for server ports


class ReachableHosts(NamedTuple):
    """Hosts that ports can be bound to.

    nodes     names of nodes that have the requested resources; None: the ports request no resources
    bound     {host} if all ports with requested resources are already bound to one host, else empty
    segments  for each port or network with segments, the hosts connected to one of these segments
    """

    nodes: frozenset[str] | None
    bound: frozenset[str]
    segments: tuple[placement.Segments, ...]


class HostFinder:
    """Queries Neutron and Placement with the service's credentials."""

    def __init__(self, conf: ConfigOpts) -> None:
        self._neutron, self._placement = client.Neutron(conf), placement.Placement(conf)

    def find(self, server: str, requested: list[Document]) -> ReachableHosts | None:
        """Return the usable hosts, or None if all hosts are usable.

        :param requested: networks of the RequestSpec; the server's current ports are added
        """
        ctx = nova_context.admin_context()
        named = {each['port_id'] for each in requested if each.get('port_id')}
        own = [row for row in self._neutron.list(ctx, documents.PORTS, device_id=server)
               if row['device_owner'].startswith(COMPUTE)]
        found = self._neutron.list(ctx, documents.PORTS, id=named)
        ports = list({port['id']: port for port in (*found, *own)}.values())
        networks = {each['network_id'] for each in requested if each.get('network_id') and not each.get('port_id')}
        requesting, segments = [port for port in ports if requests.groups(port)], self._segments(ctx, ports, networks)
        if not requesting and not segments:
            return None
        bound = frozenset(port.get('binding:host_id') or '' for port in requesting)
        return ReachableHosts(self._placement.hosts_with(ctx, requesting) if requesting else None,
                              bound if len(bound) == 1 else frozenset(),
                              tuple(self._placement.hosts_in(ctx, each) for each in segments))

    def _segments(self, ctx: nova_context.RequestContext, ports: list[Port],
                  networks: set[str]) -> list[set[str]]:
        """Return the possible segments of each routed network and of each port in a routed network.

        A port can use the segments of its addresses. A port without addresses (``ip_allocation`` deferred) can use all
        segments of its network.
        """
        if SEGMENT not in self._neutron.extensions(ctx):
            return []
        subnets = [row for row in self._neutron.list(
            ctx, documents.SUBNETS, network_id=networks | {port['network_id'] for port in ports})
            if row.get('segment_id')]
        of_subnet = {row['id']: row['segment_id'] for row in subnets}
        of_network: dict[str, set[str]] = {}
        for row in subnets:
            of_network.setdefault(row['network_id'], set()).add(row['segment_id'])
        found = [of_network.get(network, set()) for network in sorted(networks)]
        for port in ports:
            fixed = {of_subnet[ip['subnet_id']] for ip in port['fixed_ips'] if ip['subnet_id'] in of_subnet}
            found.append(fixed if port['fixed_ips'] else of_network.get(port['network_id'], set()))
        return [each for each in found if each]
