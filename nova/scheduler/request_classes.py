"""Classes of equivalent requests in a batch: filters and weighers evaluate all hosts once for all requests of a class.

After each request only the chosen host has changed, so only its weight is computed again. All hosts are evaluated again
if a ranking contains a host that was chosen before, because that host may no longer pass the filters. This also happens
if the range of a weigher's values may have changed.
"""
import collections.abc
import typing

import numpy as np

from nova.scheduler import filters
from nova.scheduler import host_view
from nova.scheduler import pipeline
from nova.scheduler import weights
from nova.scheduler.placement_request import Request
from nova.scheduler.filters import base

READ = ('flavor', 'image', 'project_id', 'user_id')  # fields of a spec that built-in filters and weighers read


def all_builtin(using: collections.abc.Iterable[base.Filter],
                weighers: collections.abc.Iterable[weights.AnyWeigher]) -> bool:
    """Tell whether all filters and weighers are built-in, so that results depend only on hosts and request."""
    ours = set(filters.builtin_filters().values())
    return all(type(each) in ours for each in using) and all(type(each) is weights.Weigher for each in weighers)


def simple(request: Request, instance_uuids: collections.abc.Sequence[str]) -> bool:
    """Tell whether a request is for one server, without group, hints, special resources, facts or limiting filters."""
    return (len(instance_uuids) == 1 and not request.facts and not request.special and not request.limiting
            and request.group is None and request.spec is not None and not request.spec.hints)


def _key(request: Request) -> tuple[typing.Any, ...]:
    """Return a key of a ``simple`` request. The same hosts pass for requests with equal keys."""
    return (request.resources, request.zone, request.host, request.node, request.forced, request.failed_nodes,
            request.ignored, request.aggregate, request.hypervisor, request.requirements, request.cell,
            request.disabled_cells, *(getattr(request.spec, name) for name in READ))


class RequestClass:
    """A class of equivalent requests.

    :param hosts: view that changes only by ``consume``
    :param request: any ``simple`` request of the class
    :param enough_hosts: number of hosts that a ranking needs
    """

    def __init__(self, hosts: host_view.Hosts, request: Request,
                 using: collections.abc.Sequence[base.Filter], weighers: collections.abc.Sequence[weights.Weigher],
                 tie_break: pipeline.TieBreak, enough_hosts: int | None) -> None:
        self._hosts, self._request, self._key = hosts, request, _key(request)
        self._filters, self._weighers, self._order, self._enough_hosts = using, weighers, tie_break, enough_hosts
        self._left = np.empty(0, dtype=np.int64)  # positions that passed in the last evaluation
        self._looked = False

    def includes(self, request: Request) -> bool:
        """Tell whether the class includes a request."""
        return self._key == _key(request)

    def select(self, instance_uuid: str) -> list[pipeline.Ranking] | pipeline.NoCandidates:
        """Return the result of ``pipeline.select`` for one server."""
        if not self._looked or not self._update():
            self._look()
        if not len(self._left):
            return self._no_candidates()
        ranking = self._ranked(instance_uuid)
        if not self._taken.isdisjoint(ranking.tolist()):
            self._look()
            if not len(self._left):
                return self._no_candidates()
            ranking = self._ranked(instance_uuid)
        return [ranking]

    def _no_candidates(self) -> pipeline.NoCandidates:
        return pipeline.NoCandidates(self._view, self._request, self._filters, self._steps, 0, 1)

    def _ranked(self, instance_uuid: str) -> pipeline.Ranking:
        return pipeline.ranked(self._hosts, self._left, self._score, instance_uuid, self._order, self._enough_hosts)

    def _look(self) -> None:
        """Evaluate all hosts."""
        self._view = self._request.view(self._hosts)
        self._left, self._steps = pipeline.survivors(self._view, self._request, self._filters)
        self._looked = True
        self._seen, self._taken = len(self._hosts.placed), set[int]()
        self._spans: list[_ValueRange] = []
        score = None
        for each in self._weighers if len(self._left) else ():
            span = _ValueRange(self._view, self._left, each)
            self._spans.append(span)
            if span.differs and span.values is not None:
                part = weights.scaled(span.multiplier, span.values, span.low, span.high)
                score = part if score is None else np.add(score, part, out=score)
        self._score = pipeline.rounded(np.zeros(len(self._left)) if score is None else score)

    def _update(self) -> bool:
        """Compute the weights of hosts chosen since the last call. Return False if all hosts need a new evaluation."""
        placed = self._hosts.placed
        while self._seen < len(placed):
            position = placed[self._seen]
            self._seen += 1
            index = int(np.searchsorted(self._left, position))
            if index == len(self._left) or self._left[index] != position:
                return False  # the host did not pass the filters, but it may pass after the change
            if not self._weigh(index, position):
                return False
            self._taken.add(position)
        return True

    def _weigh(self, index: int, position: int) -> bool:
        score, again = None, position in self._taken
        for span in self._spans:
            if not span.counts:
                continue
            values = span.weigher.values(self._view)
            if values is not None:
                values = values[position:position + 1]
            if not span.holds(index, values, again):
                return False
            if span.differs and values is not None:
                multiplier = span.multiplier
                if isinstance(multiplier, np.ndarray):
                    multiplier = multiplier[index:index + 1]
                part = weights.scaled(multiplier, values, span.low, span.high)
                score = part if score is None else score + part
        if score is not None:
            self._score[index] = pipeline.rounded(score)[0]
        return True


class _ValueRange:
    """Values of a weigher for the hosts at ``left``, with minimum and maximum.

    counts    whether the weigher's multiplier is not 0, so that the values affect the weight
    differs   whether the values are not all equal, so that they affect the ranking
    """

    def __init__(self, view: host_view.Hosts, left: np.ndarray, weigher: weights.Weigher) -> None:
        self.weigher = weigher
        self.multiplier, values = weigher.weigh(view, left)
        self.counts = isinstance(self.multiplier, np.ndarray) or self.multiplier != 0
        self.values = None if values is None else values.copy()  # a copy, because ``consume`` changes the view's arrays
        self.differs = False
        if self.values is not None:
            self.low, self.high = self.values.min(), self.values.max()
            self.differs = bool(self.low != self.high)
            self._at_end: dict[float, int] = {}  # {minimum or maximum: number of unchosen hosts with that value}

    def holds(self, index: int, values: np.ndarray | None, again: bool) -> bool:
        """Tell whether minimum and maximum are certainly unchanged, even if the chosen host no longer passes.

        :param values: array with the weigher's present value for this host
        :param again: whether the host was chosen before
        """
        if values is None or self.values is None:
            return values is self.values
        value, before = values[0], self.values[index]
        if value < self.low or value > self.high:
            return False
        return again or before not in (self.low, self.high) or self._others_at(before)

    def _others_at(self, end: float) -> bool:
        """Record that a host with the value ``end`` was chosen. Tell whether unchosen hosts with that value remain."""
        if end not in self._at_end:
            self._at_end[end] = int(np.count_nonzero(self.values == end))
        self._at_end[end] -= 1
        return self._at_end[end] > 0
