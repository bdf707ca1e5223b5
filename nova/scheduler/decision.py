"""The scheduler's decision: which hosts suit which servers. Nothing is read, written or waited for here."""
import collections.abc
import dataclasses
import functools

import numpy as np

from nova import exception
from nova import objects
from nova.scheduler import host_view
from nova.scheduler import pipeline
from nova.scheduler import request_classes
from nova.scheduler import weights
from nova.scheduler.filters import base

BATCH = 64               # servers of one batch; with more, the requests of a batch wait for longer


Positions = collections.abc.Sequence[int] | np.ndarray            # of hosts, the best first


@dataclasses.dataclass(frozen=True)
class Rules:
    """By what hosts are chosen.

    order       how one of several hosts of equal weight is chosen
    alternates  further hosts that a caller learns for each server
    """

    filters: tuple[base.Filter, ...]
    weighers: tuple[weights.AnyWeigher, ...]
    order: pipeline.Order = pipeline.SPREAD
    alternates: int = 0

    @functools.cached_property
    def are_known(self) -> bool:
        """Whether equal requests find equal hosts; see request_classes."""
        return request_classes.known(self.filters, self.weighers)

    @property
    def ranked(self) -> int:
        """Hosts of a ranking of which a batch needs to know: those that the caller learns, or may be chosen among."""
        return 1 + self.alternates if self.order.subset == 1 else pipeline.MOST

    def selections(self, hosts: host_view.Hosts,
                   ranking: Positions) -> list[objects.Selection]:
        """The host at the head of a ranking, and its alternates."""
        return [objects.Selection(cell_uuid=hosts.rows[position]['cell'], host=hosts.host[position],
                                  node=hosts.node[position], availability_zone=hosts.zone[position])
                for position in ranking[:1 + self.alternates]]


@dataclasses.dataclass(frozen=True)
class Demand:
    """Servers that are to be placed by one request: all of them, or none."""

    request: pipeline.Request
    uuids: collections.abc.Sequence[str]

    @property
    def batchable(self) -> bool:
        """Whether it may be one of a batch: it takes counted resources alone."""
        request = self.request
        return (request.group is None and not request.special and not request.limiting
                and len(self.uuids) <= BATCH)

    @property
    def most(self) -> int | None:
        """Hosts of a ranking that are enough; a claim of more than counted resources may be refused by many."""
        return pipeline.MOST if self.batchable else None


@dataclasses.dataclass(frozen=True)
class Decision:
    """What was decided of a demand: one of ``rankings``, ``shortage`` and ``error``.

    rankings   {uuid: positions of the view, the best first}
    shortage   why no host is left
    error      what a filter or a weigher raised
    """

    demand: Demand
    rankings: dict[str, Positions] | None = None
    shortage: pipeline.Shortage | None = None
    error: Exception | None = None

    @property
    def chosen(self) -> list[int]:
        """The first position of each ranking, in the order of the demand's servers."""
        return [int(ranking[0]) for ranking in (self.rankings or {}).values()]


def decide(hosts: host_view.Hosts, demands: collections.abc.Sequence[Demand], rules: Rules) -> list[Decision]:
    """The plan for some demands: a Decision for each, as if each took what it chose before the next one chooses.

    :param hosts: a view, which stays as it is
    """
    if len(demands) == 1:
        return [_decide(demands[0], lambda demand: _select(hosts, demand, rules, demand.most))]
    batch = _Batch(hosts.copy(), rules)
    return [_decide(demand, batch.select) for demand in demands]


Selected = list[pipeline.Ranking] | pipeline.Shortage


def _decide(demand: Demand, select: collections.abc.Callable[[Demand], Selected]) -> Decision:
    try:
        found = select(demand)
    except Exception as error:               # of a filter of the operator's, for one; the other demands go on
        return Decision(demand, error=error)
    if isinstance(found, pipeline.Shortage):
        return Decision(demand, shortage=found)
    return Decision(demand, dict(zip(demand.uuids, found, strict=True)))


def _select(hosts: host_view.Hosts, demand: Demand, rules: Rules, most: int | None) -> Selected:
    return pipeline.select(hosts, demand.request, rules.filters, rules.weighers, demand.uuids, rules.order, most)


class _Batch:
    """Demands that are decided one after the other.

    :param hosts: a view that is this one's own
    """

    def __init__(self, hosts: host_view.Hosts, rules: Rules) -> None:
        self._hosts, self._rules = hosts, rules
        self._classes: list[request_classes.RequestClass] = []

    def select(self, demand: Demand) -> Selected:
        simple = self._rules.are_known and request_classes.simple(demand.request, demand.uuids)
        found = (self._of_class(demand.request).select(demand.uuids[0]) if simple else
                 _select(self._hosts, demand, self._rules, pipeline.MOST))
        if not isinstance(found, pipeline.Shortage):
            for ranking in found:
                self._hosts.consume(ranking[0], demand.request.resources)
        return found

    def _of_class(self, request: pipeline.Request) -> request_classes.RequestClass:
        """The class of a request; the first one of it makes it."""
        for each in self._classes:
            if each.includes(request):
                return each
        rules = self._rules
        weighers = [each for each in rules.weighers if isinstance(each, weights.Weigher)]      # all: they are known
        self._classes.append(request_classes.RequestClass(
            self._hosts, request, rules.filters, weighers, rules.order, rules.ranked))
        return self._classes[-1]


def rankings_of(decision: Decision) -> dict[str, Positions]:
    """The rankings of a decision.

    :raises NoValidHost: no host is left
    :raises Exception: what a filter or a weigher raised
    """
    if decision.error is not None:
        raise decision.error
    if decision.shortage is not None:
        raise decision.shortage.refusal()
    if decision.rankings is None:
        raise exception.NoValidHost(reason='', details='')
    return decision.rankings
