"""Flavors of bare metal machines: the extra spec ``resources:CUSTOM_…`` = 1 names the machine's resource class.

A server with such a flavor claims the whole node instead of vCPUs, memory and disk. A node takes only one server.
"""
from collections.abc import Mapping
import re

HYPERVISOR = 'ironic'                    # hypervisor_type of bare metal nodes
PREFIX = 'resources:CUSTOM_'
COUNTED = ('resources:VCPU', 'resources:MEMORY_MB', 'resources:DISK_GB')
_OTHERS = re.compile(r'[^A-Z0-9]')


def wanted(specs: Mapping[str, str] | None) -> str | None:
    """Return the resource class of the machine that extra specs request, or None."""
    return next((key.removeprefix('resources:') for key, value in specs.items()
                 if key.startswith(PREFIX) and str(value).strip().lstrip('0') == '1'), None) if specs else None


def class_name(resource_class: str) -> str:
    """Convert a Bare Metal resource class to its name in flavors: 'baremetal.gold' -> 'CUSTOM_BAREMETAL_GOLD'."""
    return 'CUSTOM_' + _OTHERS.sub('_', resource_class.upper()).removeprefix('CUSTOM_')
