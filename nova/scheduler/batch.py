"""Requests that wait for a host at the same moment, placed as one batch: one view, one transaction.

What differs from placing one by itself is the number of statements, not what is decided: each request sees what those
before it took, the claim's condition is judged on locked rows, and a request that it refuses is decided again by
itself, as are all when a server does not wait any more. One bad request does not fail the others.
"""
import collections.abc

from nova import objects
from nova.runtime import batching
from nova.runtime import metrics
from nova.scheduler import claimer
from nova.scheduler import decision
from nova.scheduler import hosts as host_table
from nova.scheduler import pipeline
from nova.scheduler import placement

FRESH_S = 0.02        # under load: what this scheduler claims its table knows, what others claimed the condition knows

Selections = list[objects.Selection]


class Waiting(batching.Item):
    """A demand that waits for a host.

    placed    the selections of each server; None: it has to be placed by itself
    """

    def __init__(self, demand: decision.Demand) -> None:
        super().__init__()
        self.demand = demand
        self.placed: list[Selections] | None = None


class BatchPlacer:
    """Places requests in batches, and those for which a batch is not enough with another placer.

    :param placer: places one request by itself
    """

    def __init__(self, placer: placement.Placer, claimers: claimer.Claimers, table: host_table.HostTable,
                 rules: decision.Rules) -> None:
        self._placer, self._claimers, self._table, self._rules = placer, claimers, table, rules
        self._gathering = batching.Gathering(self.place_batch, decision.BATCH)

    def place(self, request: pipeline.Request, uuids: collections.abc.Sequence[str]) -> list[Selections]:
        """See placement.Placer."""
        demand = decision.Demand(request, uuids)
        if demand.batchable:
            waiting = Waiting(demand)
            self._gathering.bring(waiting)
            if waiting.placed is not None:
                return waiting.placed
        return self._placer.place(request, uuids)

    def place_batch(self, items: collections.abc.Sequence[Waiting]) -> None:
        """Set ``placed`` of those items that find room, and ``error`` of those that a filter failed on."""
        metrics.PLACEMENT_BATCH.observe(len(items))
        if len(items) == 1 and len(items[0].demand.uuids) == 1:
            item, = items                        # by itself it takes fewer statements; what comes meanwhile waits
            item.placed = self._placer.place(item.demand.request, item.demand.uuids)
            return
        hosts = self._table.hosts(fresh_s=FRESH_S)
        decisions = decision.decide(hosts, [item.demand for item in items], self._rules)
        for item, each in zip(items, decisions, strict=True):
            item.error = each.error
        chosen = {number: each for number, each in enumerate(decisions) if each.rankings is not None}
        for number, placed in self._claimers.current().claim_batch(hosts, chosen).items():
            items[number].placed = placed
