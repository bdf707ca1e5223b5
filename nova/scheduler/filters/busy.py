"""Filters by how busy a host is, and by what its monitors measure."""
import numpy as np
import sqlalchemy as sa

from nova import exception
from nova import states
from nova.db.tables.cell import instances
from nova.scheduler.filters import asked
from nova.scheduler.filters import base

# tasks that keep a host's disks and network busy; a server that waits for its compute has a host, and will be
BUSY = (states.SCHEDULING, states.NETWORKING, states.BLOCK_DEVICE_MAPPING, states.SPAWNING, states.RESIZE_PREP,
        states.RESIZE_MIGRATING, states.RESIZE_MIGRATED, states.RESIZE_FINISH, states.IMAGE_SNAPSHOT_PENDING,
        states.IMAGE_SNAPSHOT, states.IMAGE_PENDING_UPLOAD, states.IMAGE_UPLOADING, states.IMAGE_BACKUP,
        states.REBUILDING, states.REBUILD_BLOCK_DEVICE_MAPPING, states.REBUILD_SPAWNING, states.MIGRATING,
        states.SHELVING, states.SHELVING_IMAGE_PENDING_UPLOAD, states.SHELVING_IMAGE_UPLOADING, states.UNSHELVING,
        states.RESCUING, states.UNRESCUING)


def busy_servers(conn):
    """{(host, node): servers in such a task}, of the nodes that have any; one indexed query."""
    c = instances.c
    found = sa.select(c.host, c.node, sa.func.count()).where(
        c.task_state.in_(BUSY), c.host.is_not(None)).group_by(c.host, c.node)
    return {(host, node): number for host, node, number in conn.execute(found)}


class NumInstancesFilter(base.Filter):
    """Hosts with fewer servers than ``max_instances_per_host``. The claim holds it, too."""

    rebuild = False

    def mask(self, hosts, request):
        return hosts.running_vms < self.most(hosts)

    def most(self, hosts):
        """Servers that a host may have: a number, or an array."""
        return self.conf.filter_scheduler.max_instances_per_host

    def limits(self, hosts, position):
        most = self.most(hosts)
        return {'running_vms': int(most if isinstance(most, int) else most[position])}

    def reason(self, hosts, request, removed):
        return 'has|have as many servers as allowed'


class IoOpsFilter(base.Filter):
    """Hosts with fewer than ``max_io_ops_per_host`` servers in a task that keeps disks and network busy."""

    rebuild = False

    def mask(self, hosts, request):
        return self._busy(hosts, request) < self.most(hosts)

    def most(self, hosts):
        """Busy servers that a host may have: a number, or an array."""
        return self.conf.filter_scheduler.max_io_ops_per_host

    def wants(self, spec):
        return True

    def facts(self, conn, spec):
        return frozenset((host, node, number) for (host, node), number in busy_servers(conn).items())

    def _busy(self, hosts, request):
        """As of this request, where it was asked; and those of its servers that were placed meanwhile."""
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

    def reason(self, hosts, request, removed):
        return 'is|are busy with as many builds, moves and snapshots as allowed'


class MetricsFilter(base.Filter):
    """Hosts that measure all metrics that ``[metrics] weight_setting`` weighs."""

    rebuild = False

    def mask(self, hosts, request):
        wanted = {name for name, _ in weight_setting(self.conf)}
        if not wanted:
            return hosts.everything
        return np.array([each is not None and wanted <= each.keys() for each in hosts.metrics], dtype=bool)

    def reason(self, hosts, request, removed):
        return 'does|do not measure the metrics that are weighed'


def weight_setting(conf):
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

    def wants(self, spec):
        return True

    def facts(self, conn, spec):
        c = instances.c
        found = sa.select(c.host).where(c.flavor_id == spec.flavor['flavor_id'], c.host.is_not(None)).distinct()
        return frozenset(conn.execute(found).scalars())

    def mask(self, hosts, request):
        mask = ~hosts.on(request.facts.get(self.name, ()))
        for position in hosts.placed:
            mask[hosts.positions(hosts.host[position])] = False
        return mask

    def reason(self, hosts, request, removed):
        return f'has|have a server of flavor {asked.flavor(request).get("name")} already'


FILTERS = (NumInstancesFilter, IoOpsFilter, MetricsFilter, TypeAffinityFilter)
