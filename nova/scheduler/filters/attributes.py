"""Attributes of hosts for plugins, queries and extra specs, with the documented names."""
import collections.abc

import numpy as np

from nova.json_types import Json
from nova.scheduler import host_view

Read = collections.abc.Callable[[host_view.Hosts], np.ndarray]


class Attribute:
    """An attribute of hosts.

    :param read: ``read(hosts)`` -> array with the value of each host
    :param fixed: whether the attribute is independent of usage
    :param column: column of the host table that has few distinct values
    """

    def __init__(self, read: Read, fixed: bool = False, column: str | None = None) -> None:
        self.read, self.fixed, self.column = read, fixed, column


def _column(name: str) -> Attribute:
    return Attribute(lambda hosts: hosts.values(name), fixed=True, column=name)


def _total(resource: str) -> Attribute:
    return Attribute(lambda hosts: hosts.total[resource], fixed=True)


def free_ram_mb(hosts: host_view.Hosts) -> np.ndarray:
    """Return the free memory in MiB, without the host's reserved memory; negative on an overcommitted host."""
    return hosts.total['memory_mb'] - hosts.numbers('reserved_memory_mb') - hosts.used['memory_mb']


def free_disk_mb(hosts: host_view.Hosts) -> np.ndarray:
    return (hosts.total['local_gb'] - hosts.numbers('reserved_disk_gb') - hosts.used['local_gb']) * 1024


ATTRIBUTES = {
    'host': _column('host'),
    'nodename': _column('node'),
    'hypervisor_hostname': _column('node'),
    'hypervisor_type': _column('hypervisor_type'),
    'hypervisor_version': Attribute(lambda hosts: hosts.numbers('hypervisor_version'), fixed=True),
    'host_ip': _column('host_ip'),
    'cpu_info': _column('cpu_info'),
    'supported_instances': _column('supported_instances'),
    'capabilities': _column('capabilities'),
    'traits': _column('traits'),
    'availability_zone': _column('availability_zone'),
    'cpu_allocation_ratio': _column('cpu_allocation_ratio'),
    'ram_allocation_ratio': _column('ram_allocation_ratio'),
    'disk_allocation_ratio': _column('disk_allocation_ratio'),
    'vcpus_total': _total('vcpus'),
    'vcpus_used': Attribute(lambda hosts: hosts.used['vcpus']),
    'total_usable_ram_mb': _total('memory_mb'),
    'free_ram_mb': Attribute(free_ram_mb),
    'total_usable_disk_gb': _total('local_gb'),
    'free_disk_mb': Attribute(free_disk_mb),
    'disk_mb_used': Attribute(lambda hosts: hosts.used['local_gb'] * 1024),
    'num_instances': Attribute(lambda hosts: hosts.running_vms),
    'num_io_ops': Attribute(lambda hosts: hosts.io_ops),
    'failed_builds': Attribute(lambda hosts: hosts.failed_builds),
}


def find(names: collections.abc.Sequence[str]) -> tuple[Attribute, collections.abc.Sequence[str]]:
    """Split a path such as ('cpu_info', 'features') into (Attribute, remaining path within its value).

    A path that does not begin with an attribute's name is a path in the capabilities of the driver.
    """
    if names[0] in ATTRIBUTES:
        return ATTRIBUTES[names[0]], names[1:]
    return ATTRIBUTES['capabilities'], names


def path(hosts: host_view.Hosts, names: collections.abc.Sequence[str]) -> np.ndarray:
    """Return an array with each host's value at this path (see ``find``); None for hosts without a value."""
    attribute, rest = find(names)
    if not rest:
        return attribute.read(hosts)
    if attribute.column is None:
        return np.full(len(hosts), None)
    values, codes = hosts.distinct(attribute.column)
    found = np.empty(len(values), dtype=object)
    for number, value in enumerate(values):
        found[number] = under(value, rest)
    return found[codes]


def under(value: Json, names: collections.abc.Sequence[str]) -> Json:
    """Return the value at a path of keys in nested dicts, or None."""
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value
