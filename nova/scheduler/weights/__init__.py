"""Weighers: what makes one host better than another, each between 0 and 1 over the hosts that are left."""
import numpy as np


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


# option of the multiplier, value
WEIGHERS = (
    ('ram_weight_multiplier', free_ram),
    ('cpu_weight_multiplier', free_cpus),
)


def weigh(hosts, positions, multipliers):
    """The weight of each host at ``positions``.

    :param multipliers: {option of a weigher: number}
    """
    total = np.zeros(len(positions))
    for option, value in WEIGHERS:
        if multipliers[option]:
            total += multipliers[option] * normalised(value(hosts)[positions])
    return total
