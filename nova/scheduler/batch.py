"""Batch placement: waiting requests get hosts from one view of the host table; one transaction claims the hosts.

A batch saves SQL statements and does not change decisions:
* Each request sees the claims of the requests before it.
* The claim locks the rows of the nodes and checks their resources. If the chosen hosts have no room for a request, the
  request is placed separately. If any server no longer waits for a host, all requests are placed separately.
* A request that raises an error does not affect the other requests.
"""
import collections.abc

from nova.runtime import batching
from nova.runtime import metrics
from nova.scheduler import claimer
from nova.scheduler import decision
from nova.scheduler import host_table
from nova.scheduler import placement
from nova.scheduler.decision import Selections
from nova.scheduler.placement_request import Request

# maximum age of the host table in seconds under load; the claim checks the free capacity again
FRESH_S = 0.02


class PendingDemand(batching.Item):
    """A demand (the servers of one request) that waits for hosts.

    placed    the selections of each server, or None if the demand must be placed separately
    """

    def __init__(self, demand: decision.Demand) -> None:
        super().__init__(len(demand.uuids))
        self.demand = demand
        self.placed: list[Selections] | None = None


class BatchPlacer:
    """Places requests in batches. Requests that a batch cannot place are passed to ``placer``.

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
        """Set ``placed`` of items that get hosts, and ``error`` of items for which a filter or weigher failed."""
        metrics.PLACEMENT_BATCH.observe(len(items))
        if len(items) == 1 and len(items[0].demand.uuids) == 1:
            item, = items  # the placer of single requests needs fewer SQL statements
            item.placed = self._placer.place(item.demand.request, item.demand.uuids)
            return
        hosts = self._table.hosts(fresh_s=FRESH_S)
        decisions = decision.decide(hosts, [item.demand for item in items], self._rules)
        for item, each in zip(items, decisions, strict=True):
            item.error = each.error
        chosen = {number: each for number, each in enumerate(decisions) if each.rankings is not None}
        for number, placed in self._claimers.current().claim_batch(hosts, chosen).items():
            items[number].placed = placed
