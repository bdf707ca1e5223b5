"""The cells in which a server can be placed."""
from __future__ import annotations

import typing

import numpy as np

from nova.scheduler.filters import base

if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler.placement_request import Request


class CellFilter(base.CachedFilter):
    """The server's own cell for existing servers, and all cells that are not disabled for new ones.

    The filter is always consulted.
    """

    selects_hosts = True

    def key(self, request: Request) -> str | tuple[str, ...]:
        return request.cell or request.disabled_cells

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        if request.cell:
            return hosts.match_column('cell', request.cell.__eq__)
        return hosts.match_column('cell', lambda cell: cell not in request.disabled_cells)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return 'is|are in another cell' if request.cell else 'is|are in a disabled cell'


FILTERS = (CellFilter,)
