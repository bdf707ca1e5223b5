"""Weighers: what makes one host better than another, each between 0 and 1 over the hosts that are left."""
import numpy as np

from nova.scheduler import groups


def normalised(values):
    """Values between 0 (the smallest) and 1 (the largest); all 0 when they are equal."""
    if not len(values):
        return values
    low, high = values.min(), values.max()
    return np.zeros(len(values)) if high == low else (values - low) / (high - low)


def free_ram(hosts):
    return hosts.capacity['memory_mb'] - hosts.used['memory_mb']


def free_cpus(hosts):
    return hosts.capacity['vcpus'] - hosts.used['vcpus']


def companions(hosts):
    """Members of the server's group, where its policy wishes them together."""
    return hosts.members if _policy(hosts) == groups.SOFT_AFFINITY else np.zeros(len(hosts))


def strangers(hosts):
    """The fewer members of the server's group the better, where its policy wishes them apart."""
    return -hosts.members if _policy(hosts) == groups.SOFT_ANTI_AFFINITY else np.zeros(len(hosts))


def _policy(hosts):
    return hosts.group and hosts.group.policy


# option of the multiplier, value
WEIGHERS = (
    ('ram_weight_multiplier', free_ram),
    ('cpu_weight_multiplier', free_cpus),
    ('soft_affinity_weight_multiplier', companions),
    ('soft_anti_affinity_weight_multiplier', strangers),
)


def weigh(hosts, positions, multipliers):
    """The weight of each host at ``positions``.

    :param multipliers: {option of a weigher: number}; one that is left out does not count
    """
    total = np.zeros(len(positions))
    for option, value in WEIGHERS:
        if multipliers.get(option):
            total += multipliers[option] * normalised(value(hosts)[positions])
    return total
