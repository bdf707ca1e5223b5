"""The filters that come with the system."""
from __future__ import annotations

import math
import time
import typing

import numpy as np

from nova import utils
from nova.scheduler.filters import base

if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler import pipeline

FRESH_S = 0.5            # for so long a service counts as it was found


class AllHostsFilter(base.Filter):
    """Every host."""

    rebuild = False

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        return hosts.everything


class ComputeFilter(base.Filter):
    """Hosts whose compute service is up and enabled."""

    rebuild = False

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        # one mask serves all requests for a while: hosts are given many times as long before they count as down
        known: dict[typing.Any, typing.Any] = hosts.once(self.name, dict)
        now = time.monotonic()
        seen, until, mask = known.get('mask', (None, 0, None))
        if seen is not hosts.seen or now > until:
            mask = self._alive(hosts)
            known['mask'] = hosts.seen, now + FRESH_S, mask
        return mask

    def _alive(self, hosts: host_view.Hosts) -> np.ndarray:
        age = np.datetime64(utils.utcnow(), 'us') - hosts.seen
        limit = np.timedelta64(self.conf.service_down_time, 's')
        with np.errstate(invalid='ignore'):
            alive = (age <= limit) & (age >= -limit)         # NaT compares as False
        return alive & hosts.enabled & ~hosts.forced_down

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return 'is|are down or disabled'


class AvailabilityZoneFilter(base.Filter):
    """Hosts of the requested zone, when there is one; of several, separated by commas, any of them."""

    rebuild = False

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        if request.zone is None:
            return hosts.everything
        return hosts.once(('zone', request.zone), lambda: hosts.each('availability_zone', request.zones.__contains__))

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return f'is|are not in availability zone {request.zone}'


class RequestedHostFilter(base.Filter):
    """The host and node that were named, when they were, and none that is out of the question.

    It is always consulted, first: no configuration leaves it out.
    """

    forced = True

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        if request.host is None and request.node is None and not request.ignored:
            return hosts.everything
        mask = np.ones(len(hosts), dtype=bool) if request.host is None else hosts.on([request.host])
        if request.node is not None:
            mask &= hosts.node == request.node
        return mask & ~hosts.on(request.ignored)

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        if request.ignored and all(hosts.host[position] in request.ignored for position in removed):
            return 'is|are where the server is, or has failed to be'
        return 'is|are not the requested host'


class MovedGuestFilter(base.Filter):
    """Hosts with a hypervisor of the type that the guest of a moved server is of. It is always consulted."""

    forced = True

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        if request.hypervisor is None:
            return hosts.everything
        return hosts.once(('hypervisor', request.hypervisor), lambda: hosts.each(
            'hypervisor_type', lambda kind: kind == request.hypervisor))

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return f'has|have no hypervisor of type {request.hypervisor}, which the guest is of'


class RetryFilter(base.Filter):
    """Hosts where building the server has not failed before. It is always consulted."""

    forced = True

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        if not request.tried:
            return hosts.everything
        mask = np.ones(len(hosts), dtype=bool)
        for host, node in request.tried:
            for position in hosts.positions(host):
                mask[position] &= hosts.node[position] != node
        return mask

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        return 'has|have failed to build it before'


class Room(base.Filter):
    """Hosts with enough free of one resource."""

    room, rebuild = True, False
    resource = words = unit = ''

    def free(self, hosts: host_view.Hosts) -> np.ndarray:
        """What one more server could get on each host."""
        return hosts.free(self.resource)

    def mask(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray:
        amount = request.resources[self.resource]
        return self.free(hosts) >= amount if amount else hosts.everything

    def reason(self, hosts: host_view.Hosts, request: pipeline.Request, removed: np.ndarray) -> str:
        most = max(0, int(self.free(hosts)[removed].max()))
        amount = request.resources[self.resource]
        return f'has|have {self.words} (largest free {most}{self.unit}, asked {amount}{self.unit})'

    def lacks(self, hosts: host_view.Hosts, request: pipeline.Request, position: int) -> str:
        missing = math.ceil(request.resources[self.resource] - self.free(hosts)[position])
        what = self.words.rpartition(' ')[2]
        return f'lacks {missing}{self.unit} of {what}' if self.unit else f'lacks {missing} {what}'

    def shortfall(self, hosts: host_view.Hosts, request: pipeline.Request) -> np.ndarray | float:
        amount = request.resources[self.resource]
        return np.clip((amount - self.free(hosts)) / amount, 0, 1) if amount else 0.0


class CoreFilter(Room):
    resource, words, unit = 'vcpus', 'too few free vCPUs', ''


class RamFilter(Room):
    resource, words, unit = 'memory_mb', 'too little free memory', ' MB'


class DiskFilter(Room):
    resource, words, unit = 'local_gb', 'too little free disk', ' GB'


FILTERS = (AllHostsFilter, ComputeFilter, AvailabilityZoneFilter, CoreFilter, RamFilter, DiskFilter)
