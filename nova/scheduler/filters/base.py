"""Base classes of filters. A filter returns a mask (boolean array) of the hosts that pass, and explains removals."""
from __future__ import annotations

import collections.abc
import typing

import numpy as np

from nova import objects
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.scheduler import host_view
from nova.scheduler.placement_request import Request

from oslo_config import cfg

if typing.TYPE_CHECKING:
    from nova.db.networks import guarantees
    from nova.network.neutron import reachable_hosts

# data that a filter needs but the host table lacks: a frozenset from ``facts``, other types from ``external_facts``
Facts: typing.TypeAlias = (
    'frozenset[typing.Any] | dict[str, str] | reachable_hosts.ReachableHosts | guarantees.Needs | None')


class Filter:
    """Base class of filters. The docstring of the package ``filters`` describes the attributes."""

    checks_capacity: bool = False
    selects_hosts: bool = False
    run_on_rebuild: bool = True
    reads_existing: bool = False
    why: str = ''

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    @property
    def name(self) -> str:
        return type(self).__name__

    def start(self, cells: db_cells.Cells) -> None:
        """Prepare the filter. Called once, before the first request, with the databases (db.cells.cells.Cells)."""

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        """Return a mask of the passing hosts, or ``hosts.all_pass`` if the filter has no effect on the request."""
        raise NotImplementedError

    def mask_at(self, hosts: host_view.Hosts, request: Request, left: np.ndarray) -> np.ndarray | None:
        """Return the mask for the positions ``left`` only, or None if all these hosts pass."""
        mask = self.mask(hosts, request)
        return None if mask is hosts.all_pass else mask[left]

    def applies(self, request: Request) -> bool:
        """Tell whether the filter runs. On a forced host, only filters with checks_capacity or selects_hosts run."""
        return not request.forced or self.checks_capacity or self.selects_hosts

    @property
    def costly(self) -> bool:
        """Tell whether the filter evaluates hosts one by one. Explanations run such filters last, on few hosts."""
        return type(self).mask_at is not Filter.mask_at

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return self.why or f'does|do not pass {self.name}'

    def needs_facts(self, spec: objects.RequestSpec) -> bool:
        """Tell whether ``facts`` must be called for this request."""
        return False

    def facts(self, conn: engine.Connection, spec: objects.RequestSpec) -> frozenset[typing.Any]:
        """Return a set of data that the filter needs from a cell's database, because the host table lacks it.

        The method is called once for each request and cell. ``request.facts[name]`` is the union of the sets.
        """
        return frozenset()

    def has_limits(self, spec: objects.RequestSpec) -> bool:
        """Tell whether the claim must use ``limits`` for this request; called only if ``limits`` is defined."""
        return True

    def external_facts(self, hosts: host_view.Hosts, spec: objects.RequestSpec) -> Facts:
        """Return data from another service. Called once for each request, outside of transactions."""
        return None

    def lacks(self, hosts: host_view.Hosts, request: Request, position: int) -> str:
        """Return the reason, for administrators, why the filter removed one host."""
        return conjugated(self.reason(hosts, request, np.array([position])), 1)

    def shortfall(self, hosts: host_view.Hosts, request: Request) -> np.ndarray | float:
        """Return a number from 0 (passes) to 1 (far from passing) for each host, or one number for all hosts."""
        return 1.0


class CachedFilter(Filter):
    """Base class of filters with a mask that does not depend on the usage of hosts. The mask is cached by ``key``."""

    def key(self, request: Request) -> collections.abc.Hashable:
        """Return the values of the request on which the mask depends; None or an empty value if all hosts pass."""
        raise NotImplementedError

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        """Compute the mask of a key; called only if the key is not empty and has no cached mask."""
        raise NotImplementedError

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        key = self.key(request)
        if not key:
            return hosts.all_pass
        return hosts.cached((self.name, key), lambda: self.judge(hosts, request))


def conjugated(reason: str, count: int) -> str:
    """Choose the verb for the number of hosts: ``is|are down`` becomes ``is down`` or ``are down``."""
    verb, _, rest = reason.partition(' ')
    singular, _, plural = verb.partition('|')
    return f'{singular if count == 1 else plural or singular} {rest}'
