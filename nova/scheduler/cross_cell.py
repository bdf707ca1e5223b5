"""Claims for new servers in a deployment with several cells: each claim is made in the cell of the host.

The rows of a new server are in the cell that created it, or in the cell in which its build has failed. One transaction
in the host's cell claims the host and copies the server. When all servers of the request have a host, the copies become
final (db/moves/cell_transfer.py). Until then all claims can be rolled back, so a failed request leaves no claim.
"""
import collections
import collections.abc
import logging
import random
import time

from oslo_db import exception as db_exc

from nova import exception
from nova import states
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.moves import cell_transfer
from nova.db.placement import claims
from nova.db.placement import zones
from nova.db.servers import instances
from nova.scheduler import claimer
from nova.scheduler import decision
from nova.scheduler import groups
from nova.scheduler import host_table
from nova.scheduler import host_view
from nova.scheduler import node_claims
from nova.scheduler.decision import Selections
from nova.scheduler.placement_request import Request

LOG = logging.getLogger(__name__)

BACKOFF_S = 0.05  # maximum wait in round 1 after a conflict between two requests; the maximum grows with each round


class CrossCellClaimer:
    """Claimer for several cells; implements claimer.Claimer."""

    def __init__(self, api_db: engine.Database, cells: db_cells.Cells, table: host_table.HostTable) -> None:
        self._api_db, self._cells, self._table = api_db, cells, table

    def servers_by_cell(self, uuids: collections.abc.Sequence[str]) -> claimer.ServersByCell:
        found: dict[str, list[str]] = {}
        for uuid, cell_uuid in cell_transfer.settled_homes(self._api_db, self._cells, list(uuids)).items():
            found.setdefault(cell_uuid, []).append(uuid)
        order = {uuid: number for number, uuid in enumerate(uuids)}
        return [(cell, sorted(part, key=order.__getitem__)) for cell_uuid, part in found.items()
                if (cell := self._cells.get(cell_uuid)) is not None]

    def attempts(self, uuids: collections.abc.Sequence[str]
                 ) -> collections.abc.Iterator[tuple[claimer.Attempt, list[str]]]:
        for home, part in self.servers_by_cell(uuids):
            yield _CrossCellAttempt(self._api_db, self._cells, self._table, home), part

    # ---- batches -------------------------------------------------------------------

    def claim_batch(self, hosts: host_view.Hosts, decisions: claimer.Decisions) -> claimer.Placed:
        """Claim hosts for the requests whose servers are all in the source cell and that chose hosts of one other cell.

        The source cell is the cell with the most servers of the batch. The caller places other requests separately.
        """
        uuids = [uuid for each in decisions.values() for uuid in each.demand.uuids]
        homes = cell_transfer.settled_homes(self._api_db, self._cells, uuids) if uuids else {}
        source = self._cells.get(collections.Counter(homes.values()).most_common(1)[0][0]) if homes else None
        if source is None:
            return {}
        parts: dict[str, dict[int, decision.Decision]] = {}
        for number, each in decisions.items():
            there = {hosts.rows[position]['cell'] for position in each.chosen}
            if {homes.get(uuid) for uuid in each.demand.uuids} == {source.uuid} and len(there) == 1:
                parts.setdefault(there.pop(), {})[number] = each
        parts.pop(source.uuid, None)
        transfer = cell_transfer.Transfer(self._api_db, self._cells, source)
        placed: claimer.Placed = {}
        try:
            for cell_uuid, part in parts.items():
                cell = self._cells.get(cell_uuid)
                if cell is None:
                    self._table.exclude_cell(cell_uuid)  # the cell was deleted; its requests are placed separately
                else:
                    placed |= self._claim_part(transfer, cell, hosts, part)
            there = transfer.finish()
        except Exception:
            LOG.exception('Could not claim a batch of %d requests; each request is placed separately.', len(decisions))
            transfer.give_up()
            return {}
        return {number: [chosen if uuid in there else []
                         for uuid, chosen in zip(decisions[number].demand.uuids, selections, strict=True)]
                for number, selections in placed.items()}

    def _claim_part(self, transfer: cell_transfer.Transfer, cell: db_cells.Cell, hosts: host_view.Hosts,
                    part: claimer.Decisions) -> claimer.Placed:
        """Claim hosts for demands with chosen hosts only in ``cell``; return the placed demands."""
        uuids = [uuid for each in part.values() for uuid in each.demand.uuids]
        departing = transfer.leave(uuids, cell)
        ready = {number: each for number, each in part.items() if departing.keys() >= set(each.demand.uuids)}

        def claim(conn: engine.Connection) -> claimer.BatchClaim:
            taken = claimer.take_batch(conn, hosts, ready)
            if taken.places:
                transfer.arrive(conn, cell, taken.places)
            return taken
        try:
            taken = cell.db.run(claim)
        except db_cells.UNREACHABLE as error:
            LOG.warning('Cell %s is unreachable and gets no servers: %s', cell.name, error)
            self._table.exclude_cell(cell.uuid)
            taken = claimer.BatchClaim({}, {}, {})
        transfer.has_arrived(list(taken.places), cell)
        transfer.give_up([uuid for uuid in uuids if uuid not in taken.places])
        self._table.mark_claimed(cell)
        return taken.placed


class _CrossCellAttempt:
    """Claims hosts in several cells for servers of one cell; implements claimer.Attempt.

    :param home: the cell that has the servers' rows
    """

    def __init__(self, api_db: engine.Database, cells: db_cells.Cells, table: host_table.HostTable,
                 home: db_cells.Cell) -> None:
        self._cells, self._table, self._home = cells, table, home
        self._transfer = cell_transfer.Transfer(api_db, cells, home)
        self._chosen: dict[str, Selections] = {}
        self._rounds = 0

    def claim(self, hosts: host_view.Hosts, request: Request, rankings: claimer.Rankings) -> set[str]:
        """See claimer.Attempt. Hosts in other cells are claimed first.

        A claim in the cell of the servers is final, so it is made after all other claims have succeeded.
        """
        parts: dict[str, list[str]] = {}
        left: set[str] = set()
        for uuid, ranking in rankings.items():
            parts.setdefault(hosts.rows[ranking[0]]['cell'], []).append(uuid)
        for cell_uuid in sorted(parts, key=lambda each: (each == self._home.uuid, each)):
            uuids, cell = parts[cell_uuid], self._cells.get(cell_uuid)
            if cell is None:
                LOG.warning('Cell %s was deleted and gets no servers.', cell_uuid)
                self._table.exclude_cell(cell_uuid)
            if cell is None or cell is self._home and left:
                left.update(uuids)
                continue
            within = {uuid: [position for position in rankings[uuid] if hosts.rows[position]['cell'] == cell_uuid]
                      for uuid in uuids}
            left |= self._claim_in(cell, hosts, request, within)
            self._table.mark_claimed(cell)
        if left:
            self._back_off(request)
        return left

    def _claim_in(self, cell: db_cells.Cell, hosts: host_view.Hosts, request: Request,
                  rankings: claimer.Rankings) -> set[str]:
        """Claim hosts of one cell; if the claim fails, return the uuids of all servers in ``rankings``."""
        try:
            claim = self._claim_at_home if cell is self._home else self._claim_elsewhere
            self._chosen |= claim(cell, hosts, request, rankings)
        except exception.ClaimFailed:
            return set(rankings)
        except db_exc.DBDuplicateEntry:
            LOG.warning('A server was in cell %s before, and its transfer from there is not finished.', cell.name)
        except db_cells.UNREACHABLE as error:
            LOG.warning('Cell %s is unreachable and gets no servers: %s', cell.name, error)
        else:
            return set()
        self._table.exclude_cell(cell.uuid)
        return set(rankings)

    def _back_off(self, request: Request) -> None:
        """Wait, so that a concurrent request of the same affinity group can finish."""
        self._rounds += 1
        if request.group is not None and request.group.policies & groups.AFFINE:
            time.sleep(random.uniform(0, BACKOFF_S * self._rounds))

    def _claim_elsewhere(self, cell: db_cells.Cell, hosts: host_view.Hosts, request: Request,
                         rankings: claimer.Rankings) -> dict[str, Selections]:
        """Claim hosts in another cell and copy the servers to it."""
        try:
            departing = self._transfer.leave(list(rankings), cell)
        except db_cells.UNREACHABLE as error:
            raise exception.ServiceUnavailable(service='database') from error

        def claim(conn: engine.Connection) -> dict[str, Selections]:
            claims_here = node_claims.NodeClaims(conn, hosts, request, cell.uuid)
            found, places = {}, {}
            for uuid in departing:
                taken = claims_here.first(rankings[uuid], uuid)
                places[uuid] = {'host': taken.host, 'node': hosts.node[taken.position], **taken.values}
                found[uuid] = [decision.selection(hosts, taken.position)]
            zone_of = zones.of(conn, list({place['host'] for place in places.values()}))
            for place in places.values():
                place['availability_zone'] = zone_of.get(place['host'])
            if places:
                self._transfer.arrive(conn, cell, places)
            return found
        found = cell.db.run(claim)
        self._transfer.has_arrived(found, cell)
        if self._is_split(request):
            self._transfer.give_up(list(found))
            raise exception.ClaimFailed(host='', instance_id=next(iter(rankings)))
        return {uuid: found.get(uuid, []) for uuid in rankings}

    def _claim_at_home(self, cell: db_cells.Cell, hosts: host_view.Hosts, request: Request,
                       rankings: claimer.Rankings) -> dict[str, Selections]:
        """Claim hosts in the cell that has the servers' rows."""
        self._transfer.give_up(list(rankings))
        found = cell.db.run(claimer.claim_servers, hosts, request, rankings)
        if self._is_split(request):
            cell.db.run(_unplace, [uuid for uuid in rankings if found[uuid]])
            raise exception.ClaimFailed(host='', instance_id=next(iter(rankings)))
        return found

    def _is_split(self, request: Request) -> bool:
        """Tell whether concurrent requests, which do not see each other, have split an affinity group between cells."""
        group = request.group
        if group is None or not group.policies & groups.AFFINE:
            return False
        return groups.split(groups.refreshed(self._cells, group), self._table.hosts())

    def finish(self) -> dict[str, Selections]:
        arrived = set(self._transfer.arrived)
        there = self._transfer.finish()
        return {uuid: chosen if uuid not in arrived or uuid in there else []
                for uuid, chosen in self._chosen.items()}

    def give_up(self) -> None:
        self._transfer.give_up()


def _unplace(conn: engine.Connection, uuids: list[str]) -> None:
    """Release the claims of these servers, except of servers that are already being built."""
    for uuid, row in instances.get_many(conn, uuids).items():
        if (row['vm_state'], row['task_state']) != (states.BUILDING, states.SCHEDULING):
            continue
        claims.free(conn, row)
        instances.update(conn, uuid, {'host': None, 'node': None, 'availability_zone': None},
                         {'host': row['host'], 'task_state': states.SCHEDULING})
