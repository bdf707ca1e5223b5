"""Filters by the load of a host and by metrics of its monitors."""
import typing

import numpy as np

from oslo_config import cfg

from nova import exception
from nova import objects
from nova.db import engine
from nova.db.placement import hosts as hosts_db
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.filters import request_fields
from nova.scheduler.placement_request import Request


class NumInstancesFilter(base.Filter):
    """Hosts with fewer servers than ``max_instances_per_host``. The claim also enforces this limit."""

    run_on_rebuild = False
    why = 'has|have as many servers as allowed'

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        return hosts.running_vms < self.max_servers(hosts)

    def max_servers(self, hosts: host_view.Hosts) -> int | np.ndarray:
        """Return the maximum number of servers on a host: one number, or an array with a number for each host."""
        return self.conf.filter_scheduler.max_instances_per_host

    def limits(self, hosts: host_view.Hosts, position: int) -> dict[str, float]:
        max_servers = self.max_servers(hosts)
        return {'running_vms': int(max_servers if isinstance(max_servers, int) else max_servers[position])}


class IoOpsFilter(base.Filter):
    """Hosts with fewer than ``max_io_ops_per_host`` servers in tasks with high disk and network load."""

    run_on_rebuild = False
    why = 'is|are busy with as many builds, moves and snapshots as allowed'

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        return self._busy(hosts, request) < self.max_servers(hosts)

    def max_servers(self, hosts: host_view.Hosts) -> int | np.ndarray:
        """Return the maximum number of busy servers on a host: one number, or an array with a number for each host."""
        return self.conf.filter_scheduler.max_io_ops_per_host

    def needs_facts(self, spec: objects.RequestSpec) -> bool:
        return True

    def facts(self, conn: engine.Connection, spec: objects.RequestSpec) -> frozenset[typing.Any]:
        return frozenset((host, node, number) for (host, node), number in hosts_db.busy_servers(conn).items())

    def _busy(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        """Return the number of busy servers on each host, including already placed servers of this request."""
        found = request.facts.get(self.name)
        if found is None:
            return hosts.io_ops
        busy = hosts.io_ops * 0
        numbers = {(host, node): number for host, node, number in found}
        for (host, node), number in numbers.items():
            for position in hosts.positions(host):
                if hosts.node[position] == node:
                    busy[position] = number
        for position in hosts.placed:
            busy[position] += 1
        return busy


class MetricsFilter(base.Filter):
    """Hosts that report all metrics of ``[metrics] weight_setting``."""

    run_on_rebuild = False
    why = 'does|do not measure the metrics that are weighed'

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        needed = {name for name, _ in weight_setting(self.conf)}
        if not needed:
            return hosts.all_pass
        return np.array([each is not None and needed <= each.keys() for each in hosts.metrics], dtype=bool)


def weight_setting(conf: cfg.ConfigOpts) -> list[tuple[str, float]]:
    """Return [(metric, ratio)] of [metrics] weight_setting.

    :raises InvalidOption: the option has another form
    """
    found = []
    for item in conf.metrics.weight_setting:
        name, equal, ratio = item.partition('=')
        try:
            found.append((name.strip(), float(ratio)))
        except ValueError:
            equal = ''
        if not equal or not name.strip():
            raise exception.InvalidOption(f'[metrics] weight_setting: {item!r} is not of the form name=number.')
    return found


class TypeAffinityFilter(base.Filter):
    """Hosts without a server of the same flavor."""

    run_on_rebuild = False

    def needs_facts(self, spec: objects.RequestSpec) -> bool:
        return True

    def facts(self, conn: engine.Connection, spec: objects.RequestSpec) -> frozenset[typing.Any]:
        return hosts_db.with_flavor(conn, spec.flavor['flavor_id'])

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        mask = ~hosts.on_hosts(request.facts.get(self.name, ()))
        for position in hosts.placed:
            mask[hosts.positions(hosts.host[position])] = False
        return mask

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return f'has|have a server of flavor {request_fields.flavor_name(request)} already'


FILTERS = (NumInstancesFilter, IoOpsFilter, MetricsFilter, TypeAffinityFilter)
