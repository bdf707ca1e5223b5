"""Places for servers that exist: destinations of moves, and a new home for an offloaded server."""
import dataclasses
import logging

from nova import exception
from nova import objects
from nova import states
from nova.db.moves import migrations as server_migrations
from nova.db.placement import claims
from nova.db.placement import compute_nodes
from nova.db.placement import zones
from nova.db.servers import instances
from nova.scheduler import claiming
from nova.scheduler import measured
from nova.scheduler import numa_request
from nova.scheduler import pipeline

LOG = logging.getLogger(__name__)

# a move that looks for its destination is in one of these
LOOKING = ('accepted', 'queued', 'pre-migrating', 'preparing')


class Moves:
    """The part of the scheduler's manager that places servers that exist; mixed into it.

    Needs ``self._choose``, ``self._group``, ``self._filters``, ``self._cells``, ``self._conf``,
    ``self._table`` and ``self._hosts``.
    """

    @measured.measured
    def select_move(self, ctx, spec, migration_id, ignore, target, force):
        """Choose and claim the destination of a move; see interface.py."""
        cell = self._cells.of_server(spec.instance_uuid)
        with cell.db.reader() as conn:
            migration = server_migrations.get(conn, migration_id)
            row = instances.get(conn, migration['instance_uuid'])
            hypervisor = _hypervisor(conn, migration)
        flavor = migration['new_flavor']
        spec = objects.RequestSpec(**{**spec.as_dict(), 'flavor': flavor})
        request = self._place(cell, spec, {**row, **server_migrations.flavor_values(flavor)}, ignore, target, force)
        request = dataclasses.replace(request, hypervisor=hypervisor,
                                      aggregate=migration['arguments'].get('aggregate'))

        def claim(conn, hosts, ranking):
            taker = claiming.Taker(conn, hosts, request, cell.uuid)
            _, claim = taker.first(ranking, row['uuid'], migration_id)
            node = compute_nodes.get(conn, claim.node_id)
            zone = _zone(conn, node, request)
            if server_migrations.hold(conn, migration_id, node, request.asked, LOOKING):
                if claim.values:
                    server_migrations.update(conn, migration_id, claim.values)
                return claim.position, zone
            taker.give_back(claim)
            LOG.info('Move %s does not look for a host any more.', migration_id)
            return None
        try:
            return self._select_one(cell, row['uuid'], request, claim)
        except exception.NoValidHost:
            # a message that came twice: the room that is missing may be what the first one took for this very move
            with cell.db.reader() as conn:
                migration = server_migrations.get(conn, migration_id)
            if migration['held_host'] is None and migration['status'] in LOOKING:
                raise
            return []

    @measured.measured
    def select_unshelve(self, ctx, spec, instance_uuid, target):
        """Choose and claim a host for an offloaded server that is unshelved; see interface.py."""
        cell = self._cells.of_server(instance_uuid)
        with cell.db.reader() as conn:
            row = instances.get(conn, instance_uuid)
        request = self._place(cell, spec, row, [], target, False)
        waiting = {'vm_state': states.SHELVED_OFFLOADED, 'task_state': states.UNSHELVING, 'host': None}

        def claim(conn, hosts, ranking):
            taker = claiming.Taker(conn, hosts, request, cell.uuid)
            _, claim = taker.first(ranking, instance_uuid)
            node = hosts.rows[claim.position]
            place = {'host': node['host'], 'node': node['node'], 'availability_zone': _zone(conn, node, request)}
            # what it had where it was is not what it has now
            if instances.set_where(conn, instance_uuid, {'numa_topology': None, **place, **claim.values}, waiting):
                return claim.position, place['availability_zone']
            taker.give_back(claim)
            return None
        return self._select_one(cell, instance_uuid, request, claim)

    def check_host(self, ctx, spec, host, node):
        """Whether a server may stay where it is with another image; see interface.py."""
        hosts = self._hosts(whole=True)
        asked = dict.fromkeys(claims.RESOURCES, 0)       # it has its room already
        request = self._request(spec, cell=self._cells.of_server(spec.instance_uuid))
        request = dataclasses.replace(request, asked=asked, host=host, node=node, forced=False, tried=(),
                                      group=None, extras=())
        asking = [each for each in self._filters if each.rebuild]
        pipeline.choose(hosts, request, asking, self._weighers, [spec.instance_uuid])

    def _place(self, cell, spec, row, ignore, target, force):
        """The Request of a server that exists: where its build was wanted, or failed, does not count any more."""
        request = self._request(spec, row['category'], cell)
        asked = numa_request.shared(claims.resources({**row, 'numa_topology': None}), request.extras)
        return dataclasses.replace(
            request, asked=asked, host=target, node=None, forced=force, tried=(),
            zone=None if force else spec.availability_zone, ignored=tuple(ignore),
            group=None if force else self._group(spec, spec.instance_uuid))

    def _select_one(self, cell, uuid, request, claim):
        def write(conn, hosts, rankings):
            found = claim(conn, hosts, rankings[0])
            if found is None:
                return []
            row = hosts.rows[found[0]]
            return [objects.Selection(cell_uuid=cell.uuid, host=row['host'], node=row['node'],
                                      availability_zone=found[1])]
        found = self._choose(cell, request, [uuid], write)
        self._table.touched(cell)
        return found


def _hypervisor(conn, migration):
    """The type of the hypervisor of a guest that moves; None: it is gone, or is made anew."""
    if migration['migration_type'] == server_migrations.EVACUATION:
        return None
    nodes = compute_nodes.by_host(conn, migration['source_compute'])
    return next((node['hypervisor_type'] for node in nodes if node['node'] == migration['source_node']), None)


def _zone(conn, node, request):
    """The zone of a node that was just claimed, which it keeps until the transaction ends (zones.move).

    :raises ClaimFailed: it is not the one that is asked for any more
    """
    zone = zones.of(conn, [node['host']]).get(node['host'])
    if request.zone is not None and zone not in request.zones:
        raise exception.ClaimFailed(host=node['host'], instance_id=request.spec.instance_uuid)
    return zone
