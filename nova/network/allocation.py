"""Allocate and release ports of servers. One transaction handles many servers of one project.

The subnets are locked until the transaction ends, so addresses do not collide. If two messages concern the same server,
the second transaction sees the ports that the first has allocated, even if another service runs it.
"""
from collections.abc import Callable
import dataclasses
from typing import Any

from nova import exception
from nova.db.engine import Connection
from nova.db.networks import guarantees
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import security_groups
from nova.db.networks import trunks
from nova.db.servers import request_specs
from nova.db.tables import network as t
from nova.db.tables.rows import PortsRow
from nova.network import attach
from nova.network import ipam
from nova.network import quotas
from nova.network import security
from nova.network import selection
from nova.network.host import network as host_network
from nova.objects.instance import Instance
from nova.objects.network_info import PortRequest
from nova.objects.network_info import Vif


@dataclasses.dataclass(frozen=True)
class AllocationRequest:
    """Request to allocate ports for a new server. ``requests`` is None for the default network."""

    instance: Instance
    requests: list[PortRequest] | None
    group_names: list[str] | None
    host: str

    @property
    def ports(self) -> list[str]:
        """Ids of existing ports in the request."""
        return [request['port_id'] for request in self.requests or () if request['port_id']]


@dataclasses.dataclass(frozen=True)
class ReleaseRequest:
    """Request to release the ports of a server.

    :ivar host: release only ports that no other host has taken over; None: all ports
    :ivar may: function(rows with 'id' and 'host') -> rows that the caller may release; None: all
    """

    instance_uuid: str
    host: str | None
    may: Callable[[list[Any]], list[Any]] | None


def release(conn: Connection, orders: list[ReleaseRequest]) -> list[int]:
    """Release ports and return the number of released ports for each request."""
    rows = ports.to_give_back(conn, [order.instance_uuid for order in orders])
    given: list[Any] = []
    counts = []
    for order in orders:
        found = [row for row in rows if row.device_id == order.instance_uuid
                 and (order.host is None or row.host in (order.host, ''))]
        if order.may is not None and found:
            found = order.may(found)
        given += found
        counts.append(len(found))
    ports.give_back_rows(conn, given)
    return counts


class Allocation:
    """Allocates the ports of several servers in one transaction.

    :param orders: requests of one project, each for a different server
    """

    def __init__(self, conn: Connection, network: host_network.HostNetwork, orders: list[AllocationRequest]) -> None:
        self._conn, self._network, self._conf, self._orders = conn, network, network.conf, orders
        self._project = str(orders[0].instance.project_id)
        self._allocator = ipam.AddressAllocator(
            conn, ipam.quarantine_cutoff(self._conf.network.dhcp_lease_time), len(orders))
        self._made: list[host_network.ServerPort] = []
        self._bound: list[tuple[str, str]] = []                    # (port, group)
        self._fixed: dict[str, list[dict[str, str]]] = {}

    def run(self) -> list[list[Vif]]:
        """Allocate ports and return the VIFs of each request."""
        conn = self._conn
        existing = ports.lock_many(conn, [ident for order in self._orders for ident in order.ports])
        any_network, known = self._usable(existing)
        rows, default_group, room = ports.for_allocation(
            conn, [order.instance.uuid for order in self._orders], self._project, quotas.limit(self._conf, 'port'))
        found: list[list[Vif] | None] = []         # for each order: VIFs of the server's ports; None: it has no ports
        given: list[list[PortsRow | host_network.ServerPort]] = []
        for order in self._orders:
            own = [row for row in rows if row['device_id'] == order.instance.uuid]
            found.append(self._existing_vifs(order, own) if own else None)
            given.append([] if own else self._allocate(order, existing, any_network, known, default_group))
        if room is not None and room < len(self._made):          # no quota lock: most builds wait for the same subnets
            quotas.check_unlocked(conn, self._conf, 'port', self._project, len(self._made))
        self._allocator.store()
        networks.insert(conn, t.ports, [{**port} for port in self._made])
        security_groups.bind(conn, self._bound)
        every = [port for of_order in given for port in of_order]
        for order, of_order in zip(self._orders, given, strict=True):
            host_network.claim_guarantees(conn, order.host, of_order, known)
        self._fixed.update(networks.addresses_of(conn, [port['id'] for port in every if port['id'] not in self._fixed]))
        more = host_network.overlay_addresses(
            conn, every, {port['network_id']: known[port['network_id']][0] for port in every})
        parents = trunks.of_ports(conn, [port['id'] for port in every if not port['created_by_compute']])

        def vif(port: PortsRow | host_network.ServerPort) -> Vif:
            if port['id'] in parents:
                return self._network.vifs(conn, [port])[0]
            return host_network.vif(self._conf, port, *known[port['network_id']], self._fixed.get(port['id'], []), more)
        return [there if there is not None else [vif(port) for port in of_order]
                for there, of_order in zip(found, given)]

    def _usable(self, existing: dict[str, PortsRow]) -> tuple[selection.Usable, selection.Usable]:
        """Lock the subnets. Return (networks for servers that request none, those plus the requested networks)."""
        named = {*(request['network_id'] for order in self._orders for request in order.requests or ()
                   if request['network_id']), *(port['network_id'] for port in existing.values())}
        any_network: selection.Usable = {}
        if any(order.requests is None for order in self._orders):
            any_network = networks.usable(self._conn, self._project, None, lock=True)
        rest = named - set(any_network)
        return any_network, {**any_network, **(
            networks.usable(self._conn, self._project, rest, lock=True) if rest else {})}

    def _existing_vifs(self, order: AllocationRequest, rows: list[PortsRow]) -> list[Vif]:
        """Return the VIFs of a server that already has ports, and bind these ports to the requesting host."""
        if any(row['host'] != order.host for row in rows):
            _refuse_former_host(self._conn, order.instance.uuid, order.host)
            ports.move(self._conn, order.instance.uuid, order.host)
            guarantees.claim_server(self._conn, order.instance.uuid, order.host)
        return self._network.vifs(self._conn, rows)

    def _allocate(self, order: AllocationRequest, existing: dict[str, PortsRow], any_network: selection.Usable,
                  known: selection.Usable, default_group: str | None) -> list[PortsRow | host_network.ServerPort]:
        requests = selection.choose(any_network) if order.requests is None else order.requests
        groups = security.resolve(self._conn, self._project, order.group_names, default_group) if any(
            not request['port_id'] for request in requests) else []
        binding = self._network.binding(order.instance, order.host)
        granted = self._granted(order, known)
        given: list[PortsRow | host_network.ServerPort] = []
        for position, request in enumerate(requests):
            columns: host_network.Binding = {**binding, 'position': position, 'tag': request.get('tag')}
            if request['port_id']:
                given.append(attach.bind(self._conn, existing.get(request['port_id']), request, self._project, columns))
                continue
            network, subnets = selection.usable_network(known, request['network_id'], self._project, granted)
            port = attach.new_port(self._project, network, {
                **columns, 'dns_name': host_network.dns_name(order.instance)})
            self._fixed[port['id']] = attach.claim(self._allocator, network, subnets, port, request.get('fixed_ip'))
            self._made.append(port)
            if port['port_security_enabled']:
                self._bound += [(port['id'], group) for group in groups]
            else:
                security.check_used(network['id'], False, order.group_names or ())
            given.append(port)
        return given

    def _granted(self, order: AllocationRequest, known: selection.Usable) -> set[str]:
        """Return the ids of other projects' networks that an administrator requested for the server.

        The ids come from the stored request, because the host's message is not trusted.
        """
        named = [request['network_id'] for request in order.requests or () if request['network_id'] in known]
        if all(selection.is_of_project(known[ident][0], self._project) for ident in named):
            return set()
        spec = request_specs.get_many(self._conn, [order.instance.uuid]).get(order.instance.uuid)
        stored = selection.normalized(spec.requested_networks) if spec is not None else None
        return {str(request['network_id']) for request in stored or () if request.get(selection.GRANTED)}


def _refuse_former_host(conn: Connection, instance_uuid: str, host: str) -> None:
    """Refuse a late request of a host if the server's build was rescheduled to another host."""
    spec = request_specs.get_many(conn, [instance_uuid]).get(instance_uuid)
    if spec is not None and any(left == host for left, _node in spec.retry_hosts or ()):
        raise exception.InstanceChanged(instance_id=instance_uuid)
