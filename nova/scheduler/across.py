"""Placing new servers in a deployment of several cells: claimed where the host is, and taken there.

The rows of a server stand in the cell in which it was made, or where building it has failed. Each claim is made in the
cell of the host, in one transaction with a copy of the server there; when all servers of the request have one, they
are let in (db/moves/cell_transfer.py). Until then everything can be given back, so that a request that fails has
claimed nothing.
"""
import collections
import contextlib
import dataclasses
import logging
import random
import time

from oslo_db import exception as db_exc

from nova import exception
from nova import states
from nova.db.cells import cells as db_cells
from nova.db.moves import cell_transfer
from nova.db.placement import claim_batches
from nova.db.placement import claims
from nova.db.servers import instances
from nova.runtime import metrics
from nova.scheduler import claiming
from nova.scheduler import groups

LOG = logging.getLogger(__name__)

ROUNDS = 10              # rankings on a fresh table, as within one cell
PAUSE_S = 0.05           # how long at most two requests stand aside that were in each other's way; more each time


class Across:
    """The part of the scheduler's manager that places across cells; mixed into it.

    Needs ``self._api_db``, ``self._cells``, ``self._table``, ``self._several``, ``self._ranked``, ``self._claim``,
    ``self._take_many`` and ``self._selections``.
    """

    @contextlib.contextmanager
    def _reaching(self, instance_uuids):
        """Where there are several cells, one that does not answer may do so later.

        :raises ServiceUnavailable: the cell that the servers are in does not answer
        """
        try:
            yield
        except db_cells.UNREACHABLE as error:
            if not self._several():
                raise
            LOG.warning('%d servers cannot be placed now: %s', len(instance_uuids), error)
            raise exception.ServiceUnavailable(service='database') from None

    def _place_in_cells(self, request, instance_uuids):
        placed = {}
        for home, uuids in self._homes(instance_uuids):
            placed |= self._place_from(home, request, uuids)
        return [placed.get(uuid, []) for uuid in instance_uuids]

    def _homes(self, instance_uuids):
        """[(Cell, uuids of its servers)]; of those that are deleted, nothing."""
        if not self._several():
            return [(self._cells.default, instance_uuids)]
        found = {}
        for uuid, cell_uuid in cell_transfer.settled_homes(self._api_db, self._cells, instance_uuids).items():
            found.setdefault(cell_uuid, []).append(uuid)
        order = {uuid: number for number, uuid in enumerate(instance_uuids)}
        return [(cell, sorted(uuids, key=order.get)) for cell_uuid, uuids in found.items()
                if (cell := self._cells.get(cell_uuid)) is not None]

    def _place_from(self, home, request, instance_uuids):
        """{uuid: selections} of servers of one cell, empty for those that do not wait any more."""
        move = cell_transfer.Transfer(self._api_db, self._cells, home)
        chosen, waiting = {}, list(instance_uuids)
        try:
            for number in range(ROUNDS):
                if number:
                    request = self._again(request, number)
                hosts, rankings = self._ranked(request, waiting, again=number > 0)
                left = self._claim_round(move, hosts, request, dict(zip(waiting, rankings, strict=True)), chosen)
                waiting = [uuid for uuid in waiting if uuid in left]
                if not waiting:
                    break
                metrics.PLACEMENT_RETRIES.inc()
            else:
                raise exception.NoValidHost(reason='Other requests took the room that was left.', details='')
            arrived = set(move.arrived)
            there = move.finish()
        except BaseException:
            move.give_up()
            raise
        return {uuid: chosen[uuid] if uuid not in arrived or uuid in there else [] for uuid in instance_uuids}

    def _again(self, request, number):
        """The same request, with what has changed since it was looked at."""
        if request.group is None:
            return request
        if request.group.policies & groups.TOGETHER:
            time.sleep(random.uniform(0, PAUSE_S * number))
        return dataclasses.replace(request, group=groups.again(self._cells, request.group))

    def _claim_round(self, move, hosts, request, rankings, chosen):
        """Claim for each server the first of its hosts, in the other cells first; the uuids that got none.

        What is claimed in the servers' own cell is final, and comes when all others have a place.

        :param rankings: {uuid: positions}
        :param chosen: {uuid: selections}, added to
        """
        parts, left = {}, set()
        for uuid, ranking in rankings.items():
            parts.setdefault(hosts.rows[ranking[0]]['cell'], []).append(uuid)
        for cell_uuid in sorted(parts, key=lambda each: (each == move.source.uuid, each)):
            uuids, cell = parts[cell_uuid], self._cells.get(cell_uuid)
            if cell is move.source and left:
                left.update(uuids)
                continue
            within = {uuid: [position for position in rankings[uuid] if hosts.rows[position]['cell'] == cell_uuid]
                      for uuid in uuids}
            try:
                bring = self._stay if cell is move.source else self._bring
                chosen |= bring(move, cell, hosts, request, within)
            except exception.ClaimFailed:
                left.update(uuids)
            except db_exc.DBDuplicateEntry:
                LOG.warning('A server was in cell %s before, and is not settled yet.', cell.name)
                left.update(uuids)
                self._table.leave_out(cell)
            except db_cells.UNREACHABLE as error:
                LOG.warning('Nothing is placed in cell %s, which is away: %s', cell.name, error)
                left.update(uuids)
                self._table.leave_out(cell)
            self._table.touched(cell)
        return left

    def _bring(self, move, cell, hosts, request, rankings):
        """Claim in another cell, and copy the servers there; {uuid: selections}."""
        try:
            leaving = move.leave(list(rankings), cell)
        except db_cells.UNREACHABLE as error:
            raise exception.ServiceUnavailable(service='database') from error

        def claim(conn):
            taker = claiming.Taker(conn, hosts, request, cell.uuid)
            found, places = {}, {}
            for uuid in leaving:
                number, taken = taker.first(rankings[uuid], uuid)
                places[uuid] = {'host': taken.host, 'node': hosts.node[taken.position], **taken.values}
                found[uuid] = self._selections(hosts, rankings[uuid][number:])
            zones = claim_batches.zones(conn, {place['host'] for place in places.values()})
            for place in places.values():
                place['availability_zone'] = zones.get(place['host'])
            if places:
                move.arrive(conn, cell, places)
            return found
        found = cell.db.run(claim)
        move.has_arrived(found, cell)
        if self._torn(request):
            move.give_up(list(found))
            raise exception.ClaimFailed(host='', instance_id=next(iter(rankings)))
        return {uuid: found.get(uuid, []) for uuid in rankings}

    def _stay(self, move, cell, hosts, request, rankings):
        """Claim in the servers' own cell; {uuid: selections}."""
        uuids = list(rankings)
        move.give_up(uuids)
        found = dict(zip(uuids, cell.db.run(self._claim, hosts, request, [rankings[uuid] for uuid in uuids], uuids),
                         strict=True))
        if self._torn(request):
            cell.db.run(_unplace, [uuid for uuid in uuids if found[uuid]])
            raise exception.ClaimFailed(host='', instance_id=uuids[0])
        return found

    # ---- a batch of requests that take numbers alone: see batch.py -----------------

    def _claim_many_across(self, hosts, plans):
        """Place those of [(Waiting, its rankings)] whose servers are in one cell and go to one other."""
        uuids = [uuid for item, _ in plans for uuid in item.uuids]
        homes = cell_transfer.settled_homes(self._api_db, self._cells, uuids) if uuids else {}
        source = self._cells.get(collections.Counter(homes.values()).most_common(1)[0][0]) if homes else None
        parts = {}
        for item, rankings in plans:
            there = {hosts.rows[ranking[0]]['cell'] for ranking in rankings}
            if {homes.get(uuid) for uuid in item.uuids} == {source and source.uuid} and len(there) == 1:
                parts.setdefault(there.pop(), []).append((item, rankings))
        if source is None:
            return
        parts.pop(source.uuid, None)
        move = cell_transfer.Transfer(self._api_db, self._cells, source)
        placed = []
        try:
            for cell_uuid, part in parts.items():
                placed += self._bring_many(move, self._cells.get(cell_uuid), hosts, part)
            there = move.finish()
        except Exception:
            LOG.exception('%d requests could not be claimed together; each is placed by itself.', len(plans))
            move.give_up()
            return
        for item, selections in placed:
            item.placed = [chosen if uuid in there else [] for uuid, chosen in zip(item.uuids, selections, strict=True)]

    def _bring_many(self, move, cell, hosts, part):
        """[(Waiting, its selections)] of those that find room where they should."""
        uuids = [uuid for item, _ in part for uuid in item.uuids]
        leaving = move.leave(uuids, cell)

        ready = [(item, rankings) for item, rankings in part if leaving.keys() >= set(item.uuids)]

        def claim(conn):
            places, placed, _ = self._take_many(conn, hosts, ready)
            if places:
                move.arrive(conn, cell, places)
            return placed, list(places)
        try:
            placed, arrived = cell.db.run(claim)
        except db_cells.UNREACHABLE as error:
            LOG.warning('Nothing is placed in cell %s, which is away: %s', cell.name, error)
            self._table.leave_out(cell)
            placed, arrived = [], []
        move.has_arrived(arrived, cell)
        move.give_up([uuid for uuid in uuids if uuid not in arrived])
        self._table.touched(cell)
        return placed

    def _torn(self, request):
        """Whether servers that must stand together are in several cells: two requests did not see each other's."""
        group = request.group
        if group is None or not group.policies & groups.TOGETHER:
            return False
        return groups.torn(groups.again(self._cells, group), self._table.hosts())


def _unplace(conn, uuids):
    """Take servers that nobody builds yet from their hosts again."""
    for uuid, row in instances.get_many(conn, uuids).items():
        if (row['vm_state'], row['task_state']) != (states.BUILDING, states.SCHEDULING):
            continue
        claims.free(conn, row)
        instances.update(conn, uuid, {'host': None, 'node': None, 'availability_zone': None},
                         {'host': row['host'], 'task_state': states.SCHEDULING})
