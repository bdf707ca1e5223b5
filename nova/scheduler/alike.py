"""Servers of one batch that ask for the same: all hosts are looked at once, and each gets what it would get alone.

Between two of them only those hosts change that were taken. What they weigh is computed again, by the formula of
``weights.score``. Whether such a host still passes the filters matters in two cases: it would be chosen, or it may be
what the weights of all are normalised by. In these cases all hosts are looked at anew.
"""
import numpy as np

from nova.scheduler import filters
from nova.scheduler import pipeline
from nova.scheduler import weights

READ = ('flavor', 'image', 'project_id', 'user_id')      # of a spec: what filters and weighers of the system go by


def known(using, weighers):
    """Whether these filters and weighers go by hosts and requests alone: those that come with the system do."""
    ours = set(filters.builtin_filters().values())
    return all(type(each) in ours for each in using) and all(type(each) is weights.Weigher for each in weighers)


def simple(request, instance_uuids):
    """Whether a request is for one server, and for numbers; with nothing that was looked up beside the table."""
    return (len(instance_uuids) == 1 and not request.facts and not request.extras and not request.limiting
            and request.group is None and request.spec is not None and not request.spec.hints)


def _shape(request):
    """What decides of a ``simple`` request: equal ones find the same hosts."""
    return (request.asked, request.zone, request.host, request.node, request.forced, request.tried, request.ignored,
            request.aggregate, request.hypervisor, request.requirements, request.cell, request.closed,
            *(getattr(request.spec, name) for name in READ))


class Alike:
    """
    :param hosts: a view that only ``consume`` changes
    :param request: one of the ``simple`` requests
    """

    def __init__(self, hosts, request, using, weighers, order, most):
        self._hosts, self._request, self._shape = hosts, request, _shape(request)
        self._filters, self._weighers, self._order, self._most = using, weighers, order, most
        self._left = None                  # positions that pass, or did when they were looked at

    def fits(self, request):
        """Whether another request is for the same."""
        return self._shape == _shape(request)

    def choose(self, instance_uuid):
        """A ranking as ``pipeline.choose`` gives it; None when no host is left."""
        if self._left is None or not self._follow():
            self._look()
        if not len(self._left):
            return None
        ranking = self._ranked(instance_uuid)
        if not self._taken.isdisjoint(ranking.tolist()):
            self._look()
            if not len(self._left):
                return None
            ranking = self._ranked(instance_uuid)
        return ranking

    def _ranked(self, instance_uuid):
        return pipeline.ranked(self._hosts, self._left, self._score, instance_uuid, self._order, self._most)

    def _look(self):
        """Look at all hosts."""
        self._view = self._hosts.of(self._request)
        self._left, _ = pipeline.survivors(self._view, self._request, self._filters)
        self._seen, self._taken = len(self._hosts.placed), set()
        self._spans, score = [], None
        for each in self._weighers if len(self._left) else ():
            span = _Span(self._view, self._left, each)
            self._spans.append(span)
            if span.tells:
                part = weights.scaled(span.multiplier, span.values, span.low, span.high)
                score = part if score is None else np.add(score, part, out=score)
        self._score = pipeline.rounded(np.zeros(len(self._left)) if score is None else score)

    def _follow(self):
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

    def _weigh(self, index, position):
        score, again = None, position in self._taken
        for span in self._spans:
            if not span.counts:
                continue
            values = span.weigher.values(self._view)
            if values is not None:
                values = values[position:position + 1]
            if not span.holds(index, values, again):
                return False
            if span.tells:
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

    counts   whether its multiplier is another than 0
    tells    whether its values differ
    """

    def __init__(self, view, left, weigher):
        self.weigher = weigher
        self.multiplier, values = weigher.weigh(view, left)
        self.counts = isinstance(self.multiplier, np.ndarray) or self.multiplier != 0
        self.values = None if values is None else values.copy()          # the view's own change
        self.tells = False
        if values is not None:
            self.low, self.high = self.values.min(), self.values.max()
            self.tells = bool(self.low != self.high)
            self._lowest = self._highest = None

    def holds(self, index, values, again):
        """Whether the span is the same whether the host at this index, which was taken, still passes or not.

        :param values: what the weigher says of it now
        :param again: it was taken before already
        """
        if values is None or self.values is None:
            return values is self.values
        value, before = values[0], self.values[index]
        if value < self.low or value > self.high:
            return False
        if again:
            return True
        return self._others('_lowest', before, self.low) and self._others('_highest', before, self.high)

    def _others(self, name, before, end):
        """Whether hosts that were not taken are left at an end of the span."""
        if before != end:
            return True
        count = getattr(self, name)
        count = (np.count_nonzero(self.values == end) if count is None else count) - 1
        setattr(self, name, count)
        return count > 0
