"""What every filter is: a mask over the hosts, and a sentence about those that it removes."""
from __future__ import annotations

import typing

import numpy as np

from nova.scheduler import explain

if typing.TYPE_CHECKING:
    from oslo_config import cfg

    from nova import objects
    from nova.db import engine
    from nova.db.cells import cells as db_cells
    from nova.scheduler import host_view
    from nova.scheduler import pipeline


class Filter:
    """See the package for what the attributes mean."""

    room: bool = False
    forced: bool = False
    rebuild: bool = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    @property
    def name(self) -> str:
        return type(self).__name__

    def begin(self, cells: db_cells.Cells) -> None:
        """Called once, before the first request, with the databases (db.cells.Cells)."""

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        """An array of booleans; ``hosts.everything`` when nothing is requested that this filter judges by."""
        raise NotImplementedError

    def among(self, hosts: host_view.Hosts, request: pipeline.Request, left: np.ndarray) -> np.ndarray | None:
        """The mask at the positions ``left``, None for all True."""
        mask = self.mask(hosts, request)
        return None if mask is hosts.everything else mask[left]

    def applies(self, request: pipeline.Request) -> bool:
        """Whether the filter is consulted: of a forced host only whether it is that one, and has room."""
        return not request.forced or self.room or self.forced

    @property
    def costly(self) -> bool:
        """Whether it judges one host after the other, and is to be consulted about few."""
        return type(self).among is not Filter.among

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return f'does|do not pass {self.name}'

    def wants(self, spec: objects.RequestSpec) -> bool:
        """Whether ``facts`` is needed for this request."""
        return False

    def facts(self, conn: engine.Connection, spec: objects.RequestSpec) -> frozenset[typing.Any]:
        """What the database knows besides the table, a set; of several cells their union.

        Read once a request, in each cell, and found as ``request.facts[name]``.
        """
        return frozenset()

    def bounds(self, spec: objects.RequestSpec) -> bool:
        """Whether ``limits`` says something of this request, for a filter that has them."""
        return True

    def outside(self, hosts: host_view.Hosts, spec: objects.RequestSpec) -> typing.Any:
        """What another service knows besides the table; read once a request, with no transaction open, as ``facts``."""
        return None

    def lacks(self, hosts: host_view.Hosts, request: pipeline.Request, position: int) -> str:
        """What is against one host that it removes, for administrators."""
        return explain.conjugated(self.reason(hosts, request, np.array([position])), 1)

    def shortfall(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray | float:
        """How far a host is from passing, where 1 is as far as can be: a number for each, or one for all."""
        return 1.0


class Remembered(Filter):
    """A filter whose answer depends on no usage: it is found out once for each key."""

    def key(self, request: pipeline.Request) -> typing.Any:
        """What of the request decides, hashable; None: nothing is requested, and every host passes."""
        raise NotImplementedError

    def judge(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        """The mask, for a key that is not None."""
        raise NotImplementedError

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        key = self.key(request)
        if key is None:
            return hosts.everything
        return hosts.once((self.name, key), lambda: self.judge(hosts, request))
