"""Placement of servers: choose hosts and claim them. If a claim fails, choose and claim again with fresh data."""
import collections.abc
import dataclasses
import typing

from nova import exception
from nova.db.cells import cells as db_cells
from nova.runtime import metrics
from nova.scheduler import claimer
from nova.scheduler import decision
from nova.scheduler import groups
from nova.scheduler import host_table
from nova.scheduler import host_view
from nova.scheduler.decision import Selections
from nova.scheduler.placement_request import Request

# maximum number of decisions for one request: a claim fails if another scheduler has claimed the capacity
MAX_ROUNDS = 10

Rankings = dict[str, decision.Positions]


class Placer(typing.Protocol):
    """Interface of ServerPlacer and its wrappers."""

    def place(self, request: Request, uuids: collections.abc.Sequence[str]) -> list[Selections]:
        """Place servers. Return a list of selections for each uuid: [] if the server no longer waits for a host.

        :raises NoValidHost: a server has no host; no host is claimed
        """


class ClaimLoop:
    """Repeats decision and claim until all servers have a host, up to MAX_ROUNDS times."""

    def __init__(self, rules: decision.Rules, table: host_table.HostTable, cells: db_cells.Cells) -> None:
        self._rules, self._table, self._cells = rules, table, cells

    def run(self, request: Request, uuids: collections.abc.Sequence[str],
            attempt: claimer.Attempt) -> dict[str, Selections]:
        """Decide and claim until all servers have a host. Return {uuid: selections}.

        :raises NoValidHost: some servers have no host; all claims of the attempt are released
        """
        waiting = list(uuids)
        try:
            for number in range(MAX_ROUNDS):
                hosts, rankings = self._decide(decision.Demand(request, waiting), again=number > 0)
                left = attempt.claim(hosts, request, rankings)
                waiting = [uuid for uuid in waiting if uuid in left]
                if not waiting:
                    return attempt.finish()
                metrics.PLACEMENT_RETRIES.inc()
                if request.group is not None:
                    request = dataclasses.replace(request, group=groups.refreshed(self._cells, request.group))
            raise exception.NoValidHost(reason='Other requests claimed the remaining capacity.', details='')
        except BaseException:
            attempt.give_up()
            raise

    def _decide(self, demand: decision.Demand, again: bool) -> tuple[host_view.Hosts, Rankings]:
        """Return (view of the hosts, {uuid: ranking of positions in this view}).

        :param again: a claim has failed, so read all cells
        :raises NoValidHost: no host is left
        """
        hosts = self._table.hosts(full=again)
        if again:
            for each in demand.request.special:
                hosts = each.verified(hosts)
        found, = decision.decide(hosts, [demand], self._rules)
        if found.no_candidates is not None and not again:
            # the table may be stale: read freed capacity and new hosts
            hosts = self._table.hosts(full=True)
            found, = decision.decide(hosts, [demand], self._rules)
        return hosts, decision.rankings_of(found)


class ServerPlacer:
    """Places the servers of one request at a time, in contrast to batch.BatchPlacer."""

    def __init__(self, claim_loop: ClaimLoop, claimers: claimer.Claimers) -> None:
        self._claim_loop, self._claimers = claim_loop, claimers

    def place(self, request: Request, uuids: collections.abc.Sequence[str]) -> list[Selections]:
        placed: dict[str, Selections] = {}
        for attempt, part in self._claimers.current().attempts(uuids):
            placed |= self._claim_loop.run(request, part, attempt)
        return [placed.get(uuid, []) for uuid in uuids]
