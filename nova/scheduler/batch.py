"""Batch placement: requests that wait for a host are decided on one view and claimed in one transaction.

A batch saves statements and does not change decisions:
* Each request sees the claims of the requests before it.
* The claim's condition is checked on locked rows. A request that fails the check is decided again on its own.
* If a server no longer waits for a host, each request of the batch is decided again on its own.
* A faulty request does not fail the others.
"""
import collections.abc

from nova import objects
from nova.runtime import batching
from nova.runtime import metrics
from nova.scheduler import claimer
from nova.scheduler import decision
from nova.scheduler import host_table
from nova.scheduler import placement
from nova.scheduler.placement_request import Request

# maximum age of the table under load; it includes this scheduler's claims, and each claim detects those of others
FRESH_S = 0.02

Selections = list[objects.Selection]


class PendingDemand(batching.Item):
    """A demand that waits for a host.

    placed    the selections of each server, or None if the demand must be placed separately
    """

    def __init__(self, demand: decision.Demand) -> None:
        super().__init__()
        self.demand = demand
        self.placed: list[Selections] | None = None


class BatchPlacer:
    """Places requests in batches. Requests that a batch cannot place go to another placer.

    :param placer: placer of single requests
    """

    def __init__(self, placer: placement.Placer, claimers: claimer.Claimers, table: host_table.HostTable,
                 rules: decision.Rules) -> None:
        self._placer, self._claimers, self._table, self._rules = placer, claimers, table, rules
        self._batch = batching.Batch(self.place_batch, decision.BATCH)

    def place(self, request: Request, uuids: collections.abc.Sequence[str]) -> list[Selections]:
        """See placement.Placer."""
        demand = decision.Demand(request, uuids)
        if demand.batchable:
            waiting = PendingDemand(demand)
            self._batch.run(waiting)
            if waiting.placed is not None:
                return waiting.placed
        return self._placer.place(request, uuids)

    def place_batch(self, items: collections.abc.Sequence[PendingDemand]) -> None:
        """Set ``placed`` for the items that get hosts, and ``error`` for those with a failed filter."""
        metrics.PLACEMENT_BATCH.observe(len(items))
        if len(items) == 1 and len(items[0].demand.uuids) == 1:
            item, = items  # placing a single request takes fewer statements; later requests wait for the next batch
            item.placed = self._placer.place(item.demand.request, item.demand.uuids)
            return
        hosts = self._table.hosts(fresh_s=FRESH_S)
        decisions = decision.decide(hosts, [item.demand for item in items], self._rules)
        for item, each in zip(items, decisions, strict=True):
            item.error = each.error
        chosen = {number: each for number, each in enumerate(decisions) if each.rankings is not None}
        for number, placed in self._claimers.current().claim_batch(hosts, chosen).items():
            items[number].placed = placed
