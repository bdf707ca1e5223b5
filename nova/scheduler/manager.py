"""The scheduler: ranks hosts on its table and claims in the database."""
import dataclasses
import logging

from nova import exception
from nova import objects
from nova import states
from nova.db import categories
from nova.db import claims
from nova.db import instances
from nova.db import zones
from nova.scheduler import batch
from nova.scheduler import claiming
from nova.scheduler import dry_run
from nova.scheduler import filters
from nova.scheduler import gathering
from nova.scheduler import groups
from nova.scheduler import hosts as host_table
from nova.scheduler import moves
from nova.scheduler import numa_request
from nova.scheduler import pipeline
from nova.scheduler import weights

LOG = logging.getLogger(__name__)

ROUNDS = 10          # rankings on a fresh table after claims that all failed; each round somebody else won


class SchedulerManager(batch.Batches, moves.Moves, dry_run.DryRun):
    """
    :param conf: the configuration
    :param api_db: Database of the API database
    :param cells: db.cells.Cells
    """

    def __init__(self, conf, api_db, cells):
        self._conf, self._api_db, self._cells = conf, api_db, cells
        self._filters = filters.load(conf, conf.filter_scheduler.enabled_filters)
        for each in self._filters:
            each.begin(cells)
        self._weighers = weights.load(conf)
        options = conf.filter_scheduler
        self._order = pipeline.Order(options.host_subset_size, options.shuffle_best_same_weighed_hosts)
        self._table = host_table.HostTable(cells, max(1, conf.service_down_time // 4))
        self._gathering = gathering.Gathering(self.place_many, batch.SERVERS)

    def start(self):
        self._hosts()

    def stop(self):
        pass

    def periodic_tasks(self):
        return [('follow_hosts', max(1, self._conf.report_interval // 2), self._table.follow)]

    def _hosts(self, whole=False):
        return self._table.hosts(whole=whole)

    def select_destinations(self, ctx, spec, instance_uuids):
        """Choose and claim a host for each server; see interface.py.

        A server that is not waiting to be placed any more (deleted meanwhile) gets an empty list; one whose host was
        chosen before, and nobody was told, gets that host.
        """
        request = self._request(spec)
        try:
            placed = self._place_new(request, instance_uuids)
        except exception.NoValidHost:
            given = self._given(instance_uuids)      # the room that is missing may be what they have themselves
            if not given:
                raise
            return [given.get(uuid, []) for uuid in instance_uuids]
        if all(placed):
            return placed
        given = self._given(instance_uuids)
        return [chosen or given.get(uuid, []) for uuid, chosen in zip(instance_uuids, placed, strict=True)]

    def _place_new(self, request, instance_uuids):
        if self.together(request, instance_uuids):
            waiting = batch.Waiting(request, instance_uuids)
            self._gathering.bring(waiting)
            if waiting.placed is not None:
                return waiting.placed
        return self._place_alone(request, instance_uuids)

    def _given(self, instance_uuids):
        """{uuid: selections} of the servers that have a host on which nobody has begun to build them."""
        cell = self._cells.default
        with cell.db.reader() as conn:
            rows = instances.get_many(conn, instance_uuids)
        return {uuid: [objects.Selection(cell_uuid=cell.uuid, host=row['host'], node=row['node'],
                                         availability_zone=row['availability_zone'])]
                for uuid, row in rows.items() if row['host'] is not None
                and (row['vm_state'], row['task_state']) == (states.BUILDING, states.SCHEDULING)}

    def _place_alone(self, request, instance_uuids):
        def claim(conn, hosts, rankings):
            return self._claim(conn, hosts, request, rankings, instance_uuids)
        return self._choose(request, instance_uuids, claim)

    def _choose(self, request, instance_uuids, claim):
        """What ``claim(conn, hosts, rankings)`` gives in a transaction, with other rankings while a claim fails.

        :raises NoValidHost:
        """
        hosts = self._hosts()
        # a claim that asks for more than numbers may be refused by many
        most = pipeline.MOST if batch.Batches.together(request, instance_uuids) else None
        for number in range(ROUNDS):
            try:
                rankings = pipeline.choose(hosts, request, self._filters, self._weighers, instance_uuids,
                                           self._order, most)
            except exception.NoValidHost:
                if number:
                    raise
                # the table may be behind: what was freed, or a host that came, counts
                hosts = self._hosts(whole=True)
                rankings = pipeline.choose(hosts, request, self._filters, self._weighers, instance_uuids,
                                           self._order, most)
            try:
                return self._cells.default.db.run(claim, hosts, rankings)
            except exception.ClaimFailed:
                hosts = self._hosts(whole=True)
                for extra in request.extras:
                    hosts = extra.closely(hosts)
                if request.group is not None:
                    group = groups.again(self._cells.default.db, request.group)
                    request = dataclasses.replace(request, group=group)
        raise exception.NoValidHost(reason='Other requests took the room that was left.', details='')

    def _request(self, spec, category=None):
        """The Request of a spec; ``category`` of a server that exists may be another one than the spec's."""
        forced = spec.force_host is not None or spec.force_node is not None
        image_id = (spec.image or {}).get('id')
        flavor = spec.flavor
        wanted = claiming.wanted(self._conf, spec)
        asked = numa_request.shared(claims.resources({**flavor, 'flavor': flavor, 'image_id': image_id}), wanted)
        return pipeline.Request(
            asked=asked, zone=None if forced else spec.availability_zone or self._conf.default_schedule_zone,
            host=spec.force_host or spec.requested_host, node=spec.force_node or spec.requested_node,
            forced=forced, tried=tuple((host, node) for host, node in spec.retry_hosts or ()), spec=spec,
            facts=filters.facts(self._filters, self._cells, self._hosts, spec), limiting=self._limiting(forced),
            extras=wanted, cell=self._cell(spec).uuid,
            requirements=categories.requirements(self._api_db, category or spec.category_name),
            group=None if forced else self._group(spec))

    def _cell(self, spec):
        """The cell of a server, in which alone it is placed: its rows do not move, and a node's claim and the server's
        row change in one transaction. The API makes all servers in the default cell.
        """
        return self._cells.default

    def _limiting(self, forced):
        return tuple(each for each in self._filters if hasattr(each, 'limits') and (each.room or not forced))

    def _group(self, spec, moving=None):
        """The groups.Group that the hints name, None without one or when it is gone.

        :param moving: uuid of the server when it has a place already
        """
        named = (spec.hints or {}).get('group')
        return named and groups.find(self._api_db, self._cells.default.db, named[0], moving,
                                     spec.project_id)

    def _claim(self, conn, hosts, request, rankings, instance_uuids):
        """Claim in one transaction: node and server together, the next candidate when one has no room."""
        taker = claiming.Taker(conn, hosts, request)
        waiting = {'vm_state': states.BUILDING, 'task_state': states.SCHEDULING, 'host': None}
        found = []
        for uuid, ranking in zip(instance_uuids, rankings, strict=True):
            number, claim = taker.first(ranking, uuid)
            place = {'host': claim.host, 'node': hosts.node[claim.position],
                     'availability_zone': zones.current(claim.host), **claim.values}
            if not instances.set_where(conn, uuid, place, waiting):
                taker.give_back(claim)
                LOG.info('Server %s is not waiting for a host any more.', uuid)
                found.append([])
                continue
            found.append(self._selections(hosts, ranking[number:]))
        return found

    def _selections(self, hosts, ranking):
        """The host at the head of a ranking, and its alternates."""
        cell = self._cells.default.uuid
        return [objects.Selection(cell_uuid=cell, host=hosts.host[position], node=hosts.node[position],
                                  availability_zone=hosts.zone[position])
                for position in ranking[:1 + self._conf.scheduler.alternates]]
