"""Moves that are meant to stay within an aggregate."""
import numpy as np

from nova.scheduler.filters import base


class RequestedAggregateFilter(base.Filter):
    """Hosts of the one aggregate that is meant, when one is: a host's maintenance moves its servers within it."""

    rebuild = False

    def mask(self, hosts, request):
        if request.aggregate is None:
            return hosts.everything
        return hosts.once(('members', request.aggregate), lambda: np.array(
            [any(each['id'] == request.aggregate for each in found) for found in hosts.aggregates], dtype=bool))

    def reason(self, hosts, request, removed):
        return 'is|are not in the aggregate'
