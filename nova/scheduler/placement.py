"""Placing servers: decide, claim, and again with what has changed while claims fail."""
import collections.abc
import dataclasses
import typing

from nova import exception
from nova import objects
from nova.db.cells import cells as db_cells
from nova.runtime import metrics
from nova.scheduler import claimer
from nova.scheduler import decision
from nova.scheduler import groups
from nova.scheduler import host_view
from nova.scheduler import hosts as host_table
from nova.scheduler import pipeline

ROUNDS = 10          # decisions on a fresh table after claims that all failed; each time another scheduler was faster

Selections = list[objects.Selection]
Rankings = dict[str, decision.Positions]


class Placer(typing.Protocol):
    """Places the servers of a request; ServerPlacer, or what wraps it."""

    def place(self, request: pipeline.Request, uuids: collections.abc.Sequence[str]) -> list[Selections]:
        """The selections of each server, in the order of ``uuids``; [] for one that does not wait any more.

        :raises NoValidHost: nothing is claimed
        """


class Rounds:
    """Decides and claims, up to ROUNDS times."""

    def __init__(self, rules: decision.Rules, table: host_table.HostTable, cells: db_cells.Cells) -> None:
        self._rules, self._table, self._cells = rules, table, cells

    def run(self, request: pipeline.Request, uuids: collections.abc.Sequence[str],
            attempt: claimer.Attempt) -> dict[str, Selections]:
        """What an attempt has claimed when all servers have a host.

        :raises NoValidHost: some find none; the attempt has given up
        """
        waiting = list(uuids)
        try:
            for number in range(ROUNDS):
                hosts, rankings = self._decide(decision.Demand(request, waiting), again=number > 0)
                left = attempt.claim(hosts, request, rankings)
                waiting = [uuid for uuid in waiting if uuid in left]
                if not waiting:
                    return attempt.finish()
                metrics.PLACEMENT_RETRIES.inc()
                if request.group is not None:
                    request = dataclasses.replace(request, group=groups.refreshed(self._cells, request.group))
            raise exception.NoValidHost(reason='Other requests took the room that was left.', details='')
        except BaseException:
            attempt.give_up()
            raise

    def _decide(self, demand: decision.Demand, again: bool) -> tuple[host_view.Hosts, Rankings]:
        """(view of the hosts, what is decided on it).

        :param again: a claim has failed: the table is looked at closely
        :raises NoValidHost:
        """
        hosts = self._table.hosts(whole=again)
        if again:
            for each in demand.request.special:
                hosts = each.verified(hosts)
        found, = decision.decide(hosts, [demand], self._rules)
        if found.shortage is not None and not again:
            # the table may be behind: what was freed, or a host that came, counts
            hosts = self._table.hosts(whole=True)
            found, = decision.decide(hosts, [demand], self._rules)
        return hosts, decision.rankings_of(found)


class ServerPlacer:
    """Places the servers of one request, each time by themselves."""

    def __init__(self, rounds: Rounds, claimers: claimer.Claimers) -> None:
        self._rounds, self._claimers = rounds, claimers

    def place(self, request: pipeline.Request, uuids: collections.abc.Sequence[str]) -> list[Selections]:
        placed: dict[str, Selections] = {}
        for attempt, part in self._claimers.current().attempts(uuids):
            placed |= self._rounds.run(request, part, attempt)
        return [placed.get(uuid, []) for uuid in uuids]
