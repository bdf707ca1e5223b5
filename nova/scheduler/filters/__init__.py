"""Filters: masks over the host table.

A filter has ``mask(hosts, request)``: an array of booleans, True for the hosts that it lets through; and
``reason(hosts, request, removed)``: what it has against the hosts at the positions ``removed``, as the end of a
sentence that begins with their number, its verb as ``singular|plural``, safe to be read by users. ``room`` marks
filters that are asked even when an administrator forces a host, because the claim would refuse it anyway;
``rebuild = False`` those that have nothing to say about another image for a server that is on its host already.

A class with the per-host method ``host_passes(host, spec)`` works as well.
"""
import types

import numpy as np
from oslo_utils import importutils


class Filter:
    room = False
    rebuild = True

    def __init__(self, conf):
        self.conf = conf

    @property
    def name(self):
        return type(self).__name__

    def mask(self, hosts, request):
        raise NotImplementedError

    def reason(self, hosts, request, removed):
        return f'does|do not pass {self.name}'


class PerHost(Filter):
    """A filter written for one host at a time, beside the others."""

    def __init__(self, conf, wrapped):
        super().__init__(conf)
        self._wrapped = wrapped

    @property
    def name(self):
        return type(self._wrapped).__name__

    def mask(self, hosts, request):
        return np.array([bool(self._wrapped.host_passes(state(hosts, position), request.spec))
                         for position in range(len(hosts))], dtype=bool)


def state(hosts, position):
    """One host with the attribute names of the documented per-host interface."""
    row = hosts.rows[position]
    return types.SimpleNamespace(
        host=row['host'], nodename=row['node'], hypervisor_type=row['hypervisor_type'],
        capabilities=row['capabilities'], vcpus_total=row['vcpus'], vcpus_used=int(hosts.used['vcpus'][position]),
        total_usable_ram_mb=row['memory_mb'], free_ram_mb=int(hosts.free('memory_mb')[position]),
        free_disk_mb=int(hosts.free('local_gb')[position]) * 1024, num_instances=int(hosts.running_vms[position]),
        cpu_allocation_ratio=row['cpu_allocation_ratio'], ram_allocation_ratio=row['ram_allocation_ratio'],
        disk_allocation_ratio=row['disk_allocation_ratio'])


def load(conf, names):
    """Filter objects for option values: built-in names or package.module.Class."""
    from nova.scheduler.filters import builtin
    from nova.scheduler.filters import groups
    always = (builtin.RequestedHostFilter, *groups.FILTERS)
    found = []
    for name in names:
        if name in {cls.__name__ for cls in always}:
            continue
        cls = importutils.import_class(name) if '.' in name else builtin.FILTERS.get(name)
        if cls is None:
            raise ValueError(f'enabled_filters: there is no filter {name}; built in are '
                             f'{", ".join(sorted(builtin.FILTERS))}.')
        found.append(cls(conf) if issubclass(cls, Filter) else PerHost(conf, cls()))
    return [*(cls(conf) for cls in always), *found]
