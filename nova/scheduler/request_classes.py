"""Equivalent requests of one batch: all hosts are looked at once, and each server gets what it would get by itself.

Between two of them only those hosts change that were taken. What they weigh is computed again, by the formula of
``weights.score``. Whether such a host still passes the filters matters in two cases: it would be chosen, or it may be
what the weights of all are normalised by. In these cases all hosts are looked at again.
"""
from __future__ import annotations

import collections.abc
import typing

import numpy as np

from nova.scheduler import filters
from nova.scheduler import host_view
from nova.scheduler import pipeline
from nova.scheduler import weights
from nova.scheduler.filters import base

READ = ('flavor', 'image', 'project_id', 'user_id')      # of a spec: what filters and weighers of the system go by


def known(using: collections.abc.Iterable[base.Filter], weighers: collections.abc.Iterable[weights.AnyWeigher]) -> bool:
    """Whether these filters and weighers go by hosts and requests alone: those that come with the system do."""
    ours = set(filters.builtin_filters().values())
    return all(type(each) in ours for each in using) and all(type(each) is weights.Weigher for each in weighers)


def simple(request: pipeline.Request, instance_uuids: collections.abc.Sequence[str]) -> bool:
    """Whether a request is for one server and counted resources, with nothing that was read besides the table."""
    return (len(instance_uuids) == 1 and not request.facts and not request.special and not request.limiting
            and request.group is None and request.spec is not None and not request.spec.hints)


def _key(request: pipeline.Request) -> tuple[typing.Any, ...]:
    """What decides of a ``simple`` request: equal ones find the same hosts."""
    return (request.resources, request.zone, request.host, request.node, request.forced, request.tried,
            request.ignored, request.aggregate, request.hypervisor, request.requirements, request.cell, request.closed,
            *(getattr(request.spec, name) for name in READ))


class RequestClass:
    """
    :param hosts: a view that only ``consume`` changes
    :param request: one of the ``simple`` requests
    :param most: hosts of a ranking that are enough
    """

    def __init__(self, hosts: host_view.Hosts, request: pipeline.Request,
                 using: collections.abc.Sequence[base.Filter], weighers: collections.abc.Sequence[weights.Weigher],
                 order: pipeline.Order, most: int | None) -> None:
        self._hosts, self._request, self._key = hosts, request, _key(request)
        self._filters, self._weighers, self._order, self._most = using, weighers, order, most
        self._left = np.empty(0, dtype=np.int64)     # positions that pass, or did when they were looked at
        self._looked = False

    def includes(self, request: pipeline.Request) -> bool:
        """Whether another request is equivalent."""
        return self._key == _key(request)

    def select(self, instance_uuid: str) -> list[pipeline.Ranking] | pipeline.Shortage:
        """What ``pipeline.select`` gives for one server."""
        if not self._looked or not self._update():
            self._look()
        if not len(self._left):
            return self._shortage()
        ranking = self._ranked(instance_uuid)
        if not self._taken.isdisjoint(ranking.tolist()):
            self._look()
            if not len(self._left):
                return self._shortage()
            ranking = self._ranked(instance_uuid)
        return [ranking]

    def _shortage(self) -> pipeline.Shortage:
        return pipeline.Shortage(self._view, self._request, self._filters, self._steps, 0, 1)

    def _ranked(self, instance_uuid: str) -> pipeline.Ranking:
        return pipeline.ranked(self._hosts, self._left, self._score, instance_uuid, self._order, self._most)

    def _look(self) -> None:
        """Look at all hosts."""
        self._view = self._hosts.of(self._request)
        self._left, self._steps = pipeline.survivors(self._view, self._request, self._filters)
        self._looked = True
        self._seen, self._taken = len(self._hosts.placed), set[int]()
        self._spans: list[_Span] = []
        score = None
        for each in self._weighers if len(self._left) else ():
            span = _Span(self._view, self._left, each)
            self._spans.append(span)
            if span.differs and span.values is not None:
                part = weights.scaled(span.multiplier, span.values, span.low, span.high)
                score = part if score is None else np.add(score, part, out=score)
        self._score = pipeline.rounded(np.zeros(len(self._left)) if score is None else score)

    def _update(self) -> bool:
        """Take over what was taken since the last time; False: all hosts have to be looked at."""
        placed = self._hosts.placed
        while self._seen < len(placed):
            position = placed[self._seen]
            self._seen += 1
            index = int(np.searchsorted(self._left, position))
            if index == len(self._left) or self._left[index] != position:
                return False               # it did not pass, and may now, where a request is for hosts with little left
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


class _Span:
    """What a weigher says of the hosts at ``left``: its values and how far they go.

    counts    whether its multiplier is another than 0
    differs   whether its values do
    """

    def __init__(self, view: host_view.Hosts, left: np.ndarray, weigher: weights.Weigher) -> None:
        self.weigher = weigher
        self.multiplier, values = weigher.weigh(view, left)
        self.counts = isinstance(self.multiplier, np.ndarray) or self.multiplier != 0
        self.values = None if values is None else values.copy()          # the view's own change
        self.differs = False
        if self.values is not None:
            self.low, self.high = self.values.min(), self.values.max()
            self.differs = bool(self.low != self.high)
            self._at_end: dict[float, int] = {}          # {end of the span: hosts there that were not taken}

    def holds(self, index: int, values: np.ndarray | None, again: bool) -> bool:
        """Whether the span is the same whether the host at this index, which was taken, still passes or not.

        :param values: what the weigher says of it now
        :param again: it was taken before already
        """
        if values is None or self.values is None:
            return values is self.values
        value, before = values[0], self.values[index]
        if value < self.low or value > self.high:
            return False
        return again or before not in (self.low, self.high) or self._others_at(before)

    def _others_at(self, end: float) -> bool:
        """Whether hosts that were not taken are left at an end of the span, of which one was taken now."""
        if end not in self._at_end:
            self._at_end[end] = int(np.count_nonzero(self.values == end))
        self._at_end[end] -= 1
        return self._at_end[end] > 0
