"""Filters by how busy a host is, and by what its monitors measure."""
from __future__ import annotations

import typing

import numpy as np

from nova import exception
from nova.db.placement import hosts as hosts_db
from nova.scheduler.filters import base
from nova.scheduler.filters import request_fields

if typing.TYPE_CHECKING:
    from oslo_config import cfg

    from nova import objects
    from nova.db import engine
    from nova.scheduler import host_view
    from nova.scheduler import pipeline


class NumInstancesFilter(base.Filter):
    """Hosts with fewer servers than ``max_instances_per_host``. The claim holds it, too."""

    rebuild = False

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        return hosts.running_vms < self.most(hosts)

    def most(self, hosts: host_view.Hosts) -> int | np.ndarray:
        """Servers that a host may have: a number, or an array."""
        return self.conf.filter_scheduler.max_instances_per_host

    def limits(self, hosts: host_view.Hosts, position: int) -> dict[str, float]:
        most = self.most(hosts)
        return {'running_vms': int(most if isinstance(most, int) else most[position])}

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return 'has|have as many servers as allowed'


class IoOpsFilter(base.Filter):
    """Hosts with fewer than ``max_io_ops_per_host`` servers in a task that keeps disks and network busy."""

    rebuild = False

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        return self._busy(hosts, request) < self.most(hosts)

    def most(self, hosts: host_view.Hosts) -> int | np.ndarray:
        """Busy servers that a host may have: a number, or an array."""
        return self.conf.filter_scheduler.max_io_ops_per_host

    def wants(self, spec: objects.RequestSpec) -> bool:
        return True

    def facts(self, conn: engine.Connection, spec: objects.RequestSpec) -> frozenset[typing.Any]:
        return frozenset((host, node, number) for (host, node), number in hosts_db.busy_servers(conn).items())

    def _busy(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        """Servers in such a task as of this request, and those of its servers that were placed meanwhile."""
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

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return 'is|are busy with as many builds, moves and snapshots as allowed'


class MetricsFilter(base.Filter):
    """Hosts that measure all metrics that ``[metrics] weight_setting`` weighs."""

    rebuild = False

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        needed = {name for name, _ in weight_setting(self.conf)}
        if not needed:
            return hosts.everything
        return np.array([each is not None and needed <= each.keys() for each in hosts.metrics], dtype=bool)

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return 'does|do not measure the metrics that are weighed'


def weight_setting(conf: cfg.ConfigOpts) -> list[tuple[str, float]]:
    """[(metric, what it counts)] of the option.

    :raises InvalidOption: it has another form
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

    rebuild = False

    def wants(self, spec: objects.RequestSpec) -> bool:
        return True

    def facts(self, conn: engine.Connection, spec: objects.RequestSpec) -> frozenset[typing.Any]:
        return hosts_db.with_flavor(conn, spec.flavor['flavor_id'])

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        mask = ~hosts.on(request.facts.get(self.name, ()))
        for position in hosts.placed:
            mask[hosts.positions(hosts.host[position])] = False
        return mask

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return f'has|have a server of flavor {request_fields.flavor(request).get("name")} already'


FILTERS = (NumInstancesFilter, IoOpsFilter, MetricsFilter, TypeAffinityFilter)
