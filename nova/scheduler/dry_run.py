"""Dry run of a placement: report the effect of each filter and weigher, and the selection, without a claim."""
import collections.abc

import numpy as np

from nova import context as nova_context
from nova.db.tables.rows import InstancesRow
from nova import exception
from nova import objects
from nova.json_types import Encodable
from nova.db.cells import cells as db_cells
from nova.db.placement import claims
from nova.db.servers import instances
from nova.scheduler import decision
from nova.scheduler import explain
from nova.scheduler import host_table
from nova.scheduler import host_view
from nova.scheduler import pipeline
from nova.scheduler import request_reader
from nova.scheduler import weights
from nova.scheduler.placement_request import Request
from nova.scheduler.filters import base
from nova.scheduler.resources import numa_request
from nova.scheduler.resources import pci

Document = dict[str, Encodable]


class DryRun:
    """The RPC method explain."""

    def __init__(self, requests: request_reader.RequestReader, cells: db_cells.Cells, table: host_table.HostTable,
                 rules: decision.Rules) -> None:
        self._requests, self._cells, self._table, self._rules = requests, cells, table, rules

    def explain(self, ctx: nova_context.RequestContext, spec: objects.RequestSpec, seeds: list[str],
                instance_uuid: str | None, limit: int, offset: int) -> Document:
        """Explain how servers would be placed now; see interface.py."""
        hosts = self._table.hosts(full=True)
        if instance_uuid is None:
            request = self._requests.of_new(spec, moving=spec.instance_uuid)
        else:
            cell = self._cells.of_server(instance_uuid)
            with cell.db.reader() as conn:
                row = instances.get(conn, instance_uuid)
                hosts = numa_request.without_server(conn, pci.without_server(conn, hosts, row), row)
            request = self._requests.of_existing(cell, spec, row)
            hosts = without_server(hosts, row)
        return report(hosts, request, self._rules, seeds, slice(offset, offset + limit))


def without_server(hosts: host_view.Hosts, row: InstancesRow) -> host_view.Hosts:
    """Return a view of the hosts without the usage of one server, given its instances row."""
    hosts = hosts.copy()
    own = (hosts.host == row['host']) & (hosts.node == row['node'])
    for name, amount in claims.resources(row).items():
        hosts.used[name][own] -= amount
    hosts.running_vms[own] -= 1
    return hosts


def report(hosts: host_view.Hosts, request: Request, rules: decision.Rules, seeds: list[str],
           page: slice) -> Document:
    """Return the result of a dry run as JSON; interface.py documents its form.

    :param seeds: a uuid for each server
    :param page: slice of the hosts in each list
    """
    view = pipeline.mutable_view(hosts, request)
    left, reports = _filters(view, request, rules.filters, page)
    choices, reason = [], None
    try:
        rankings = pipeline.choose(hosts, request, rules.filters, rules.weighers, seeds, rules.tie_break)
    except exception.NoValidHost as error:
        reason = error.kwargs['reason']
    else:
        choices = [_place_of(hosts, ranking[0]) for ranking in rankings]
    near = explain.nearest(view, request, rules.filters, left)
    return {
        'seed': seeds[0], 'requested': {name: int(amount) for name, amount in request.resources.items()},
        'hosts': len(hosts), 'filters': reports, 'remaining': len(left),
        'weighers': {each.name: each.multiplier for each in rules.weighers},
        'ranking': _ranking(view, left, rules, seeds[0], page), 'choices': choices, 'reason': reason,
        'nearest': [{'host': miss.host, 'node': miss.node,
                     'failed_filters': [{'filter': name, 'reason': text} for name, text in miss.failed_filters]}
                    for miss in near]}


def _filters(hosts: host_view.Hosts, request: Request, filters: collections.abc.Iterable[base.Filter],
             page: slice) -> tuple[np.ndarray, list[Document]]:
    """Return (positions of the hosts that pass all filters, reports of the filters). The report of a filter covers only
    the hosts that passed the filters before it.
    """
    left, reports = np.arange(len(hosts)), []
    for each in filters:
        found: Document = {'name': each.name, 'applies': each.applies(request), 'reason': None, 'hosts': []}
        # each filter is applied to all hosts, because its result does not depend on other filters
        passing = np.isin(left, pipeline.survivors(hosts, request, [each])[0])
        removed, left = left[~passing], left[passing]
        if len(removed):
            found |= {'reason': explain.removal(each, hosts, request, removed).reason,
                      'hosts': [{'host': hosts.host[position], 'node': hosts.node[position],
                                 'reason': each.lacks(hosts, request, position)} for position in removed[page]]}
        reports.append({**found, 'passed': len(left), 'removed': len(removed)})
    return left, reports


def _ranking(hosts: host_view.Hosts, left: np.ndarray, rules: decision.Rules, seed: str, page: slice) -> list[Document]:
    """Return the remaining hosts, best first, each with its total weight and the contribution of each weigher."""
    if not len(left):
        return []
    ranked = pipeline.rank(hosts, left, rules.weighers, seed, rules.tie_break)
    total = dict(zip(left.tolist(), weights.weigh(hosts, left, rules.weighers), strict=True))
    parts = {each.name: dict(zip(left.tolist(), weights.weigh(hosts, left, [each]), strict=True))
             for each in rules.weighers}
    return [{**_place_of(hosts, position), 'weight': round(float(total[position]), 9),
             'weights': {name: round(float(found[position]), 9) for name, found in parts.items()}}
            for position in ranked[page].tolist()]


def _place_of(hosts: host_view.Hosts, position: int) -> Document:
    return {'host': hosts.host[position], 'node': hosts.node[position], 'availability_zone': hosts.zone[position]}
