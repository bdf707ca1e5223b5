"""Weighers: values by which the scheduler ranks the hosts that pass all filters.

``weight = multiplier1 * norm(weigher1) + multiplier2 * norm(weigher2) + …``, where norm scales the values to 0 … 1. A
built-in weigher is a row of WEIGHERS. If the metadata of an aggregate has a key named like the option of
a multiplier, the key's value replaces the multiplier. Subclasses of BaseHostWeigher work too: see plugins.py.
"""
import collections.abc
import dataclasses
import inspect

import numpy as np
from oslo_config import cfg

from nova import exception
from nova.db.placement import server_groups
from nova.runtime import entry_points
from nova.scheduler import aggregate_values
from nova.scheduler import host_view
from nova.scheduler.filters import attributes
from nova.scheduler.filters import busy
from nova.scheduler.weights.plugins import BaseHostWeigher
from nova.scheduler.weights.plugins import PerHost

__all__ = ('AnyWeigher', 'BaseHostWeigher', 'WEIGHERS', 'Weigher', 'load', 'weigh')

ALL = 'nova.scheduler.weights.all_weighers'
ENTRY_POINTS = 'nova.scheduler.weights'

# function that returns a value for each host of a view (larger is better), or None if the weigher does not apply
Values = collections.abc.Callable[[host_view.Hosts], np.ndarray | None]
Weighed = tuple[float | np.ndarray, np.ndarray | None]           # multiplier, values


def normalised(values: np.ndarray) -> np.ndarray:
    """Scale values to the range from 0 (the smallest) to 1 (the largest). If all values are equal, return zeros."""
    if not len(values):
        return values
    low, high = values.min(), values.max()
    return np.zeros(len(values)) if high == low else (values - low) / (high - low)


def free_ram(hosts: host_view.Hosts) -> np.ndarray:
    return hosts.left('memory_mb')


def free_cpus(hosts: host_view.Hosts) -> np.ndarray:
    return hosts.left('vcpus')


def free_disk(hosts: host_view.Hosts) -> np.ndarray:
    return hosts.left('local_gb')


def busy_servers(hosts: host_view.Hosts) -> np.ndarray | None:
    return hosts.io_ops if hosts.io_ops.any() else None


def failed_builds(hosts: host_view.Hosts) -> np.ndarray | None:
    return -hosts.failed_builds if hosts.failed_builds.any() else None


def hypervisor_version(hosts: host_view.Hosts) -> np.ndarray | None:
    array = attributes.ATTRIBUTES['hypervisor_version'].read(hosts)
    differ = hosts.cached('hypervisor_versions_differ', lambda: bool(len(array)) and bool((array != array[0]).any()))
    return array if differ else None


def metrics(conf: cfg.ConfigOpts) -> Values:
    """Return the weigher of the host metrics in [metrics] weight_setting."""
    setting, unavailable = busy.weight_setting(conf), conf.metrics.weight_of_unavailable

    def weight(measured: dict[str, float] | None) -> float:
        if not measured or any(name not in measured for name, _ in setting):
            return float(unavailable)
        return float(sum(measured[name] * ratio for name, ratio in setting))
    return lambda hosts: np.array([weight(each) for each in hosts.metrics], dtype=float) if setting else None


def soft_affinity(hosts: host_view.Hosts) -> np.ndarray | None:
    """Return the number of group members on each host, or None if the group's policy is not soft affinity."""
    return hosts.members if _has_policy(hosts, server_groups.SOFT_AFFINITY) else None


def soft_anti_affinity(hosts: host_view.Hosts) -> np.ndarray | None:
    """Return the negative number of group members on each host, or None if the policy is not soft anti-affinity."""
    members = hosts.members
    return -members if members is not None and _has_policy(hosts, server_groups.SOFT_ANTI_AFFINITY) else None


def pci_devices(hosts: host_view.Hosts) -> np.ndarray | None:
    """Return the negative number of free PCI devices of each host.

    Requests without devices then avoid hosts with devices, and small requests avoid hosts with many devices.
    """
    counts = hosts.pci.counts
    return None if counts is None else -counts


def _has_policy(hosts: host_view.Hosts, policy: str) -> bool:
    return policy in hosts.policies


@dataclasses.dataclass(frozen=True)
class Weigher:
    """Built-in weigher.

    :param key: option of the multiplier, and the metadata key of aggregates that overrides the multiplier
    :param values: function of the type Values
    """

    name: str
    key: str
    values: Values
    multiplier: float

    def weigh(self, hosts: host_view.Hosts, positions: np.ndarray) -> Weighed:
        """Return (multiplier, values) at the positions; values are None if the weigher does not apply."""
        multiplier = aggregate_values.overridden(hosts, self.key, self.multiplier, least=-np.inf)
        if isinstance(multiplier, np.ndarray):
            multiplier = multiplier[positions]
        elif not multiplier:
            return 0.0, None
        values = self.values(hosts)
        return multiplier, values if values is None or len(positions) == len(values) else values[positions]


AnyWeigher = Weigher | PerHost

# (name, option of the multiplier, function of the type Values)
WEIGHERS = (
    ('RAMWeigher', 'ram_weight_multiplier', free_ram),
    ('CPUWeigher', 'cpu_weight_multiplier', free_cpus),
    ('DiskWeigher', 'disk_weight_multiplier', free_disk),
    ('IoOpsWeigher', 'io_ops_weight_multiplier', busy_servers),
    ('BuildFailureWeigher', 'build_failure_weight_multiplier', failed_builds),
    ('HypervisorVersionWeigher', 'hypervisor_version_weight_multiplier', hypervisor_version),
    ('ServerGroupSoftAffinityWeigher', 'soft_affinity_weight_multiplier', soft_affinity),
    ('ServerGroupSoftAntiAffinityWeigher', 'soft_anti_affinity_weight_multiplier', soft_anti_affinity),
    ('PCIWeigher', 'pci_weight_multiplier', pci_devices),
)
METRICS = 'MetricsWeigher'           # not in WEIGHERS, because its options are in the group [metrics]


def _builtin(conf: cfg.ConfigOpts) -> dict[str, Weigher]:
    found = [Weigher(name, option, values, conf.filter_scheduler[option]) for name, option, values in WEIGHERS]
    found.append(Weigher(METRICS, 'metrics_weight_multiplier', metrics(conf), conf.metrics.weight_multiplier))
    return {each.name: each for each in found}


def load(conf: cfg.ConfigOpts) -> tuple[AnyWeigher, ...]:
    """Return the weighers that [filter_scheduler] weight_classes names.

    :raises InvalidOption: a weigher does not exist; the message lists the available weighers
    """
    builtin = _builtin(conf)
    found: dict[str, AnyWeigher] = {}
    for name in conf.filter_scheduler.weight_classes:
        if name == ALL:
            found |= builtin
            continue
        short = name.rpartition('.')[2] if name.startswith('nova.scheduler.weights.') else name
        if short in builtin:
            found[short] = builtin[short]
            continue
        cls = entry_points.named('weight_classes', name, ENTRY_POINTS, [ALL, *sorted(builtin)])
        if not inspect.isclass(cls) or not issubclass(cls, BaseHostWeigher):
            raise exception.InvalidOption(
                f'weight_classes: {name} is not a subclass of nova.scheduler.weights.BaseHostWeigher.')
        found[cls.__name__] = PerHost(conf, cls())
    return tuple(found.values())


def weigh(hosts: host_view.Hosts, positions: np.ndarray, weighers: collections.abc.Iterable[AnyWeigher]) -> np.ndarray:
    """Return the weight of each host at ``positions``."""
    total = np.zeros(len(positions))
    for each in weighers:
        multiplier, values = each.weigh(hosts, positions)
        if values is not None:
            total += multiplier * normalised(values)
    return total


def score(hosts: host_view.Hosts, positions: np.ndarray, weighers: collections.abc.Iterable[AnyWeigher]) -> np.ndarray:
    """Return the weights with a constant offset: the same ranking as with ``weigh``, but computed faster."""
    total = None
    for each in weighers:
        multiplier, values = each.weigh(hosts, positions)
        if values is None or not len(values):
            continue
        low, high = values.min(), values.max()
        if low == high:
            continue
        part = scaled(multiplier, values, low, high)
        total = part if total is None else np.add(total, part, out=total)
    return np.zeros(len(positions)) if total is None else total


def scaled(multiplier: float | np.ndarray, values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the contribution of a weigher to ``score``. The values are in ``low`` … ``high``, which must differ."""
    if isinstance(multiplier, np.ndarray):
        return multiplier * ((values - low) / (high - low))
    return values * (multiplier / (high - low))
