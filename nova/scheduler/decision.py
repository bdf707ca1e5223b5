"""The scheduler's decision: a ranking of hosts for each server. This module does no I/O."""
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
from nova.scheduler.placement_request import Request
from nova.scheduler.filters import base

BATCH = 64  # maximum number of servers in a batch; larger batches delay their requests


Selections = list[objects.Selection]  # the host of a server, or [] if the server no longer waits for a host
Positions = collections.abc.Sequence[int] | np.ndarray  # positions of hosts in the host view, best first


@dataclasses.dataclass(frozen=True)
class Rules:
    """Configuration of host selection.

    tie_break   choice between hosts of equal weight
    """

    filters: tuple[base.Filter, ...]
    weighers: tuple[weights.AnyWeigher, ...]
    tie_break: pipeline.TieBreak = pipeline.SPREAD

    @functools.cached_property
    def all_builtin(self) -> bool:
        """Tell whether no filter or weigher is a plugin; then equal requests have equal rankings."""
        return request_classes.all_builtin(self.filters, self.weighers)

    @property
    def ranked(self) -> int:
        """Number of hosts to rank in a batch: one host, or candidates for a random choice."""
        return 1 if self.tie_break.subset == 1 else pipeline.MAX_CANDIDATES


def selection(hosts: host_view.Hosts, position: int) -> objects.Selection:
    """Return the Selection of a host."""
    return objects.Selection(cell_uuid=hosts.rows[position]['cell'], host=hosts.host[position],
                             node=hosts.node[position], availability_zone=hosts.zone[position])


@dataclasses.dataclass(frozen=True)
class Demand:
    """The servers of one request, which are placed all together or not at all."""

    request: Request
    uuids: collections.abc.Sequence[str]

    @property
    def batchable(self) -> bool:
        """Tell whether a batch can place the demand: it must have no group, no special resources and no limits."""
        request = self.request
        return (request.group is None and not request.special and not request.limiting
                and len(self.uuids) <= BATCH)

    @property
    def enough_hosts(self) -> int | None:
        """Maximum length of a ranking. None: rank all hosts, because many hosts may lack the special resources."""
        return pipeline.MAX_CANDIDATES if self.batchable else None


@dataclasses.dataclass(frozen=True)
class Decision:
    """The result for a demand; exactly one of ``rankings``, ``no_candidates`` and ``error`` is set.

    rankings        {uuid: positions in the view, best first}
    no_candidates   the reason why no host is left
    error           exception of a filter or weigher
    """

    demand: Demand
    rankings: dict[str, Positions] | None = None
    no_candidates: pipeline.NoCandidates | None = None
    error: Exception | None = None

    @property
    def chosen(self) -> list[int]:
        """Position of the best host for each server, in the order of the demand's servers."""
        return [int(ranking[0]) for ranking in (self.rankings or {}).values()]


def decide(hosts: host_view.Hosts, demands: collections.abc.Sequence[Demand], rules: Rules) -> list[Decision]:
    """Return a Decision for each demand; the hosts chosen for earlier demands have less room for later ones.

    :param hosts: host view, which is not changed
    """
    if len(demands) == 1:
        return [_decide(demands[0], lambda demand: _select(hosts, demand, rules, demand.enough_hosts))]
    batch = _Batch(hosts.copy(), rules)
    return [_decide(demand, batch.select) for demand in demands]


Selected = list[pipeline.Ranking] | pipeline.NoCandidates


def _decide(demand: Demand, select: collections.abc.Callable[[Demand], Selected]) -> Decision:
    try:
        found = select(demand)
    except Exception as error:  # e.g. from a plugin; the error must not fail other demands
        return Decision(demand, error=error)
    if isinstance(found, pipeline.NoCandidates):
        return Decision(demand, no_candidates=found)
    return Decision(demand, dict(zip(demand.uuids, found, strict=True)))


def _select(hosts: host_view.Hosts, demand: Demand, rules: Rules, enough_hosts: int | None) -> Selected:
    return pipeline.select(hosts, demand.request, rules.filters, rules.weighers, demand.uuids, rules.tie_break,
                           enough_hosts)


class _Batch:
    """Decides about demands in order.

    :param hosts: a view that this object may change
    """

    def __init__(self, hosts: host_view.Hosts, rules: Rules) -> None:
        self._hosts, self._rules = hosts, rules
        self._classes: list[request_classes.RequestClass] = []

    def select(self, demand: Demand) -> Selected:
        simple = self._rules.all_builtin and request_classes.simple(demand.request, demand.uuids)
        found = (self._class_of(demand.request).select(demand.uuids[0]) if simple else
                 _select(self._hosts, demand, self._rules, pipeline.MAX_CANDIDATES))
        if not isinstance(found, pipeline.NoCandidates):
            for ranking in found:
                self._hosts.consume(ranking[0], demand.request.resources)
        return found

    def _class_of(self, request: Request) -> request_classes.RequestClass:
        """Return the class of a request, and create the class for its first request."""
        for each in self._classes:
            if each.includes(request):
                return each
        rules = self._rules
        weighers = [each for each in rules.weighers if isinstance(each, weights.Weigher)]  # for the type checker only
        self._classes.append(request_classes.RequestClass(
            self._hosts, request, rules.filters, weighers, rules.tie_break, rules.ranked))
        return self._classes[-1]


def rankings_of(decision: Decision) -> dict[str, Positions]:
    """Return the rankings of a decision.

    :raises NoValidHost: no host is left
    :raises Exception: the error of a filter or a weigher
    """
    if decision.error is not None:
        raise decision.error
    if decision.no_candidates is not None:
        raise decision.no_candidates.no_valid_host()
    if decision.rankings is None:
        raise exception.NoValidHost(reason='', details='')
    return decision.rankings
