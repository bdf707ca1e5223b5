"""The filters that come with the system."""
import numpy as np

from nova import utils
from nova.scheduler import filters


class ComputeFilter(filters.Filter):
    """Hosts whose compute service is up and enabled."""

    rebuild = False

    def mask(self, hosts, request):
        age = np.datetime64(utils.utcnow(), 'us') - hosts.seen
        limit = np.timedelta64(self.conf.service_down_time, 's')
        with np.errstate(invalid='ignore'):
            alive = (age <= limit) & (age >= -limit)         # NaT compares as False
        return alive & hosts.enabled & ~hosts.forced_down

    def reason(self, hosts, request, removed):
        return 'is|are down or disabled'


class AvailabilityZoneFilter(filters.Filter):
    """Hosts of the zone that was asked for, when one was."""

    rebuild = False

    def mask(self, hosts, request):
        zone = request.zone
        return np.ones(len(hosts), dtype=bool) if zone is None else hosts.zone == zone

    def reason(self, hosts, request, removed):
        return f'is|are not in availability zone {request.zone}'


class RequestedHostFilter(filters.Filter):
    """The host and node that were named, when they were, and none where building has failed before.

    It is always asked, first: no configuration leaves it out.
    """

    def mask(self, hosts, request):
        wanted = np.ones(len(hosts), dtype=bool)
        if request.host is not None:
            wanted &= hosts.host == request.host
        if request.node is not None:
            wanted &= hosts.node == request.node
        for host, node in request.tried:
            wanted &= ~((hosts.host == host) & (hosts.node == node))
        for host in request.ignored:
            wanted &= hosts.host != host
        return wanted

    def reason(self, hosts, request, removed):
        if request.ignored and all(hosts.host[position] in request.ignored for position in removed):
            return 'is|are where the server is, or has failed to be'
        tried = {(host, node) for host, node in request.tried}
        failed = sum((hosts.host[position], hosts.node[position]) in tried for position in removed)
        if not failed:
            return 'is|are not the host that was asked for'
        others = '' if failed == len(removed) else ', or is not the host that was asked for'
        return 'has|have failed to build it before' + others


class Room(filters.Filter):
    """Hosts with enough free of one resource."""

    room, rebuild = True, False
    resource = words = unit = None

    def mask(self, hosts, request):
        asked = request.asked[self.resource]
        return hosts.free(self.resource) >= asked if asked else np.ones(len(hosts), dtype=bool)

    def reason(self, hosts, request, removed):
        most = max(0, int(hosts.free(self.resource)[removed].max()))
        asked = request.asked[self.resource]
        return f'has|have {self.words} (largest free {most}{self.unit}, asked {asked}{self.unit})'


class CoreFilter(Room):
    resource, words, unit = 'vcpus', 'too few free vCPUs', ''


class RamFilter(Room):
    resource, words, unit = 'memory_mb', 'too little free memory', ' MB'


class DiskFilter(Room):
    resource, words, unit = 'local_gb', 'too little free disk', ' GB'


FILTERS = {cls.__name__: cls for cls in (ComputeFilter, AvailabilityZoneFilter, CoreFilter, RamFilter,
                                         DiskFilter)}
