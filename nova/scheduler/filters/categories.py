"""The filter of instance categories. No option can disable the filter, because users rely on the requirements."""
import collections.abc
import typing

import numpy as np

from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.filters import capabilities
from nova.scheduler.filters import operators
from nova.scheduler.placement_request import Request


class CategoryRequirementsFilter(base.Filter):
    """Hosts with attributes or aggregate metadata that meet the requirements of the server's instance category.

    Example: ``{'local_ssd': 'true', 'nic_speed': '>= 10000'}``.
    """

    run_on_rebuild = False

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        mask = hosts.all_pass
        for key, requirement in request.requirements.items():
            mask = mask & _met(hosts, key, requirement)
        return mask

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        missing = sorted(key for key, requirement in request.requirements.items()
                         if not _met(hosts, key, requirement)[removed].all())
        return f"does|do not meet the requirements of the server's category ({', '.join(missing)})"


def _met(hosts: host_view.Hosts, key: str, requirement: str) -> np.ndarray:
    return capabilities.satisfying(hosts, key.removeprefix('capabilities:'), requirement) | hosts.cached(
        ('category', key, requirement), lambda: _of_aggregates(hosts, key, operators.matcher(requirement)))


def _of_aggregates(hosts: host_view.Hosts, key: str, matches: collections.abc.Callable[[typing.Any], bool]
                   ) -> np.ndarray:
    """Return a mask of the hosts that have an aggregate with a matching metadata value for the key."""
    return hosts.by_aggregates(lambda merged: any(matches(value) for value in merged.get(key, ())))


FILTERS = (CategoryRequirementsFilter,)
