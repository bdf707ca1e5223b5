"""Choosing hosts: pure functions of a view of the hosts and of what is asked for."""
import contextlib
import dataclasses
import itertools
import uuid as uuidlib
import zlib

import numpy as np

from nova import exception
from nova.scheduler import explain
from nova.scheduler import groups
from nova.scheduler import weights
from nova.scheduler.filters import base

MOST = 16               # best hosts that a claim tries before it looks anew
BLOCK = 64              # hosts of which the best one is looked at first
MAX_TOGETHER = 100      # places that are tried for servers of one request that must stand together

_64 = 2 ** 64 - 1
_ODD, _ODDER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)      # multipliers that mix bits well


@dataclasses.dataclass(frozen=True)
class Request:
    """What one server asks of a host.

    asked       {resource: amount}, see db.claims.resources
    zone, host, node   None: any
    cell        uuid of the cell in which the server stays; None: any
    closed      uuids of cells that get no new servers, in order
    forced      an administrator forces the host: only filters about room are asked besides it
    tried       [(host, node)] where building it has failed
    ignored     names of hosts that are out of the question
    aggregate   id of the one aggregate whose hosts are meant, None: any
    hypervisor  type of the hypervisor that can take over the guest, None: any
    group       scheduler.groups.Group that the server is a member of
    spec        the whole objects.RequestSpec
    facts       {name of a filter: what it asked beside the table}, see filters.facts
    limiting    filters whose ``limits`` the claim has to keep to
    extras      what it takes of a node besides numbers: a tuple of claiming.Extra
    requirements   {key: value} that the server's instance category requires of hosts
    """

    asked: dict
    zone: str | None = None
    host: str | None = None
    node: str | None = None
    forced: bool = False
    tried: tuple = ()
    ignored: tuple = ()
    aggregate: int | None = None
    hypervisor: str | None = None
    group: object = None
    spec: object = None
    facts: dict = dataclasses.field(default_factory=dict)
    limiting: tuple = ()
    extras: tuple = ()
    requirements: dict = dataclasses.field(default_factory=dict)
    cell: str | None = None
    closed: tuple = ()

    @property
    def zones(self):
        """The zones any of which will do; only where ``zone`` is not None."""
        return {self.zone, *(part.strip() for part in self.zone.split(','))}


@dataclasses.dataclass(frozen=True)
class Order:
    """How hosts of equal weight, or nearly so, are told apart.

    subset    one of so many of the best is taken, which one the server's uuid decides
    shuffle   equals come in an order that differs from server to server, so that they spread; False: as in the table
    """

    subset: int = 1
    shuffle: bool = True


SPREAD = Order()


def narrow(hosts, request, filters):
    """(positions of the hosts that pass all filters, [explain.Removal] of those filters that removed some)."""
    left, steps = survivors(hosts, request, filters)
    return left, _removals(hosts, request, steps)


def survivors(hosts, request, filters):
    """(positions of the hosts that pass all filters, [(filter, mask before, mask after)] of those that removed)."""
    passing, count, steps = hosts.everything, len(hosts), []
    for each in filters:
        if not explain.asks(each, request):
            continue
        if type(each).among is base.Filter.among:
            mask = each.mask(hosts, request)
            if mask is hosts.everything:
                continue
            after = passing & mask
        else:
            left = np.flatnonzero(passing)
            judged = each.among(hosts, request, left)
            if judged is None:
                continue
            after = np.zeros(len(hosts), dtype=bool)
            after[left[judged]] = True
        number = np.count_nonzero(after)
        if number != count:
            steps.append((each, passing, after))
            passing, count = after, number
    if count == len(hosts):
        return hosts.once('every position', lambda: np.arange(len(hosts))), steps
    return np.flatnonzero(passing), steps


def _removals(hosts, request, steps):
    return [explain.removal(each, hosts, request, np.flatnonzero(before & ~after)) for each, before, after in steps]


def rank(hosts, positions, weighers, instance_uuid, order=SPREAD, most=None):
    """The positions, best first; equals as ``order`` says, by a dice of the server's uuid and the node's number.

    :param most: so many are enough
    """
    return ranked(hosts, positions, rounded(weights.score(hosts, positions, weighers)), instance_uuid, order, most)


def rounded(score):
    """Scores of which those that differ by rounding alone are equal."""
    return np.rint(score * 1e9)


def ranked(hosts, positions, score, instance_uuid, order=SPREAD, most=None):
    """``rank`` by these scores of the positions, which ``rounded`` gave."""
    seed = uuidlib.UUID(instance_uuid).int
    if most == 1 and order.subset == 1:
        best = np.flatnonzero(score == score.max())
        best = positions if len(best) == len(positions) else positions[best]
        return best[_dice(hosts, best, seed, order).argmax():][:1]
    some = _highest(score, most)
    if some is None:
        dice = _dice(hosts, positions, seed, order)
    else:
        threshold, some = some
        dice = _dice(hosts, positions[some], seed, order)
        if len(some) > 4 * most:                       # many equals at the end: so many of them are enough
            equal = score[some] == threshold
            found = _highest(np.where(equal, dice, np.iinfo(np.uint64).max), most + np.count_nonzero(~equal))
            if found is not None:
                some, dice = some[found[1]], dice[found[1]]
        positions, score = positions[some], score[some]
    found = positions[np.lexsort((~dice, -score))][:most]
    if order.subset > 1:
        best = found[:order.subset]
        found = np.concatenate((best[np.argsort(_dice(hosts, best, ~seed, SPREAD))], found[order.subset:]))
    return found


def _highest(values, most):
    """(a number that at least ``most`` of the values reach, positions of those that do); None: take all.

    No sort: so many blocks of the array have a maximum that reaches it.
    """
    blocks = len(values) // BLOCK
    if most is None or blocks <= most:
        return None
    whole = blocks * BLOCK
    maxima = values[:whole].reshape(blocks, BLOCK).max(axis=1)
    threshold = np.partition(maxima, blocks - most)[blocks - most]
    return threshold, np.flatnonzero(values >= threshold)


def _dice(hosts, positions, seed, order):
    """A number for each position, evenly spread over 64 bits."""
    if not order.shuffle:
        return np.uint64(len(hosts)) - positions.astype(np.uint64)
    mixed = hosts.once('dice', lambda: _mixed(hosts))
    dice = (mixed if len(positions) == len(hosts) else mixed[positions]) ^ np.uint64((seed ^ seed >> 64) & _64)
    dice *= _ODD
    dice ^= dice >> np.uint64(32)
    dice *= _ODDER
    return dice


def _mixed(hosts):
    """Numbers of the nodes, those of different cells apart, as noise."""
    values, cells = hosts.distinct('cell')
    salt = np.array([zlib.crc32((value or '').encode()) for value in values], dtype=np.uint64)
    mixed = (hosts.ids.astype(np.uint64) + (salt[cells] << np.uint64(32))) * _ODDER
    return (mixed ^ mixed >> np.uint64(29)) * _ODD


def choose(hosts, request, filters, weighers, instance_uuids, order=SPREAD, most=None):
    """A ranking of host positions for each server, as if each took its first choice before the next chooses.

    :param order: an Order
    :param most: so many hosts of each ranking are enough
    :raises NoValidHost: with ``reason`` and ``details``; for one of them is for all of them
    """
    try:
        return _choose(hosts, request, filters, weighers, instance_uuids, order, most)
    except exception.NoValidHost:
        together = request.group is not None and request.group.policies & groups.TOGETHER
        if not together or len(instance_uuids) == 1 or request.group.members:
            raise
        # The place that is best for the first of them has no room for all; another one may have.
        left, _ = narrow(joined(hosts, request), request, filters)
        ranking = rank(hosts.of(request), left, weighers, instance_uuids[0], order)
        for narrower in itertools.islice(groups.places(request, hosts, ranking), MAX_TOGETHER):
            with contextlib.suppress(exception.NoValidHost):
                return _choose(hosts, narrower, filters, weighers, instance_uuids, order, most)
        raise


def joined(hosts, request):
    """A view of the hosts that may be changed, with the members of the request's group on them."""
    return hosts.copy().of(request)


def _choose(hosts, request, filters, weighers, instance_uuids, order, most):
    changing = len(instance_uuids) > 1
    hosts = joined(hosts, request) if changing else hosts.of(request)
    rankings = []
    for uuid in instance_uuids:
        left, steps = survivors(hosts, request, filters)
        if not len(left):
            raise explain.refusal(hosts, request, filters, _removals(hosts, request, steps), len(rankings),
                                  len(instance_uuids))
        ranking = rank(hosts, left, weighers, uuid, order, most)
        rankings.append(ranking)
        if changing:
            hosts.consume(ranking[0], request.asked)
            for extra in request.extras:
                extra.consume(hosts, ranking[0])
    return rankings
