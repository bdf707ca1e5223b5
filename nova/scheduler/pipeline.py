"""Choosing hosts: pure functions of a view of the hosts and of a request."""
from __future__ import annotations

import collections.abc
import dataclasses
import itertools
import typing
import uuid as uuidlib
import zlib

import numpy as np

from nova import exception
from nova import objects
from nova.scheduler import explain
from nova.scheduler import groups
from nova.scheduler import host_view
from nova.scheduler import weights
from nova.scheduler.filters import base
from nova.scheduler.resources import special_resources

MOST = 16               # best hosts that a claim tries before the scheduler looks again
BLOCK = 64              # hosts of which the best one is looked at first
MAX_TOGETHER = 100      # places that are tried for servers of one request with affinity

_64 = 2 ** 64 - 1
_ODD, _ODDER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)      # multipliers that mix bits well

# a filter that removed hosts, the mask before it and the mask behind it
Step = tuple[base.Filter, np.ndarray, np.ndarray]
Ranking = np.ndarray                     # positions, the best first


@dataclasses.dataclass(frozen=True)
class Request:
    """What one server needs of a host.

    resources   {resource: amount}, see db.claims.resources
    zone, host, node   None: any
    cell        uuid of the cell in which the server stays; None: any
    closed      uuids of cells that get no new servers, in order
    forced      an administrator forces the host: only filters about room are consulted besides it
    tried       (host, node) where building it has failed
    ignored     names of hosts that are out of the question
    aggregate   id of the one aggregate whose hosts are meant, None: any
    hypervisor  type of the hypervisor that can take over the guest, None: any
    group       scheduler.groups.Group that the server is a member of
    spec        the whole objects.RequestSpec
    facts       {name of a filter: what it read besides the table}, see filters.facts
    limiting    filters whose ``limits`` the claim has to keep to
    special     special resources that it takes of a node
    requirements   {key: value} that the server's instance category requires of hosts
    """

    resources: dict[str, int]
    zone: str | None = None
    host: str | None = None
    node: str | None = None
    forced: bool = False
    tried: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    aggregate: int | None = None
    hypervisor: str | None = None
    group: groups.Group | None = None
    spec: objects.RequestSpec | None = None
    facts: dict[str, typing.Any] = dataclasses.field(default_factory=dict)
    limiting: tuple[base.Filter, ...] = ()
    special: tuple[special_resources.SpecialResource, ...] = ()
    requirements: dict[str, str] = dataclasses.field(default_factory=dict)
    cell: str | None = None
    closed: tuple[str, ...] = ()

    @property
    def zones(self) -> set[str | None]:
        """The zones any of which will do; only where ``zone`` is not None."""
        return {self.zone, *(part.strip() for part in (self.zone or '').split(','))}


@dataclasses.dataclass(frozen=True)
class Order:
    """How one of several hosts of equal weight, or nearly so, is chosen.

    subset    one of so many of the best is taken, which one the server's uuid decides
    shuffle   equals come in an order that differs from server to server, so that they spread; False: as in the table
    """

    subset: int = 1
    shuffle: bool = True


SPREAD = Order()


def narrow(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter]
           ) -> tuple[np.ndarray, list[explain.Removal]]:
    """(positions of the hosts that pass all filters, what those filters removed that removed some)."""
    left, steps = survivors(hosts, request, filters)
    return left, _removals(hosts, request, steps)


def survivors(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter]
              ) -> tuple[np.ndarray, list[Step]]:
    """(positions of the hosts that pass all filters, the steps of those filters that removed some)."""
    passing, count = hosts.everything, len(hosts)
    steps: list[Step] = []
    for each in filters:
        if not each.applies(request):
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
        number = int(np.count_nonzero(after))
        if number != count:
            steps.append((each, passing, after))
            passing, count = after, number
    if count == len(hosts):
        return hosts.once('every position', lambda: np.arange(len(hosts))), steps
    return np.flatnonzero(passing), steps


def _removals(hosts: host_view.Hosts, request: Request, steps: list[Step]) -> list[explain.Removal]:
    return [explain.removal(each, hosts, request, np.flatnonzero(before & ~after)) for each, before, after in steps]


def rank(hosts: host_view.Hosts, positions: np.ndarray, weighers: collections.abc.Sequence[weights.AnyWeigher],
         instance_uuid: str, order: Order = SPREAD, most: int | None = None) -> Ranking:
    """The positions, best first; equals as ``order`` says, by a hash of the server's uuid and the node's number.

    :param most: so many are enough
    """
    return ranked(hosts, positions, rounded(weights.score(hosts, positions, weighers)), instance_uuid, order, most)


def rounded(score: np.ndarray) -> np.ndarray:
    """Scores of which those that differ by rounding alone are equal."""
    return np.rint(score * 1e9)


def ranked(hosts: host_view.Hosts, positions: np.ndarray, score: np.ndarray, instance_uuid: str,
           order: Order = SPREAD, most: int | None = None) -> Ranking:
    """``rank`` by these scores of the positions, which ``rounded`` gave."""
    seed = uuidlib.UUID(instance_uuid).int
    if most == 1 and order.subset == 1:
        best = np.flatnonzero(score == score.max())
        best = positions if len(best) == len(positions) else positions[best]
        return best[np.argmax(_dice(hosts, best, seed, order)):][:1]
    highest = None if most is None else _highest(score, most)
    if most is None or highest is None:
        dice = _dice(hosts, positions, seed, order)
    else:
        threshold, some = highest
        dice = _dice(hosts, positions[some], seed, order)
        if len(some) > 4 * most:                       # many equals at the end: so many of them are enough
            equal = score[some] == threshold
            enough = most + int(np.count_nonzero(~equal))
            among = _highest(np.where(equal, dice, np.iinfo(np.uint64).max), enough)
            if among is not None:
                some, dice = some[among[1]], dice[among[1]]
        positions, score = positions[some], score[some]
    found: np.ndarray = positions[np.lexsort((~dice, -score))][:most]
    if order.subset > 1:
        first = found[:order.subset]
        found = np.concatenate((first[np.argsort(_dice(hosts, first, ~seed, SPREAD))], found[order.subset:]))
    return found


def _highest(values: np.ndarray, most: int) -> tuple[typing.Any, np.ndarray] | None:
    """(a number that at least ``most`` of the values reach, positions of those that do); None: take all.

    No sort: so many blocks of the array have a maximum that reaches it.
    """
    blocks = len(values) // BLOCK
    if blocks <= most:
        return None
    whole = blocks * BLOCK
    maxima = values[:whole].reshape(blocks, BLOCK).max(axis=1)
    threshold = np.partition(maxima, blocks - most)[blocks - most]
    return threshold, np.flatnonzero(values >= threshold)


def _dice(hosts: host_view.Hosts, positions: np.ndarray, seed: int, order: Order) -> np.ndarray:
    """A number for each position, evenly spread over 64 bits."""
    if not order.shuffle:
        return np.uint64(len(hosts)) - positions.astype(np.uint64)
    mixed = hosts.once('dice', lambda: _mixed(hosts))
    dice = (mixed if len(positions) == len(hosts) else mixed[positions]) ^ np.uint64((seed ^ seed >> 64) & _64)
    dice *= _ODD
    dice ^= dice >> np.uint64(32)
    dice *= _ODDER
    return dice


def _mixed(hosts: host_view.Hosts) -> np.ndarray:
    """Numbers of the nodes, those of different cells apart, as noise."""
    values, cells = hosts.distinct('cell')
    salt = np.array([zlib.crc32((value or '').encode()) for value in values], dtype=np.uint64)
    mixed = (hosts.ids.astype(np.uint64) + (salt[cells] << np.uint64(32))) * _ODDER
    return (mixed ^ mixed >> np.uint64(29)) * _ODD


@dataclasses.dataclass(frozen=True)
class Shortage:
    """No host is left for a server of a request.

    hosts    the view as it was then
    steps    of the filters that removed hosts
    placed   servers of the request that had found room, of the ``requested`` ones
    """

    hosts: host_view.Hosts
    request: Request
    filters: collections.abc.Sequence[base.Filter]
    steps: list[Step]
    placed: int
    requested: int

    def refusal(self) -> exception.NoValidHost:
        """The error that explains it, with ``reason`` and ``details``."""
        return explain.refusal(self.hosts, self.request, self.filters,
                               _removals(self.hosts, self.request, self.steps), self.placed, self.requested)


def choose(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter],
           weighers: collections.abc.Sequence[weights.AnyWeigher], instance_uuids: collections.abc.Sequence[str],
           order: Order = SPREAD, most: int | None = None) -> list[Ranking]:
    """What ``select`` gives.

    :raises NoValidHost: with ``reason`` and ``details``; for one of the servers is for all of them
    """
    found = select(hosts, request, filters, weighers, instance_uuids, order, most)
    if isinstance(found, Shortage):
        raise found.refusal()
    return found


def select(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter],
           weighers: collections.abc.Sequence[weights.AnyWeigher], instance_uuids: collections.abc.Sequence[str],
           order: Order = SPREAD, most: int | None = None) -> list[Ranking] | Shortage:
    """A ranking of host positions for each server, as if each took its first choice before the next chooses.

    :param most: so many hosts of each ranking are enough
    """
    found = _select(hosts, request, filters, weighers, instance_uuids, order, most)
    if not isinstance(found, Shortage) or len(instance_uuids) == 1 or request.group is None or (
            request.group.members or not request.group.policies & groups.AFFINE):
        return found
    # The place that is best for the first of them has no room for all; another one may have.
    left, _ = survivors(joined(hosts, request), request, filters)
    ranking = rank(hosts.of(request), left, weighers, instance_uuids[0], order)
    for narrower in itertools.islice(groups.places(request, hosts, ranking), MAX_TOGETHER):
        other = _select(hosts, narrower, filters, weighers, instance_uuids, order, most)
        if not isinstance(other, Shortage):
            return other
    return found


def joined(hosts: host_view.Hosts, request: Request) -> host_view.Hosts:
    """A view of the hosts that may be changed, with the members of the request's group on them."""
    return hosts.copy().of(request)


def _select(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter],
            weighers: collections.abc.Sequence[weights.AnyWeigher], instance_uuids: collections.abc.Sequence[str],
            order: Order, most: int | None) -> list[Ranking] | Shortage:
    changing = len(instance_uuids) > 1
    hosts = joined(hosts, request) if changing else hosts.of(request)
    rankings: list[Ranking] = []
    for uuid in instance_uuids:
        left, steps = survivors(hosts, request, filters)
        if not len(left):
            return Shortage(hosts, request, filters, steps, len(rankings), len(instance_uuids))
        ranking = rank(hosts, left, weighers, uuid, order, most)
        rankings.append(ranking)
        if changing:
            hosts.consume(ranking[0], request.resources)
            for each in request.special:
                each.consume(hosts, ranking[0])
    return rankings
