"""Claimers write the scheduler's decisions to the database. cross_cell.py has the claimer for several cells.

One transaction claims the resources of the node and writes host and node into the row of the server.
A request gets hosts for all of its servers or for none.
"""
import collections.abc
import logging
import typing

from nova import exception
from nova import states
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.placement import claim_batches
from nova.db.placement import zones
from nova.db.servers import instances
from nova.scheduler import decision
from nova.scheduler import host_table
from nova.scheduler import host_view
from nova.scheduler import node_claims
from nova.scheduler.decision import Selections
from nova.scheduler.placement_request import Request

LOG = logging.getLogger(__name__)

Rankings = collections.abc.Mapping[str, decision.Positions]
Claim = collections.abc.Callable[[engine.Connection, host_view.Hosts, Request, Rankings], dict[str, Selections]]
# Decisions: the demands of a batch with their decisions; Placed: the selections for the servers of each placed demand
Decisions = collections.abc.Mapping[int, decision.Decision]
Placed = dict[int, list[Selections]]
ServersByCell = list[tuple[db_cells.Cell, list[str]]]
# state of a server that waits for a host
WAITING = {'vm_state': states.BUILDING, 'task_state': states.SCHEDULING, 'host': None, 'cell_move': None}


class Attempt(typing.Protocol):
    """An attempt to claim hosts for some servers, in one or more rounds."""

    def claim(self, hosts: host_view.Hosts, request: Request, rankings: Rankings) -> set[str]:
        """Claim the first host with room in the ranking of each server; return the uuids of unplaced servers."""

    def finish(self) -> dict[str, Selections]:
        """Make all claims final; return {uuid: selections}, with [] for servers that no longer wait for a host."""

    def give_up(self) -> None:
        """Release the claims that are not final yet, because ``finish`` was not called."""


class Claimer(typing.Protocol):
    """Writes decisions about new servers."""

    def servers_by_cell(self, uuids: collections.abc.Sequence[str]) -> ServersByCell:
        """Return [(cell, uuids of the servers with their rows in the cell)]; deleted servers are omitted."""

    def attempts(self, uuids: collections.abc.Sequence[str]) -> collections.abc.Iterator[tuple[Attempt, list[str]]]:
        """Yield (attempt, uuids of the servers for which the attempt claims hosts)."""

    def claim_batch(self, hosts: host_view.Hosts, decisions: Decisions) -> Placed:
        """Claim hosts for demands and return the placed demands; the caller places all other demands separately.

        :param decisions: decisions of batchable demands, all with rankings
        """


class Claimers:
    """Selects the claimer according to the number of cells.

    :param one: for a deployment with one cell
    :param cross_cell: for a deployment with several cells
    """

    def __init__(self, cells: db_cells.Cells, one: Claimer, cross_cell: Claimer) -> None:
        self._cells, self._one, self._cross_cell = cells, one, cross_cell

    def current(self) -> Claimer:
        return self._cross_cell if self.several() else self._one

    def several(self) -> bool:
        """Tell whether there is a cell with hosts in addition to the default cell."""
        default = self._cells.default
        return any(cell is not default and cell.uuid != db_cells.CELL0_UUID for cell in self._cells.all())


# ---- one cell --------------------------------------------------------------------

class CellClaimer:
    """Claimer for a single cell."""

    def __init__(self, cells: db_cells.Cells, table: host_table.HostTable) -> None:
        self._cells, self._table = cells, table

    def servers_by_cell(self, uuids: collections.abc.Sequence[str]) -> ServersByCell:
        return [(self._cells.default, list(uuids))]

    def attempts(self, uuids: collections.abc.Sequence[str]) -> collections.abc.Iterator[tuple[Attempt, list[str]]]:
        yield SingleCellAttempt(self._cells.default, claim_servers), list(uuids)

    def claim_batch(self, hosts: host_view.Hosts, decisions: Decisions) -> Placed:
        if not decisions:
            return {}
        try:
            placed: Placed
            placed, usage = self._cells.default.db.run(_place_batch, hosts, decisions)
        except _NotWaiting:
            return {}
        except Exception:
            LOG.exception('Could not claim a batch of %d requests; each request is placed separately.', len(decisions))
            return {}
        self._table.note_usage(self._cells.default, usage)
        return placed


class SingleCellAttempt:
    """Attempt that claims hosts for all servers in one transaction of one cell.

    :param claim: function(conn, hosts, request, rankings) -> {uuid: selections}; it raises ClaimFailed without room
    """

    def __init__(self, cell: db_cells.Cell, claim: Claim) -> None:
        self._cell, self._claim = cell, claim
        self._chosen: dict[str, Selections] = {}

    def claim(self, hosts: host_view.Hosts, request: Request, rankings: Rankings) -> set[str]:
        try:
            self._chosen = self._cell.db.run(self._claim, hosts, request, rankings)
        except exception.ClaimFailed:
            return set(rankings)
        return set()

    def finish(self) -> dict[str, Selections]:
        return self._chosen

    def give_up(self) -> None:
        pass  # nothing to release: the transaction of ``claim`` has ended


def claim_servers(conn: engine.Connection, hosts: host_view.Hosts, request: Request, rankings: Rankings
                  ) -> dict[str, Selections]:
    """Claim nodes for servers of this cell, write the hosts into their rows and return {uuid: selections}.

    :raises ClaimFailed: no host of a server has room
    """
    claims = node_claims.NodeClaims(conn, hosts, request)
    found: dict[str, Selections] = {}
    for uuid, ranking in rankings.items():
        claim = claims.first(ranking, uuid)
        values = {'host': claim.host, 'node': hosts.node[claim.position],
                  'availability_zone': zones.current(claim.host), **claim.values}
        if instances.set_where(conn, uuid, values, WAITING):
            found[uuid] = [decision.selection(hosts, claim.position)]
            continue
        claims.give_back(claim)
        LOG.info('Server %s no longer waits for a host.', uuid)
        found[uuid] = []
    return found


# ---- batches ---------------------------------------------------------------------

class _NotWaiting(Exception):
    """A server no longer waits for a host."""


class BatchClaim(typing.NamedTuple):
    """Resources that a batch claims on nodes.

    places   {uuid: {'host', 'node', 'availability_zone'}}
    usage    {node: usage after the claim}
    """

    places: dict[str, dict[str, str | None]]
    placed: Placed
    usage: dict[int, dict[str, int]]


def take_batch(conn: engine.Connection, hosts: host_view.Hosts, decisions: Decisions) -> BatchClaim:
    """Claim nodes for the demands that fit on hosts in the requested zone.

    A demand gets hosts for all of its servers or for none. The rows of the nodes are locked during the check for room.
    """
    firsts = {position for each in decisions.values() for position in each.chosen}
    nodes = claim_batches.Nodes(conn, {int(hosts.ids[position]) for position in firsts})
    zone_of = zones.of(conn, list({hosts.host[position] for position in firsts}))
    places: dict[str, dict[str, str | None]] = {}
    placed: Placed = {}
    for number, each in decisions.items():
        request, uuids, chosen = each.demand.request, each.demand.uuids, each.chosen
        if not places.keys().isdisjoint(uuids) or request.zone is not None and any(
                zone_of.get(hosts.host[position]) not in request.zones for position in chosen):
            continue
        if not nodes.take([(int(hosts.ids[position]), request.resources) for position in chosen]):
            continue
        for uuid, position in zip(uuids, chosen, strict=True):
            places[uuid] = {'host': hosts.host[position], 'node': hosts.node[position],
                            'availability_zone': zone_of.get(hosts.host[position])}
        placed[number] = [[decision.selection(hosts, position)] for position in chosen]
    return BatchClaim(places, placed, nodes.write())


def _place_batch(conn: engine.Connection, hosts: host_view.Hosts, decisions: Decisions
                 ) -> tuple[Placed, dict[int, dict[str, int]]]:
    """Claim nodes for a batch and write the hosts into the servers' rows; return (placed demands, {node: usage})."""
    taken = take_batch(conn, hosts, decisions)
    if taken.places and claim_batches.place(
            conn, taken.places, states.BUILDING, states.SCHEDULING) != len(taken.places):
        raise _NotWaiting
    return taken.placed, taken.usage
