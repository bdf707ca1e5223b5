"""The filter for moves within an aggregate."""
from __future__ import annotations

import typing

import numpy as np

from nova.scheduler.filters import base

if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler.placement_request import Request


class RequestedAggregateFilter(base.Filter):
    """Hosts of the requested aggregate; the maintenance of a host may move servers only within an aggregate."""

    run_on_rebuild = False

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        if request.aggregate is None:
            return hosts.all_pass
        return hosts.cached(('members', request.aggregate), lambda: np.array(
            [any(each['id'] == request.aggregate for each in found) for found in hosts.aggregates], dtype=bool))

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return 'is|are not in the aggregate'
