"""Places for servers that exist: destinations of moves, and a new home for an offloaded server."""
import dataclasses
import logging

from nova import exception
from nova import objects
from nova import states
from nova.db import claims
from nova.db import compute_nodes
from nova.db import instances
from nova.db import server_migrations
from nova.db import zones
from nova.scheduler import pipeline

LOG = logging.getLogger(__name__)

# a move that looks for its destination is in one of these
LOOKING = ('accepted', 'queued', 'pre-migrating', 'preparing')


class Moves:
    """The part of the scheduler's manager that places servers that exist; mixed into it.

    Needs ``self._choose``, ``self._taker``, ``self._group``, ``self._filters``, ``self._cells``, ``self._conf`` and
    ``self._hosts``.
    """

    def select_move(self, ctx, spec, migration_id, ignore, target, force):
        """Choose and claim the destination of a move; see interface.py."""
        with self._cells.default.db.reader() as conn:
            migration = server_migrations.get(conn, migration_id)
            row = instances.get(conn, migration['instance_uuid'])
        flavor = migration['new_flavor']
        spec = objects.RequestSpec(**{**spec.as_dict(), 'flavor': flavor})
        request = self._place(spec, {**row, **server_migrations.flavor_values(flavor)}, ignore, target, force)

        def claim(conn, hosts, ranking):
            take = self._taker(conn, hosts, request)
            for position in ranking:
                if not take(position):
                    continue
                node = compute_nodes.get(conn, int(hosts.ids[position]))
                zone = _zone(conn, node, request)
                if server_migrations.hold(conn, migration_id, node, request.asked, LOOKING):
                    return position, zone
                claims.free_node(conn, node['id'], request.asked)
                LOG.info('Move %s does not look for a host any more.', migration_id)
                return None
            raise exception.ClaimFailed(host=hosts.host[ranking[0]], instance_id=row['uuid'])
        try:
            return self._select_one(row['uuid'], request, claim)
        except exception.NoValidHost:
            # a message that came twice: the room that is missing may be what the first one took for this very move
            with self._cells.default.db.reader() as conn:
                migration = server_migrations.get(conn, migration_id)
            if migration['held_host'] is None and migration['status'] in LOOKING:
                raise
            return []

    def select_unshelve(self, ctx, spec, instance_uuid, target):
        """Choose and claim a host for an offloaded server that is unshelved; see interface.py."""
        with self._cells.default.db.reader() as conn:
            row = instances.get(conn, instance_uuid)
        request = self._place(spec, row, [], target, False)
        waiting = {'vm_state': states.SHELVED_OFFLOADED, 'task_state': states.UNSHELVING, 'host': None}

        def claim(conn, hosts, ranking):
            take = self._taker(conn, hosts, request)
            for position in ranking:
                if not take(position):
                    continue
                node = hosts.rows[position]
                place = {'host': node['host'], 'node': node['node'], 'availability_zone': _zone(conn, node, request)}
                if instances.set_where(conn, instance_uuid, place, waiting):
                    return position, place['availability_zone']
                claims.free_node(conn, int(hosts.ids[position]), request.asked)
                return None
            raise exception.ClaimFailed(host=hosts.host[ranking[0]], instance_id=instance_uuid)
        return self._select_one(instance_uuid, request, claim)

    def check_host(self, ctx, spec, host, node):
        """Whether a server may stay where it is with another image; see interface.py."""
        hosts = self._hosts(whole=True)
        asked = dict.fromkeys(claims.RESOURCES, 0)       # it has its room already
        request = dataclasses.replace(self._request(spec), asked=asked, host=host, node=node, forced=False, tried=(),
                                      group=None)
        asking = [each for each in self._filters if each.rebuild]
        pipeline.choose(hosts, request, asking, self._multipliers, [spec.instance_uuid])

    def _place(self, spec, row, ignore, target, force):
        """The Request of a server that exists: where its build was wanted, or failed, does not count any more."""
        return dataclasses.replace(
            self._request(spec), asked=claims.resources(row), host=target, node=None, forced=force, tried=(),
            zone=None if force else spec.availability_zone, ignored=tuple(ignore),
            group=None if force else self._group(spec, spec.instance_uuid))

    def _select_one(self, uuid, request, claim):
        def write(conn, hosts, rankings):
            found = claim(conn, hosts, rankings[0])
            if found is None:
                return []
            row = hosts.rows[found[0]]
            return [objects.Selection(cell_uuid=self._cells.default.uuid, host=row['host'], node=row['node'],
                                      availability_zone=found[1])]
        return self._choose(request, [uuid], write)


def _zone(conn, node, request):
    """The zone of a node that was just claimed, which it keeps until the transaction ends (zones.move).

    :raises ClaimFailed: it is not the one that is asked for any more
    """
    zone = zones.of(conn, [node['host']]).get(node['host'])
    if request.zone is not None and zone != request.zone:
        raise exception.ClaimFailed(host=node['host'], instance_id=request.spec.instance_uuid)
    return zone
