"""Flavors that ask for a whole machine of bare metal: ``resources:CUSTOM_…`` = 1, the name of a resource class.

Such a server has its node for itself and takes no counted amount of it; a node of bare metal takes no other server.
"""
from __future__ import annotations

from collections.abc import Mapping
import re
from typing import Any

HYPERVISOR = 'ironic'                    # hypervisor_type of such nodes
PREFIX = 'resources:CUSTOM_'
COUNTED = ('resources:VCPU', 'resources:MEMORY_MB', 'resources:DISK_GB')
_OTHERS = re.compile(r'[^A-Z0-9]')


def wanted(flavor: Mapping[str, Any] | None) -> str | None:
    """The resource class of the machine that a flavor (with ``extra_specs``) asks for; None: it asks for none."""
    specs = (flavor or {}).get('extra_specs')
    return next((key.removeprefix('resources:') for key, value in specs.items()
                 if key.startswith(PREFIX) and str(value).strip().lstrip('0') == '1'), None) if specs else None


def class_name(resource_class: str) -> str:
    """A resource class of the Bare Metal service as flavors name it: 'baremetal.gold' -> 'CUSTOM_BAREMETAL_GOLD'."""
    return 'CUSTOM_' + _OTHERS.sub('_', resource_class.upper()).removeprefix('CUSTOM_')
