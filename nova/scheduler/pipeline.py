"""Choosing hosts: pure functions of a view of the hosts and of what is asked for."""
import contextlib
import dataclasses
import uuid as uuidlib

import numpy as np

from nova import exception
from nova.scheduler import groups
from nova.scheduler import weights

ALTERNATES = 3          # hosts named beside the chosen one
MAX_TOGETHER = 100      # hosts that are tried for servers of one request that must stand together


@dataclasses.dataclass(frozen=True)
class Request:
    """What one server asks of a host.

    asked       {resource: amount}, see db.claims.resources
    zone, host, node   None: any
    forced      an administrator forces the host: only filters about room are asked besides it
    tried       [(host, node)] where building it has failed
    ignored     names of hosts that are out of the question
    group       scheduler.groups.Group that the server is a member of
    spec        the whole objects.RequestSpec, for filters of one host at a time
    """

    asked: dict
    zone: str | None = None
    host: str | None = None
    node: str | None = None
    forced: bool = False
    tried: tuple = ()
    ignored: tuple = ()
    group: object = None
    spec: object = None


@dataclasses.dataclass(frozen=True)
class Removal:
    """What one filter removed: how many hosts, why, and for administrators which."""

    filter: str
    count: int
    reason: str
    hosts: tuple


def narrow(hosts, request, filters):
    """(positions of the hosts that pass all filters, [Removal] of those filters that removed some)."""
    left = np.arange(len(hosts))
    removals = []
    for each in filters:
        if request.forced and not each.room and each.name != 'RequestedHostFilter':
            continue
        passed = each.mask(hosts, request)[left]
        removed, left = left[~passed], left[passed]
        if len(removed):
            reason = _conjugate(each.reason(hosts, request, removed), len(removed))
            removals.append(Removal(each.name, len(removed), reason, tuple(hosts.host[removed[:50]])))
    return left, removals


def _conjugate(reason, count):
    """``is|are down`` -> ``is down`` or ``are down``."""
    verb, _, rest = reason.partition(' ')
    singular, _, plural = verb.partition('|')
    return f'{singular if count == 1 else plural or singular} {rest}'


def explain(count, removals):
    """One sentence for the user: how many hosts there were, and what removed them."""
    if not count:
        return 'There are no compute hosts.'
    parts = [f'{removal.count} {removal.reason}' for removal in removals]
    return f'{count} {"host" if count == 1 else "hosts"}: {", ".join(parts)}.'


def details(removals):
    """The whole story for administrators."""
    return '\n'.join(f'{removal.filter} removed {removal.count}: {removal.reason}: {", ".join(removal.hosts)}'
                     + (', …' if removal.count > len(removal.hosts) else '') for removal in removals)


def rank(hosts, positions, multipliers, instance_uuid):
    """The positions, best first; equals in an order that differs from server to server, so that they spread."""
    weight = np.round(weights.weigh(hosts, positions, multipliers), 9)
    dice = np.random.default_rng(uuidlib.UUID(instance_uuid).int).random(len(positions))
    return positions[np.lexsort((dice, -weight))]


def choose(hosts, request, filters, multipliers, instance_uuids):
    """A ranking of host positions for each server, as if each took its first choice before the next chooses.

    :raises NoValidHost: with ``reason`` and ``details``; for one of them is for all of them
    """
    try:
        return _choose(hosts, request, filters, multipliers, instance_uuids)
    except exception.NoValidHost:
        together = request.group is not None and request.group.policy == groups.AFFINITY
        if not together or len(instance_uuids) == 1 or request.group.members:
            raise
        # The host that is best for the first of them has no room for all; another one may have.
        left, _ = narrow(_joined(hosts, request), request, filters)
        for position in rank(hosts, left, multipliers, instance_uuids[0])[1:MAX_TOGETHER]:
            with contextlib.suppress(exception.NoValidHost):
                return _choose(hosts, dataclasses.replace(request, host=hosts.host[position]), filters, multipliers,
                               instance_uuids)
        raise


def _joined(hosts, request):
    """A view of the hosts that may be changed, with the members of the request's group on them."""
    hosts = hosts.copy()
    hosts.group = request.group
    if request.group is not None:
        hosts.members = np.zeros(len(hosts), dtype=np.int64)
        for host, number in request.group.members.items():
            hosts.members[hosts.host == host] = number
    return hosts


def _choose(hosts, request, filters, multipliers, instance_uuids):
    hosts = _joined(hosts, request)
    rankings = []
    for uuid in instance_uuids:
        left, removals = narrow(hosts, request, filters)
        if not len(left):
            reason = explain(len(hosts), removals)
            if rankings:
                reason = f'Only {len(rankings)} of {len(instance_uuids)} servers find room. ' + reason
            raise exception.NoValidHost(reason=reason, details=details(removals))
        ranking = rank(hosts, left, multipliers, uuid)
        hosts.consume(ranking[0], request.asked)
        rankings.append(ranking)
    return rankings
