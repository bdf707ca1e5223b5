"""Why a placement came out as it did: one sentence for users, the whole story for administrators.

What users read names no host. ``details`` does: it goes into the part of a fault, and of an action's event, that only
administrators see.
"""
import dataclasses

import numpy as np

from nova import exception

# A fault has room for 255 characters, and begins with 'No valid host was found. '
SENTENCE = 230
NAMED = 50               # hosts that an explanation names of those that one filter removed
NEAREST = 5              # hosts that it names of those that came nearest
LOOKED_AT = 200          # hosts of which filters that judge one after the other are asked how near they come
OTHERS = '{} for other reasons'


@dataclasses.dataclass(frozen=True)
class Removal:
    """What one filter removed: how many hosts, why, and for administrators which."""

    filter: str
    count: int
    reason: str
    hosts: tuple


@dataclasses.dataclass(frozen=True)
class Miss:
    """A host that came near.

    lacks   ((filter, what is against the host), …) of the filters that it fails
    """

    host: str
    node: str
    lacks: tuple

    def __str__(self):
        words = ' and '.join(text for _, text in self.lacks)
        return f'{self.host} {words}' + (' only' if len(self.lacks) == 1 and words.startswith('lacks ') else '')


def asks(each, request):
    """Whether a filter is asked for this request: of a forced host only whether it is that one, and has room."""
    return not request.forced or each.room or each.forced


def removal(each, hosts, request, removed):
    """The Removal of hosts at these positions by a filter."""
    reason = conjugated(each.reason(hosts, request, removed), len(removed))
    return Removal(each.name, len(removed), reason, tuple(hosts.host[removed[:NAMED]]))


def conjugated(reason, count):
    """``is|are down`` -> ``is down`` or ``are down``."""
    verb, _, rest = reason.partition(' ')
    singular, _, plural = verb.partition('|')
    return f'{singular if count == 1 else plural or singular} {rest}'


def sentence(count, removals, room=SENTENCE):
    """How many hosts there were and what removed them, in ``room`` characters at most; what removed few is left out."""
    if not count:
        return 'There are no compute hosts.'
    begin = f'{count} {"host" if count == 1 else "hosts"}: '
    room -= len(begin) + 1
    parts = [f'{each.count} {each.reason}' for each in removals]
    told = set(range(len(parts)))
    while len(text := _joined(parts, removals, told)) > room and told:
        told.remove(min(told, key=lambda number: (removals[number].count, -number)))
    if not told:
        text = parts[max(range(len(parts)), key=lambda number: removals[number].count)][:room - 1] + '…'
    return f'{begin}{text}.'


def _joined(parts, removals, told):
    others = sum(each.count for number, each in enumerate(removals) if number not in told)
    return ', '.join([parts[number] for number in sorted(told)] + ([OTHERS.format(others)] if others else []))


def details(removals, nearest=()):
    """All of it for administrators: a line for each filter that removed hosts, and for each host that came near."""
    lines = [f'{each.filter} removed {each.count}: {each.reason}: {", ".join(each.hosts)}'
             + (', …' if each.count > len(each.hosts) else '') for each in removals]
    return '\n'.join([*lines, *(f'Nearest: {miss}' for miss in nearest)])


def nearest(hosts, request, filters, passing=(), most=NEAREST):
    """[Miss], the nearest first: hosts that fail the fewest filters, and of those the ones that lack the least.

    Of a request that names a host, or excludes some, only hosts that it allows. Filters that judge one host after the
    other are asked of those alone that come near by the others.

    :param passing: positions of the hosts that pass all filters
    """
    asked = [each for each in filters if asks(each, request)]
    failed, short = np.zeros(len(hosts), dtype=np.int64), np.zeros(len(hosts))
    possible = np.ones(len(hosts), dtype=bool)
    possible[list(passing)] = False
    masks = {}
    for each in asked:
        if each.costly:
            continue
        masks[each] = passed = each.mask(hosts, request)
        failed += ~passed
        short += np.where(passed, 0, each.shortfall(hosts, request))
        if each.forced:
            possible &= passed
    near = _first(np.flatnonzero(possible), failed, short)[:LOOKED_AT]
    for each in asked:
        if each.costly:
            passed = masks[each] = np.ones(len(hosts), dtype=bool)
            judged = each.among(hosts, request, near)
            passed[near] = True if judged is None else judged
            failed += ~passed
            short += np.where(passed, 0, each.shortfall(hosts, request))
    near = _first(near[failed[near] > 0], failed, short)[:most]
    return [Miss(hosts.host[position], hosts.node[position], tuple(
        (each.name, each.lacks(hosts, request, position)) for each in asked if not masks[each][position]))
        for position in near]


def _first(positions, failed, short):
    return positions[np.lexsort((short[positions], failed[positions]))]


def refusal(hosts, request, filters, removals, placed=0, wanted=1):
    """The NoValidHost of a request for which no host is left.

    :param placed: servers of the request that had found room, of those that were ``wanted``
    """
    begin = f'Only {placed} of {wanted} servers find room. ' if placed else ''
    error = exception.NoValidHost(
        reason=begin + sentence(len(hosts), removals, SENTENCE - len(begin)),
        details=details(removals, nearest(hosts, request, filters)))
    error.removals = removals
    return error
