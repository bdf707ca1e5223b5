"""Host selection: pure functions of a view of the hosts and a request."""
import collections.abc
import dataclasses
import itertools
import typing
import uuid as uuidlib
import zlib

import numpy as np

from nova import exception
from nova.scheduler import explain
from nova.scheduler import groups
from nova.scheduler import host_view
from nova.scheduler import weights
from nova.scheduler.placement_request import Request
from nova.scheduler.filters import base

MAX_CANDIDATES = 16  # number of hosts that a claim tries, best first; if all fail, the scheduler decides again
BLOCK = 64  # number of hosts in a block of ``_highest``
MAX_AFFINITY_PLACES = 100  # maximum number of hosts or network localities tried for an affinity group without members

_64 = 2 ** 64 - 1
_ODD, _ODDER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # multipliers of the hash functions

# (filter that removed hosts, mask of the hosts before the filter, mask of the hosts after the filter)
Step = tuple[base.Filter, np.ndarray, np.ndarray]
Ranking = np.ndarray  # positions, best first


@dataclasses.dataclass(frozen=True)
class TieBreak:
    """Rules for the choice between hosts of equal or nearly equal weight.

    subset    number of best hosts from which a hash of the server's uuid selects one
    shuffle   whether the order of hosts of equal weight differs for each server, to spread servers
    """

    subset: int = 1
    shuffle: bool = True


SPREAD = TieBreak()


def survivors(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter]
              ) -> tuple[np.ndarray, list[Step]]:
    """Return (positions of the hosts that pass all filters, a Step for each filter that removed hosts)."""
    passing, count = hosts.all_pass, len(hosts)
    steps: list[Step] = []
    for each in filters:
        if not each.applies(request):
            continue
        if type(each).mask_at is base.Filter.mask_at:
            mask = each.mask(hosts, request)
            if mask is hosts.all_pass:
                continue
            after = passing & mask
        else:
            left = np.flatnonzero(passing)
            judged = each.mask_at(hosts, request, left)
            if judged is None:
                continue
            after = np.zeros(len(hosts), dtype=bool)
            after[left[judged]] = True
        number = int(np.count_nonzero(after))
        if number != count:
            steps.append((each, passing, after))
            passing, count = after, number
    if count == len(hosts):
        return hosts.cached('every position', lambda: np.arange(len(hosts))), steps
    return np.flatnonzero(passing), steps


def _removals(hosts: host_view.Hosts, request: Request, steps: list[Step]) -> list[explain.Removal]:
    return [explain.removal(each, hosts, request, np.flatnonzero(before & ~after)) for each, before, after in steps]


def rank(hosts: host_view.Hosts, positions: np.ndarray, weighers: collections.abc.Sequence[weights.AnyWeigher],
         instance_uuid: str, tie_break: TieBreak = SPREAD, enough_hosts: int | None = None) -> Ranking:
    """Rank positions, best first. ``tie_break`` and a hash of the server's uuid and the node's number break ties.

    :param enough_hosts: number of hosts that the ranking needs, or None to rank all hosts
    """
    return ranked(hosts, positions, rounded(weights.score(hosts, positions, weighers)), instance_uuid, tie_break,
                  enough_hosts)


def rounded(score: np.ndarray) -> np.ndarray:
    """Round scores, so that scores are equal if they differ only by floating-point errors."""
    return np.rint(score * 1e9)


def ranked(hosts: host_view.Hosts, positions: np.ndarray, score: np.ndarray, instance_uuid: str,
           tie_break: TieBreak = SPREAD, enough_hosts: int | None = None) -> Ranking:
    """Rank positions as ``rank`` does, but by scores that ``rounded`` has returned."""
    seed = uuidlib.UUID(instance_uuid).int
    if enough_hosts == 1 and tie_break.subset == 1:
        best = np.flatnonzero(score == score.max())
        best = positions if len(best) == len(positions) else positions[best]
        return best[np.argmax(_seeded_random(hosts, best, seed, tie_break)):][:1]
    highest = None if enough_hosts is None else _highest(score, enough_hosts)
    if enough_hosts is None or highest is None:
        keys = _seeded_random(hosts, positions, seed, tie_break)
    else:
        threshold, some = highest
        keys = _seeded_random(hosts, positions[some], seed, tie_break)
        if len(some) > 4 * enough_hosts:  # many hosts have the threshold as score: sort only as many as needed
            equal = score[some] == threshold
            enough = enough_hosts + int(np.count_nonzero(~equal))
            narrowed = _highest(np.where(equal, keys, np.iinfo(np.uint64).max), enough)
            if narrowed is not None:
                some, keys = some[narrowed[1]], keys[narrowed[1]]
        positions, score = positions[some], score[some]
    found: np.ndarray = positions[np.lexsort((~keys, -score))][:enough_hosts]
    if tie_break.subset > 1:
        first = found[:tie_break.subset]
        found = np.concatenate((first[np.argsort(_seeded_random(hosts, first, ~seed, SPREAD))],
                                found[tie_break.subset:]))
    return found


def _highest(values: np.ndarray, enough_hosts: int) -> tuple[typing.Any, np.ndarray] | None:
    """Return (threshold, the ``enough_hosts`` or more positions of values >= threshold); None if all values are needed.

    To avoid sorting all values, the threshold is the ``enough_hosts``-th largest of the maxima of blocks.
    """
    blocks = len(values) // BLOCK
    if blocks <= enough_hosts:
        return None
    whole = blocks * BLOCK
    maxima = values[:whole].reshape(blocks, BLOCK).max(axis=1)
    threshold = np.partition(maxima, blocks - enough_hosts)[blocks - enough_hosts]
    return threshold, np.flatnonzero(values >= threshold)


def _seeded_random(hosts: host_view.Hosts, positions: np.ndarray, seed: int, tie_break: TieBreak) -> np.ndarray:
    """Return numbers that break ties: pseudo-random with ``shuffle``, otherwise smaller for later positions."""
    if not tie_break.shuffle:
        return np.uint64(len(hosts)) - positions.astype(np.uint64)
    mixed = hosts.cached('keys', lambda: _node_hashes(hosts))
    keys = (mixed if len(positions) == len(hosts) else mixed[positions]) ^ np.uint64((seed ^ seed >> 64) & _64)
    keys *= _ODD
    keys ^= keys >> np.uint64(32)
    keys *= _ODDER
    return keys


def _node_hashes(hosts: host_view.Hosts) -> np.ndarray:
    """Return a hash of each node's number and cell, because numbers are unique only within a cell."""
    values, cells = hosts.distinct('cell')
    salt = np.array([zlib.crc32((value or '').encode()) for value in values], dtype=np.uint64)
    mixed = (hosts.ids.astype(np.uint64) + (salt[cells] << np.uint64(32))) * _ODDER
    return (mixed ^ mixed >> np.uint64(29)) * _ODD


@dataclasses.dataclass(frozen=True)
class NoCandidates:
    """Result for a request if no host is left for one of its servers.

    hosts    view of the hosts after the placement of the request's earlier servers
    steps    a Step for each filter that removed hosts
    placed   number of the ``requested`` servers for which hosts were found
    """

    hosts: host_view.Hosts
    request: Request
    filters: collections.abc.Sequence[base.Filter]
    steps: list[Step]
    placed: int
    requested: int

    def no_valid_host(self) -> exception.NoValidHost:
        """Return the error, with ``reason`` and ``details`` that explain which filters removed the hosts."""
        return explain.no_valid_host(self.hosts, self.request, self.filters,
                               _removals(self.hosts, self.request, self.steps), self.placed, self.requested)


def choose(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter],
           weighers: collections.abc.Sequence[weights.AnyWeigher], instance_uuids: collections.abc.Sequence[str],
           tie_break: TieBreak = SPREAD, enough_hosts: int | None = None) -> list[Ranking]:
    """Like ``select``, but raise an error if one of the servers has no host.

    :raises NoValidHost: with ``reason`` and ``details``
    """
    found = select(hosts, request, filters, weighers, instance_uuids, tie_break, enough_hosts)
    if isinstance(found, NoCandidates):
        raise found.no_valid_host()
    return found


def select(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter],
           weighers: collections.abc.Sequence[weights.AnyWeigher], instance_uuids: collections.abc.Sequence[str],
           tie_break: TieBreak = SPREAD, enough_hosts: int | None = None) -> list[Ranking] | NoCandidates:
    """Return a ranking of host positions for each server, as if earlier servers used the first host of their ranking.

    :param enough_hosts: number of hosts that each ranking needs, or None to rank all hosts
    """
    found = _select(hosts, request, filters, weighers, instance_uuids, tie_break, enough_hosts)
    if not isinstance(found, NoCandidates) or len(instance_uuids) == 1 or request.group is None or (
            request.group.members or not request.group.policies & groups.AFFINE):
        return found
    # the best host or locality for the first server has no room for all servers: try other hosts or localities
    left, _ = survivors(mutable_view(hosts, request), request, filters)
    ranking = rank(request.view(hosts), left, weighers, instance_uuids[0], tie_break)
    for narrower in itertools.islice(groups.places(request, hosts, ranking), MAX_AFFINITY_PLACES):
        other = _select(hosts, narrower, filters, weighers, instance_uuids, tie_break, enough_hosts)
        if not isinstance(other, NoCandidates):
            return other
    return found


def mutable_view(hosts: host_view.Hosts, request: Request) -> host_view.Hosts:
    """Return a copy of the view for the request; the caller may change the copy."""
    return request.view(hosts.copy())


def _select(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter],
            weighers: collections.abc.Sequence[weights.AnyWeigher], instance_uuids: collections.abc.Sequence[str],
            tie_break: TieBreak, enough_hosts: int | None) -> list[Ranking] | NoCandidates:
    changing = len(instance_uuids) > 1
    hosts = mutable_view(hosts, request) if changing else request.view(hosts)
    rankings: list[Ranking] = []
    for uuid in instance_uuids:
        left, steps = survivors(hosts, request, filters)
        if not len(left):
            return NoCandidates(hosts, request, filters, steps, len(rankings), len(instance_uuids))
        ranking = rank(hosts, left, weighers, uuid, tie_break, enough_hosts)
        rankings.append(ranking)
        if changing:
            hosts.consume(ranking[0], request.resources)
            for each in request.special:
                each.consume(hosts, ranking[0])
    return rankings
