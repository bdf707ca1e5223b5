"""Placement of existing servers: destinations of moves, and new hosts of offloaded servers."""
import collections.abc
import dataclasses
import logging

from nova import context as nova_context
from nova import exception
from nova import objects
from nova import states
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.moves import migrations as server_migrations
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.placement import zones
from nova.db.servers import instances
from nova.db.servers import port_devices
from nova.db.tables.rows import ComputeNodesRow, MigrationsRow
from nova.objects import pci
from nova.scheduler import claimer
from nova.scheduler import decision
from nova.scheduler import host_table
from nova.scheduler import host_view
from nova.scheduler import node_claims
from nova.scheduler import placement
from nova.scheduler import placement_metrics
from nova.scheduler import request_reader
from nova.scheduler.decision import Selections
from nova.scheduler.placement_request import Claim
from nova.scheduler.placement_request import Request
from nova.scheduler.resources import pci as pci_resources

LOG = logging.getLogger(__name__)

# states of a migration that waits for a destination
LOOKING = ('accepted', 'queued', 'pre-migrating', 'preparing')

Place = dict[str, str | None]                # {'host', 'node' or 'availability_zone': its value}
# function (conn, claim, view), which writes the destination in the transaction of the claim and returns the place, or
# None if the server no longer waits for a host
Write = collections.abc.Callable[[engine.Connection, Claim, host_view.Hosts], Place | None]


class Moves:
    """The RPC methods that place existing servers; see interface.py."""

    def __init__(self, requests: request_reader.RequestReader, claim_loop: placement.ClaimLoop, cells: db_cells.Cells,
                 table: host_table.HostTable, rules: decision.Rules) -> None:
        self._requests, self._claim_loop, self._cells = requests, claim_loop, cells
        self._table, self._rules = table, rules

    @placement_metrics.measured
    def select_move(self, ctx: nova_context.RequestContext, spec: objects.RequestSpec, migration_id: int,
                    ignore: list[str], target: str | None, force: bool) -> Selections:
        """Choose and claim the destination of a move."""
        cell = self._cells.of_server(spec.instance_uuid)
        with cell.db.reader() as conn:
            migration = server_migrations.get(conn, migration_id)
            row = instances.get(conn, migration['instance_uuid'])
            hypervisor = _hypervisor(conn, migration)
        flavor, in_place = migration['new_flavor'], bool(migration['arguments'].get('in_place'))
        spec = objects.RequestSpec(**{**spec.as_dict(), 'flavor': flavor})
        request = self._requests.of_existing(
            cell, spec, {**row, 'flavor': flavor, 'vcpus': flavor['vcpus'], 'memory_mb': flavor['memory_mb'],
                         'root_gb': flavor['root_gb'], 'ephemeral_gb': flavor['ephemeral_gb']},
            ignore=ignore, target=target,
            force=force or in_place)         # a guest that grows is on its host already: only capacity matters
        request = dataclasses.replace(request, hypervisor=hypervisor,
                                      aggregate=migration['arguments'].get('aggregate'))

        needed: dict[str, int] = {}
        if in_place:                         # claim only the difference between the flavors
            needed = request.resources
            had = claims.resources(row, with_pinned=True)
            request = dataclasses.replace(request, resources={name: needed[name] - had[name] for name in needed})
        of_ports = _of_ports(request)

        def write(conn: engine.Connection, claim: Claim, hosts: host_view.Hosts) -> Place | None:
            node = compute_nodes.get(conn, claim.node_id)
            _check_size(node, needed, row['uuid'])
            zone = _zone(conn, node, request)
            if not server_migrations.hold(conn, migration_id, node, request.resources, LOOKING):
                LOG.info('Move %s no longer waits for a host.', migration_id)
                return None
            if of_ports:
                now = server_migrations.get(conn, migration_id)['new_flavor']
                port_devices.release_unneeded(conn, row['uuid'], of_ports, now)
            if claim.values:
                server_migrations.update(conn, migration_id, claim.values)
            return {'availability_zone': zone}
        try:
            return self._place(cell, row['uuid'], request, write, migration_id)
        except exception.NoValidHost:
            # RPC calls may be repeated: an earlier call may have claimed the capacity that this call does not find
            with cell.db.reader() as conn:
                migration = server_migrations.get(conn, migration_id)
            if migration['claimed_host'] is None and migration['status'] in LOOKING:
                raise
            return []

    @placement_metrics.measured
    def select_unshelve(self, ctx: nova_context.RequestContext, spec: objects.RequestSpec, instance_uuid: str,
                        target: str | None) -> Selections:
        """Choose and claim a host for an offloaded server during its unshelve."""
        cell = self._cells.of_server(instance_uuid)
        with cell.db.reader() as conn:
            row = instances.get(conn, instance_uuid)
        request = self._requests.of_existing(cell, spec, row, target=target)
        of_ports = _of_ports(request)
        waiting = {'vm_state': states.SHELVED_OFFLOADED, 'task_state': states.UNSHELVING, 'host': None}

        def write(conn: engine.Connection, claim: Claim, hosts: host_view.Hosts) -> Place | None:
            node = hosts.rows[claim.position]
            place: Place = {'host': node['host'], 'node': node['node'], 'availability_zone': _zone(conn, node, request)}
            # numa_topology None: forget the CPUs of the former host
            found = instances.set_where(conn, instance_uuid, {'numa_topology': None, **place, **claim.values}, waiting)
            if found and of_ports:
                now = instances.get(conn, instance_uuid)['flavor']
                port_devices.release_unneeded(conn, instance_uuid, of_ports, now)
            return place if found else None
        return self._place(cell, instance_uuid, request, write)

    def check_host(self, ctx: nova_context.RequestContext, spec: objects.RequestSpec, host: str, node: str) -> None:
        """Check whether a server may stay on its host with another image.

        :raises NoValidHost: the filters reject the host
        """
        hosts = self._table.hosts(full=True)
        request = self._requests.of_rebuild(self._cells.of_server(spec.instance_uuid), spec, host, node)
        rules = dataclasses.replace(self._rules,
                                    filters=tuple(each for each in self._rules.filters if each.run_on_rebuild))
        found, = decision.decide(hosts, [decision.Demand(request, [spec.instance_uuid])], rules)
        decision.rankings_of(found)

    def _place(self, cell: db_cells.Cell, uuid: str, request: Request, write: Write,
               migration_id: int | None = None) -> Selections:
        def claim(conn: engine.Connection, hosts: host_view.Hosts, present: Request,
                  rankings: claimer.Rankings) -> dict[str, Selections]:
            claims = node_claims.NodeClaims(conn, hosts, present, cell.uuid)
            taken = claims.first(rankings[uuid], uuid, migration_id)
            place = write(conn, taken, hosts)
            if place is None:
                claims.give_back(taken)
                return {uuid: []}
            row = hosts.rows[taken.position]
            return {uuid: [objects.Selection(cell_uuid=cell.uuid, host=row['host'], node=row['node'],
                                             availability_zone=place['availability_zone'])]}
        found = self._claim_loop.run(request, [uuid], claimer.SingleCellAttempt(cell, claim))
        self._table.mark_claimed(cell)
        return found[uuid]


def _of_ports(request: Request) -> list[pci.Request]:
    """Return the device requests of ports; these requests change if users detach a port during the placement."""
    return [each for each in pci_resources.requests_of(request) if each.request_id]


def _hypervisor(conn: engine.Connection, migration: MigrationsRow) -> str | None:
    """Return the hypervisor type of a moving guest, or None for an evacuation, which creates a new guest."""
    if migration['migration_type'] == server_migrations.EVACUATION:
        return None
    nodes = compute_nodes.by_host(conn, migration['source_compute'] or '')
    return next((node['hypervisor_type'] for node in nodes if node['node'] == migration['source_node']), None)


def _check_size(node: ComputeNodesRow, needed: dict[str, int], uuid: str) -> None:
    """Check the server's full size against the node's capacity: a resize on one host claims only the difference.

    :raises ClaimFailed: the node has less capacity than the server needs
    """
    capacity = {'vcpus': node['vcpus'], 'memory_mb': node['memory_mb'], 'local_gb': node['local_gb']}
    if any(size > capacity[name] for name, size in needed.items()):
        raise exception.ClaimFailed(host=node['host'], instance_id=uuid)


def _zone(conn: engine.Connection, node: ComputeNodesRow | host_view.Row, request: Request) -> str | None:
    """Return the zone of a claimed node. The node's zone is stable: zones.move waits until this transaction ends.

    :raises ClaimFailed: the node is no longer in the requested zone
    """
    zone = zones.of(conn, [node['host']]).get(node['host'])
    if request.zone is not None and zone not in request.zones:
        raise exception.ClaimFailed(host=node['host'], instance_id=request.spec.instance_uuid if request.spec else None)
    return zone
