"""A placement that changes nothing: every filter's and every weigher's part in a decision, and the choice."""
import numpy as np

from nova import exception
from nova.db.placement import claims
from nova.db.servers import instances
from nova.scheduler import explain
from nova.scheduler import numa_request
from nova.scheduler import pci
from nova.scheduler import pipeline
from nova.scheduler import weights


class DryRun:
    """The part of the scheduler's manager that explains; mixed into it.

    Needs ``self._request``, ``self._place``, ``self._filters``, ``self._weighers``, ``self._order``,
    ``self._cells`` and ``self._hosts``.
    """

    def explain(self, ctx, spec, seeds, instance_uuid, limit, offset):
        """How servers would be placed now; see interface.py."""
        hosts = self._hosts(whole=True)
        if instance_uuid is None:
            request = self._request(spec)
        else:
            cell = self._cells.of_server(instance_uuid)
            with cell.db.reader() as conn:
                row = instances.get(conn, instance_uuid)
                hosts = numa_request.given_back(conn, pci.given_back(conn, hosts, row), row)
            request = self._place(cell, spec, row, [], None, False)
            hosts = without(hosts, row)
        return report(hosts, request, self._filters, self._weighers, self._order, seeds,
                      slice(offset, offset + limit))


def without(hosts, row):
    """A view of the hosts on which the server of this instances row takes nothing."""
    hosts = hosts.copy()
    own = (hosts.host == row['host']) & (hosts.node == row['node'])
    for name, amount in claims.resources(row).items():
        hosts.used[name][own] -= amount
    hosts.running_vms[own] -= 1
    return hosts


def report(hosts, request, filters, weighers, order, seeds, page):
    """What a dry run tells, as JSON; see interface.py for its form.

    :param order: a pipeline.Order
    :param seeds: a uuid for each server
    :param page: slice of the hosts that each list names
    """
    view = pipeline.joined(hosts, request)
    left, told = _filters(view, request, filters, page)
    choices, reason = [], None
    try:
        rankings = pipeline.choose(hosts, request, filters, weighers, seeds, order)
    except exception.NoValidHost as error:
        reason = error.kwargs['reason']
    else:
        choices = [_place_of(hosts, ranking[0]) for ranking in rankings]
    near = explain.nearest(view, request, filters, left)
    return {
        'seed': seeds[0], 'asked': {name: int(amount) for name, amount in request.asked.items()},
        'hosts': len(hosts), 'filters': told, 'remaining': len(left),
        'weighers': {each.name: each.multiplier for each in weighers},
        'ranking': _ranking(view, left, weighers, order, seeds[0], page), 'choices': choices, 'reason': reason,
        'nearest': [{'host': miss.host, 'node': miss.node,
                     'lacks': [{'filter': name, 'reason': text} for name, text in miss.lacks]} for miss in near]}


def _filters(hosts, request, filters, page):
    """(positions of the hosts that pass all, what each filter did to those that the ones before it had left)."""
    left, told = np.arange(len(hosts)), []
    for each in filters:
        found = {'name': each.name, 'asked': explain.asks(each, request), 'reason': None, 'hosts': []}
        # a filter by itself: those that it lets through do not depend on the others
        passing = np.isin(left, pipeline.narrow(hosts, request, [each])[0])
        removed, left = left[~passing], left[passing]
        if len(removed):
            found |= {'reason': explain.removal(each, hosts, request, removed).reason,
                      'hosts': [{'host': hosts.host[position], 'node': hosts.node[position],
                                 'reason': each.lacks(hosts, request, position)} for position in removed[page]]}
        told.append({**found, 'passed': len(left), 'removed': len(removed)})
    return left, told


def _ranking(hosts, left, weighers, order, seed, page):
    """The hosts that are left, best first, each with its weight and what every weigher gives to it."""
    if not len(left):
        return []
    ranked = pipeline.rank(hosts, left, weighers, seed, order)
    total = dict(zip(left.tolist(), weights.weigh(hosts, left, weighers), strict=True))
    parts = {each.name: dict(zip(left.tolist(), weights.weigh(hosts, left, [each]), strict=True)) for each in weighers}
    return [{**_place_of(hosts, position), 'weight': round(float(total[position]), 9),
             'weights': {name: round(float(found[position]), 9) for name, found in parts.items()}}
            for position in ranked[page].tolist()]


def _place_of(hosts, position):
    return {'host': hosts.host[position], 'node': hosts.node[position], 'availability_zone': hosts.zone[position]}
