"""The cells in which a server can be placed."""
from __future__ import annotations

import typing

import numpy as np

from nova.scheduler.filters import base

if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler import pipeline


class CellFilter(base.Remembered):
    """New servers go to the cells that are not disabled, those that had a place stay in theirs.

    It is always consulted.
    """

    forced = True

    def key(self, request: pipeline.Request) -> typing.Any:
        return request.cell or request.closed or None

    def judge(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        if request.cell:
            return hosts.each('cell', request.cell.__eq__)
        return hosts.each('cell', lambda cell: cell not in request.closed)

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return 'is|are in another cell' if request.cell else 'is|are in a disabled cell'


FILTERS = (CellFilter,)
