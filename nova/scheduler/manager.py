"""The scheduler: ranks hosts on its table and claims in the database."""
import dataclasses
import logging

from nova import exception
from nova import objects
from nova import states
from nova.db.cells import cells as db_cells
from nova.db.placement import categories
from nova.db.placement import claims
from nova.db.placement import zones
from nova.db.servers import instances
from nova.runtime import batching
from nova.runtime import metrics
from nova.scheduler import across
from nova.scheduler import batch
from nova.scheduler import claiming
from nova.scheduler import dry_run
from nova.scheduler import filters
from nova.scheduler import groups
from nova.scheduler import hosts as host_table
from nova.scheduler import measured
from nova.scheduler import moves
from nova.scheduler import numa_request
from nova.scheduler import pipeline
from nova.scheduler import weights

LOG = logging.getLogger(__name__)

ROUNDS = 10          # rankings on a fresh table after claims that all failed; each round somebody else won


class SchedulerManager(batch.Batches, across.Across, moves.Moves, dry_run.DryRun):
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
        self._gathering = batching.Gathering(self.place_many, batch.SERVERS)

    def start(self):
        self._hosts()
        if self._several():
            self._table.follow()

    def stop(self):
        pass

    def periodic_tasks(self):
        return [('follow_hosts', max(1, self._conf.report_interval // 2), self._table.follow)]

    def in_progress(self):
        """For a report about the process."""
        return {'nodes in the host table': self._table.size(), 'filters': len(self._filters),
                'weighers': len(self._weighers)}

    def _hosts(self, whole=False):
        return self._table.hosts(whole=whole)

    @measured.measured
    def select_destinations(self, ctx, spec, instance_uuids):
        """Choose and claim a host for each server; see interface.py.

        A server that is not waiting to be placed any more (deleted meanwhile) gets an empty list; one whose host was
        chosen before, and nobody was told, gets that host.
        """
        request, refused = self._request(spec), None
        with self._reaching(instance_uuids):
            try:
                placed = self._place_new(request, instance_uuids)
            except exception.NoValidHost as error:   # the room that is missing may be what they have themselves
                placed, refused = [[] for _ in instance_uuids], error
            if all(placed):
                return placed
            given = self._given([uuid for uuid, chosen in zip(instance_uuids, placed, strict=True) if not chosen])
        if refused is not None and not given:
            raise refused
        return [chosen or given.get(uuid, []) for uuid, chosen in zip(instance_uuids, placed, strict=True)]

    def _place_new(self, request, instance_uuids):
        if self.together(request, instance_uuids):
            waiting = batch.Waiting(request, instance_uuids)
            self._gathering.bring(waiting)
            if waiting.placed is not None:
                return waiting.placed
        return self._place_alone(request, instance_uuids)

    def _several(self):
        """Whether servers may go to another cell than the one in which they are made; cell0 has no hosts."""
        default = self._cells.default
        return any(cell is not default and cell.uuid != db_cells.CELL0_UUID for cell in self._cells.all())

    def _given(self, instance_uuids):
        """{uuid: selections} of the servers that have a host on which nobody has begun to build them."""
        found = {}
        for cell, uuids in self._homes(instance_uuids):
            with cell.db.reader() as conn:
                rows = instances.get_many(conn, uuids)
            found |= {uuid: [objects.Selection(cell_uuid=cell.uuid, host=row['host'], node=row['node'],
                                               availability_zone=row['availability_zone'])]
                      for uuid, row in rows.items() if row['host'] is not None and row['cell_move'] is None
                      and (row['vm_state'], row['task_state']) == (states.BUILDING, states.SCHEDULING)}
        return found

    def _place_alone(self, request, instance_uuids):
        if self._several():
            return self._place_in_cells(request, instance_uuids)

        def claim(conn, hosts, rankings):
            return self._claim(conn, hosts, request, rankings, instance_uuids)
        return self._choose(self._cells.default, request, instance_uuids, claim)

    def _choose(self, cell, request, instance_uuids, claim):
        """What ``claim(conn, hosts, rankings)`` gives in a transaction, with other rankings while a claim fails.

        :param cell: the one in which all hosts are that the request allows
        :raises NoValidHost:
        """
        for number in range(ROUNDS):
            hosts, rankings = self._ranked(request, instance_uuids, again=number > 0)
            try:
                return cell.db.run(claim, hosts, rankings)
            except exception.ClaimFailed:
                metrics.PLACEMENT_RETRIES.inc()
                if request.group is not None:
                    request = dataclasses.replace(request, group=groups.again(self._cells, request.group))
        raise exception.NoValidHost(reason='Other requests took the room that was left.', details='')

    def _ranked(self, request, instance_uuids, again):
        """(view of the hosts, a ranking of positions for each server).

        :param again: a claim has failed: the table is looked at closely
        :raises NoValidHost:
        """
        # a claim that asks for more than numbers may be refused by many
        most = pipeline.MOST if batch.Batches.together(request, instance_uuids) else None
        hosts = self._hosts(whole=again)
        if again:
            for extra in request.extras:
                hosts = extra.closely(hosts)
        try:
            return hosts, pipeline.choose(hosts, request, self._filters, self._weighers, instance_uuids, self._order,
                                          most)
        except exception.NoValidHost:
            if again:
                raise
        # the table may be behind: what was freed, or a host that came, counts
        hosts = self._hosts(whole=True)
        return hosts, pipeline.choose(hosts, request, self._filters, self._weighers, instance_uuids, self._order, most)

    def _request(self, spec, category=None, cell=None):
        """The Request of a spec.

        :param category: of a server that exists, which may be another one than the spec's
        :param cell: the Cell of a server that has, or had, a place, in which it stays; None: a new one's
        """
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
            extras=wanted, cell=cell and cell.uuid, closed=() if cell else self._closed(),
            requirements=categories.requirements(self._api_db, category or spec.category_name),
            group=None if forced else self._group(spec))

    def _closed(self):
        """Uuids of the cells that get no new servers, in order."""
        return tuple(cell.uuid for cell in self._cells.all() if cell.disabled)

    def _limiting(self, forced):
        return tuple(each for each in self._filters if hasattr(each, 'limits') and (each.room or not forced))

    def _group(self, spec, moving=None):
        """The groups.Group that the hints name, None without one or when it is gone.

        :param moving: uuid of the server when it has a place already
        """
        named = (spec.hints or {}).get('group')
        return named and groups.find(self._api_db, self._cells, named[0], spec.project_id, moving)

    def _claim(self, conn, hosts, request, rankings, instance_uuids):
        """Claim in one transaction: node and server together, the next candidate when one has no room."""
        taker = claiming.Taker(conn, hosts, request)
        waiting = {'vm_state': states.BUILDING, 'task_state': states.SCHEDULING, 'host': None, 'cell_move': None}
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
        return [objects.Selection(cell_uuid=hosts.rows[position]['cell'], host=hosts.host[position],
                                  node=hosts.node[position], availability_zone=hosts.zone[position])
                for position in ranking[:1 + self._conf.scheduler.alternates]]
