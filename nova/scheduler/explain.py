"""Explanations of a failed placement: one sentence for users, all details for administrators.

The sentence names no host. ``details`` names hosts; only administrators see the details, in the server's fault and in
the event of the action.
"""
import collections.abc
import dataclasses

import numpy as np

from nova import exception
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.placement_request import Request

# maximum characters of the sentence: a fault has at most 255 and begins with 'No valid host was found. '
SENTENCE = 230
NAMED = 50  # maximum number of hosts that an explanation names for one filter
NEAREST = 5  # maximum number of nearest hosts (see NearMiss) that an explanation names
MAX_EXAMINED_HOSTS = 200      # maximum number of hosts that per-host filters evaluate for an explanation
OTHERS = '{} for other reasons'


@dataclasses.dataclass(frozen=True)
class Removal:
    """Hosts that one filter removed: number, reason, and (for administrators) names."""

    filter: str
    count: int
    reason: str
    hosts: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class NearMiss:
    """A removed host that is close to passing, because it fails few filters.

    failed_filters  ((filter, reason), …) of the filters that the host fails
    """

    host: str
    node: str
    failed_filters: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        words = ' and '.join(text for _, text in self.failed_filters)
        only = len(self.failed_filters) == 1 and words.startswith('lacks ')
        return f'{self.host} {words}' + (' only' if only else '')


def removal(each: base.Filter, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> Removal:
    """Return the Removal that describes the hosts at the positions ``removed``, which the filter removed."""
    reason = base.conjugated(each.reason(hosts, request, removed), len(removed))
    return Removal(each.name, len(removed), reason, tuple(hosts.host[removed[:NAMED]]))


def sentence(count: int, removals: list[Removal], room: int = SENTENCE) -> str:
    """Return at most ``room`` characters: the number of hosts, and the reasons of the largest removals that fit."""
    if not count:
        return 'There are no compute hosts.'
    begin = f'{count} {"host" if count == 1 else "hosts"}: '
    room -= len(begin) + 1
    parts = [f'{each.count} {each.reason}' for each in removals]
    named = set(range(len(parts)))
    while len(text := _joined(parts, removals, named)) > room and named:
        named.remove(min(named, key=lambda number: (removals[number].count, -number)))
    if not named:
        text = parts[max(range(len(parts)), key=lambda number: removals[number].count)][:room - 1] + '…'
    return f'{begin}{text}.'


def _joined(parts: list[str], removals: list[Removal], named: set[int]) -> str:
    others = sum(each.count for number, each in enumerate(removals) if number not in named)
    return ', '.join([parts[number] for number in sorted(named)] + ([OTHERS.format(others)] if others else []))


def details(removals: list[Removal], nearest: collections.abc.Iterable[NearMiss] = ()) -> str:
    """Return the explanation for administrators: a line for each filter that removed hosts and each nearest host."""
    lines = [f'{each.filter} removed {each.count}: {each.reason}: {", ".join(each.hosts)}'
             + (', …' if each.count > len(each.hosts) else '') for each in removals]
    return '\n'.join([*lines, *(f'Nearest: {miss}' for miss in nearest)])


def nearest(hosts: host_view.Hosts, request: Request, filters: collections.abc.Iterable[base.Filter],
            passing: collections.abc.Iterable[int] = (), limit: int = NEAREST) -> list[NearMiss]:
    """Return the hosts that are closest to passing, ordered by number of failed filters, then by missing resources.

    Hosts that a filter with ``selects_hosts`` removes are omitted. Per-host filters evaluate only the hosts that are
    nearest according to the other filters.
    :param passing: positions of the hosts that pass all filters
    """
    consulted = [each for each in filters if each.applies(request)]
    failed, short = np.zeros(len(hosts), dtype=np.int64), np.zeros(len(hosts))
    possible = np.ones(len(hosts), dtype=bool)
    possible[list(passing)] = False
    masks = {}
    for each in consulted:
        if each.costly:
            continue
        masks[each] = passed = each.mask(hosts, request)
        failed += ~passed
        short += np.where(passed, 0, each.shortfall(hosts, request))
        if each.selects_hosts:
            possible &= passed
    near = _first(np.flatnonzero(possible), failed, short)[:MAX_EXAMINED_HOSTS]
    for each in consulted:
        if each.costly:
            passed = masks[each] = np.ones(len(hosts), dtype=bool)
            judged = each.mask_at(hosts, request, near)
            passed[near] = True if judged is None else judged
            failed += ~passed
            short += np.where(passed, 0, each.shortfall(hosts, request))
    near = _first(near[failed[near] > 0], failed, short)[:limit]
    return [NearMiss(hosts.host[position], hosts.node[position], tuple(
        (each.name, each.lacks(hosts, request, position)) for each in consulted if not masks[each][position]))
        for position in near]


def _first(positions: np.ndarray, failed: np.ndarray, short: np.ndarray) -> np.ndarray:
    return positions[np.lexsort((short[positions], failed[positions]))]


def no_valid_host(hosts: host_view.Hosts, request: Request, filters: collections.abc.Sequence[base.Filter],
            removals: list[Removal], placed: int = 0, requested: int = 1) -> exception.NoValidHost:
    """Return the NoValidHost error of a request for which no host is left.

    :param placed: number of the ``requested`` servers that had room
    """
    begin = f'Only {placed} of {requested} servers have room. ' if placed else ''
    error = exception.NoValidHost(
        reason=begin + sentence(len(hosts), removals, SENTENCE - len(begin)),
        details=details(removals, nearest(hosts, request, filters)))
    error.removals = list(removals)
    return error
