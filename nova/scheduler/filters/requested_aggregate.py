"""Moves that are meant to stay within an aggregate."""
from __future__ import annotations

import typing

import numpy as np

from nova.scheduler.filters import base

if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler import pipeline


class RequestedAggregateFilter(base.Filter):
    """Hosts of the one aggregate that is meant, when one is: a host's maintenance moves its servers within it."""

    rebuild = False

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        if request.aggregate is None:
            return hosts.everything
        return hosts.once(('members', request.aggregate), lambda: np.array(
            [any(each['id'] == request.aggregate for each in found) for found in hosts.aggregates], dtype=bool))

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return 'is|are not in the aggregate'
