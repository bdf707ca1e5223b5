"""Why a placement came out as it did: one sentence for users, all details for administrators.

What users read names no host. ``details`` does: it goes into the part of a fault, and of an action's event, that only
administrators see.
"""
from __future__ import annotations

import collections.abc
import dataclasses
import typing

import numpy as np

from nova import exception

if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler import pipeline
    from nova.scheduler.filters import base

# A fault has room for 255 characters, and begins with 'No valid host was found. '
SENTENCE = 230
NAMED = 50               # hosts that an explanation names of those that one filter removed
NEAREST = 5              # hosts that it names of those that came nearest
LOOKED_AT = 200          # hosts that filters which judge one after the other are consulted about
OTHERS = '{} for other reasons'


@dataclasses.dataclass(frozen=True)
class Removal:
    """What one filter removed: how many hosts, why, and for administrators which."""

    filter: str
    count: int
    reason: str
    hosts: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Miss:
    """A host that came near.

    lacks   ((filter, what is against the host), …) of the filters that it fails
    """

    host: str
    node: str
    lacks: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        words = ' and '.join(text for _, text in self.lacks)
        return f'{self.host} {words}' + (' only' if len(self.lacks) == 1 and words.startswith('lacks ') else '')


def removal(each: base.Filter, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> Removal:
    """The Removal of hosts at these positions by a filter."""
    reason = conjugated(each.reason(hosts, request, removed), len(removed))
    return Removal(each.name, len(removed), reason, tuple(hosts.host[removed[:NAMED]]))


def conjugated(reason: str, count: int) -> str:
    """``is|are down`` -> ``is down`` or ``are down``."""
    verb, _, rest = reason.partition(' ')
    singular, _, plural = verb.partition('|')
    return f'{singular if count == 1 else plural or singular} {rest}'


def sentence(count: int, removals: list[Removal], room: int = SENTENCE) -> str:
    """How many hosts there were and what removed them, in ``room`` characters at most; what removed few is left out."""
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


def details(removals: list[Removal], nearest: collections.abc.Iterable[Miss] = ()) -> str:
    """All of it for administrators: a line for each filter that removed hosts, and for each host that came near."""
    lines = [f'{each.filter} removed {each.count}: {each.reason}: {", ".join(each.hosts)}'
             + (', …' if each.count > len(each.hosts) else '') for each in removals]
    return '\n'.join([*lines, *(f'Nearest: {miss}' for miss in nearest)])


def nearest(hosts: host_view.Hosts, request: pipeline.Request, filters: collections.abc.Iterable[base.Filter],
            passing: collections.abc.Iterable[int] = (), most: int = NEAREST) -> list[Miss]:
    """The nearest first: hosts that fail the fewest filters, and of those the ones that lack the least.

    Of a request that names a host, or excludes some, only hosts that it allows. Filters that judge one host after the
    other are consulted about those alone that come near by the others.

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
        if each.forced:
            possible &= passed
    near = _first(np.flatnonzero(possible), failed, short)[:LOOKED_AT]
    for each in consulted:
        if each.costly:
            passed = masks[each] = np.ones(len(hosts), dtype=bool)
            judged = each.among(hosts, request, near)
            passed[near] = True if judged is None else judged
            failed += ~passed
            short += np.where(passed, 0, each.shortfall(hosts, request))
    near = _first(near[failed[near] > 0], failed, short)[:most]
    return [Miss(hosts.host[position], hosts.node[position], tuple(
        (each.name, each.lacks(hosts, request, position)) for each in consulted if not masks[each][position]))
        for position in near]


def _first(positions: np.ndarray, failed: np.ndarray, short: np.ndarray) -> np.ndarray:
    return positions[np.lexsort((short[positions], failed[positions]))]


def refusal(hosts: host_view.Hosts, request: pipeline.Request, filters: collections.abc.Sequence[base.Filter],
            removals: list[Removal], placed: int = 0, requested: int = 1) -> exception.NoValidHost:
    """The NoValidHost of a request for which no host is left.

    :param placed: servers of the request that had found room, of the ``requested`` ones
    """
    begin = f'Only {placed} of {requested} servers find room. ' if placed else ''
    error = exception.NoValidHost(
        reason=begin + sentence(len(hosts), removals, SENTENCE - len(begin)),
        details=details(removals, nearest(hosts, request, filters)))
    error.removals = list(removals)
    return error
