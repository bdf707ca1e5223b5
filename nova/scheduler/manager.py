"""The scheduler: ranks hosts on its table and claims in the database."""
import dataclasses
import logging

from nova import exception
from nova import objects
from nova import states
from nova.db import claims
from nova.db import instances
from nova.db import zones
from nova.scheduler import filters
from nova.scheduler import groups
from nova.scheduler import hosts as host_table
from nova.scheduler import moves
from nova.scheduler import pipeline
from nova.scheduler import weights

LOG = logging.getLogger(__name__)

ROUNDS = 10          # rankings on a fresh table after claims that all failed; each round somebody else won


class SchedulerManager(moves.Moves):
    """
    :param conf: the configuration
    :param api_db: Database of the API database
    :param cells: db.cells.Cells
    """

    def __init__(self, conf, api_db, cells):
        self._conf, self._api_db, self._cells = conf, api_db, cells
        self._filters = filters.load(conf, conf.filter_scheduler.enabled_filters)
        self._multipliers = {option: conf.filter_scheduler[option] for option, _ in weights.WEIGHERS}
        self._table = None

    def start(self):
        self._hosts()

    def stop(self):
        pass

    def periodic_tasks(self):
        return [('follow_hosts', max(1, self._conf.report_interval // 2), self._hosts)]

    def _hosts(self, whole=False):
        if self._table is None:
            self._table = host_table.HostTable(self._cells.default.db, max(1, self._conf.report_interval // 2))
        return self._table.hosts(whole=whole)

    def select_destinations(self, ctx, spec, instance_uuids):
        """Choose and claim a host for each server; see interface.py.

        A server that is not waiting to be placed any more (deleted meanwhile) gets an empty list.
        """
        request = self._request(spec)

        def claim(conn, hosts, rankings):
            return self._claim(conn, hosts, request, rankings, instance_uuids)
        return self._choose(request, instance_uuids, claim)

    def _choose(self, request, instance_uuids, claim):
        """What ``claim(conn, hosts, rankings)`` gives in a transaction, with other rankings while a claim fails.

        :raises NoValidHost:
        """
        hosts = self._hosts()
        for number in range(ROUNDS):
            try:
                rankings = pipeline.choose(hosts, request, self._filters, self._multipliers, instance_uuids)
            except exception.NoValidHost:
                if number:
                    raise
                # the table may be behind: what was freed, or a host that came, counts
                hosts = self._hosts(whole=True)
                rankings = pipeline.choose(hosts, request, self._filters, self._multipliers, instance_uuids)
            try:
                return self._cells.default.db.run(claim, hosts, rankings)
            except exception.ClaimFailed:
                hosts = self._hosts(whole=True)
                if request.group is not None:
                    group = groups.again(self._cells.default.db, request.group)
                    request = dataclasses.replace(request, group=group)
        raise exception.NoValidHost(reason='Other requests took the room that was left.', details='')

    def _request(self, spec):
        forced = spec.force_host is not None or spec.force_node is not None
        image_id = (spec.image or {}).get('id')
        flavor = spec.flavor
        asked = claims.resources({**flavor, 'flavor': flavor, 'image_id': image_id})
        return pipeline.Request(
            asked=asked, zone=None if forced else spec.availability_zone or self._conf.default_schedule_zone,
            host=spec.force_host or spec.requested_host, node=spec.force_node or spec.requested_node,
            forced=forced, tried=tuple((host, node) for host, node in spec.retry_hosts or ()), spec=spec,
            group=None if forced else self._group(spec))

    def _group(self, spec, moving=None):
        """The groups.Group that the hints name, None without one or when it is gone.

        :param moving: uuid of the server when it has a place already
        """
        named = (spec.hints or {}).get('group')
        return named and groups.find(self._api_db, self._cells.default.db, named[0], moving)

    def _taker(self, conn, hosts, request):
        """``take(position)`` -> whether a claim on that host succeeded, in this transaction."""
        companions = None if request.group is None else groups.Companions(conn, request.group)

        def take(position):
            if companions is not None and not companions.allow(hosts.host[position]):
                return False
            if not claims.claim(conn, int(hosts.ids[position]), request.asked):
                return False
            if request.zone is not None and zones.of(conn, [hosts.host[position]]) != {
                    hosts.host[position]: request.zone}:
                raise exception.ClaimFailed(host=hosts.host[position], instance_id=request.spec.instance_uuid)
            if companions is not None:
                companions.add(hosts.host[position])
            return True
        return take

    def _claim(self, conn, hosts, request, rankings, instance_uuids):
        """Claim in one transaction: node and server together, the next candidate when one has no room."""
        cell, take = self._cells.default.uuid, self._taker(conn, hosts, request)
        waiting = {'vm_state': states.BUILDING, 'task_state': states.SCHEDULING, 'host': None}
        found = []
        for uuid, ranking in zip(instance_uuids, rankings, strict=True):
            taken = next((number for number, position in enumerate(ranking) if take(position)), None)
            if taken is None:
                raise exception.ClaimFailed(host=hosts.host[ranking[0]], instance_id=uuid)
            rows = [hosts.rows[position] for position in ranking[taken:taken + 1 + pipeline.ALTERNATES]]
            place = {'host': rows[0]['host'], 'node': rows[0]['node'],
                     'availability_zone': zones.current(rows[0]['host'])}
            if not instances.set_where(conn, uuid, place, waiting):
                claims.free_node(conn, rows[0]['id'], request.asked)
                LOG.info('Server %s is not waiting for a host any more.', uuid)
                found.append([])
                continue
            found.append([objects.Selection(cell_uuid=cell, host=row['host'], node=row['node'],
                                            availability_zone=row['availability_zone']) for row in rows])
        return found
