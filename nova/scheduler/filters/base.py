"""Base classes of filters: a mask over the hosts and a sentence about the removed hosts."""
import collections.abc
import typing

import numpy as np

from nova import objects
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.scheduler import host_view
from nova.scheduler.placement_request import Request

from oslo_config import cfg


class Filter:
    """A filter; the package documents the attributes."""

    checks_capacity: bool = False
    selects_hosts: bool = False
    run_on_rebuild: bool = True
    why: str = ''

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    @property
    def name(self) -> str:
        return type(self).__name__

    def start(self, cells: db_cells.Cells) -> None:
        """Prepare the filter. Called once, before the first request, with the databases (db.cells.Cells)."""

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        """Return a mask of the hosts that pass, or ``hosts.all_pass`` if the request has no condition for this
        filter.
        """
        raise NotImplementedError

    def mask_at(self, hosts: host_view.Hosts, request: Request, left: np.ndarray) -> np.ndarray | None:
        """Return the mask at the positions ``left``, or None if it is all True."""
        mask = self.mask(hosts, request)
        return None if mask is hosts.all_pass else mask[left]

    def applies(self, request: Request) -> bool:
        """Tell whether the filter is consulted. Only selecting filters and capacity filters check a forced host."""
        return not request.forced or self.checks_capacity or self.selects_hosts

    @property
    def costly(self) -> bool:
        """Tell whether the filter evaluates single hosts, so that it should run after the others on few hosts."""
        return type(self).mask_at is not Filter.mask_at

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return self.why or f'does|do not pass {self.name}'

    def needs_facts(self, spec: objects.RequestSpec) -> bool:
        """Tell whether this request needs ``facts``."""
        return False

    def facts(self, conn: engine.Connection, spec: objects.RequestSpec) -> frozenset[typing.Any]:
        """Return a set of data from the database that is not in the table; the sets of several cells are united.

        The data is read once for each request in each cell, and is available as ``request.facts[name]``.
        """
        return frozenset()

    def has_limits(self, spec: objects.RequestSpec) -> bool:
        """Tell whether ``limits`` applies to this request. Called only for filters that define ``limits``."""
        return True

    def external_facts(self, hosts: host_view.Hosts, spec: objects.RequestSpec) -> object:
        """Return data from another service, read once for each request without an open transaction."""
        return None

    def lacks(self, hosts: host_view.Hosts, request: Request, position: int) -> str:
        """Return the reason for the removal of one host, for administrators."""
        return conjugated(self.reason(hosts, request, np.array([position])), 1)

    def shortfall(self, hosts: host_view.Hosts, request: Request) -> np.ndarray | float:
        """Return how far hosts are from passing, between 0 and 1: a number for each, or one for all."""
        return 1.0


class CachedFilter(Filter):
    """A filter that is independent of usage; its masks are cached by key."""

    def key(self, request: Request) -> collections.abc.Hashable:
        """Return the part of the request that the mask depends on; None or empty if every host passes."""
        raise NotImplementedError

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        """Return the mask for a key that is not empty."""
        raise NotImplementedError

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        key = self.key(request)
        if not key:
            return hosts.all_pass
        return hosts.cached((self.name, key), lambda: self.judge(hosts, request))


def conjugated(reason: str, count: int) -> str:
    """Return ``is|are down`` as ``is down`` or ``are down``."""
    verb, _, rest = reason.partition(' ')
    singular, _, plural = verb.partition('|')
    return f'{singular if count == 1 else plural or singular} {rest}'
