"""Built-in filters."""
import math
import time
import typing

import numpy as np

from nova import utils
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.filters import request_fields
from nova.scheduler.placement_request import Request

FRESH_S = 0.5                           # maximum age in seconds of the cached mask of ComputeFilter
ISOLATED, OTHER = 'isolated', 'other'   # kinds of images for IsolatedHostsFilter


class AllHostsFilter(base.Filter):
    """Every host."""

    run_on_rebuild = False

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        return hosts.all_pass


class ComputeFilter(base.Filter):
    """Hosts with a compute service that is up and enabled."""

    run_on_rebuild = False
    why = 'is|are down or disabled'

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        # service_down_time is many times longer than FRESH_S, so the mask may be cached
        known: dict[typing.Any, typing.Any] = hosts.cached(self.name, dict)
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
            alive = (age <= limit) & (age >= -limit)         # False for NaT: a service without a heartbeat
        return alive & hosts.enabled & ~hosts.forced_down


class AvailabilityZoneFilter(base.Filter):
    """Hosts of the requested availability zone, or of any zone in a comma-separated list."""

    run_on_rebuild = False

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        if request.zone is None:
            return hosts.all_pass
        return hosts.cached(('zone', request.zone),
                            lambda: hosts.match_column('availability_zone', request.zones.__contains__))

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return f'is|are not in availability zone {request.zone}'


class RequestedHostFilter(base.Filter):
    """The requested host and node; all hosts if the request names none. Hosts that the request ignores never pass.

    The configuration cannot disable the filter.
    """

    selects_hosts = True

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        if request.host is None and request.node is None and not request.ignored:
            return hosts.all_pass
        mask = np.ones(len(hosts), dtype=bool) if request.host is None else hosts.on_hosts([request.host])
        if request.node is not None:
            mask &= hosts.node == request.node
        return mask & ~hosts.on_hosts(request.ignored)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        if request.ignored and all(hosts.host[position] in request.ignored for position in removed):
            return 'is|are excluded, as the present host or after a failed move'
        return 'is|are not the requested host'


class CellFilter(base.CachedFilter):
    """For an existing server, the hosts of its cell; for a new server, the hosts of all enabled cells.

    The configuration cannot disable the filter.
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


class RequestedAggregateFilter(base.Filter):
    """Hosts of the requested aggregate; only moves for the maintenance of a host request an aggregate."""

    run_on_rebuild = False
    why = 'is|are not in the aggregate'

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        if request.aggregate is None:
            return hosts.all_pass
        return hosts.cached(('members', request.aggregate), lambda: np.array(
            [any(each['id'] == request.aggregate for each in found) for found in hosts.aggregates], dtype=bool))


class IsolatedHostsFilter(base.CachedFilter):
    """Images in ``isolated_images`` run only on hosts in ``isolated_hosts``.

    Other images may use these hosts too if ``restrict_isolated_hosts_to_isolated_images`` is false.
    """

    def key(self, request: Request) -> str:
        options = self.conf.filter_scheduler
        if not options.isolated_hosts and not options.isolated_images:
            return ''
        if request_fields.image_id(request) in options.isolated_images:
            return ISOLATED
        return OTHER if options.restrict_isolated_hosts_to_isolated_images else ''

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        isolated = hosts.on_hosts(self.conf.filter_scheduler.isolated_hosts)
        return isolated if self.key(request) == ISOLATED else np.logical_not(isolated)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return ('is|are not reserved for the image, which needs isolated hosts' if self.key(request) == ISOLATED
                else 'is|are reserved for other images')


class MovedGuestFilter(base.Filter):
    """For a move, hosts with the hypervisor type of the guest. The configuration cannot disable the filter."""

    selects_hosts = True

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        if request.hypervisor is None:
            return hosts.all_pass
        return hosts.cached(('hypervisor', request.hypervisor), lambda: hosts.match_column(
            'hypervisor_type', lambda kind: kind == request.hypervisor))

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return f'has|have no hypervisor of type {request.hypervisor}, as the guest needs'


class RetryFilter(base.Filter):
    """Hosts on which no build of the server has failed. The configuration cannot disable the filter."""

    selects_hosts = True
    why = 'has|have failed to build this server before'

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        if not request.failed_nodes:
            return hosts.all_pass
        mask = np.ones(len(hosts), dtype=bool)
        for host, node in request.failed_nodes:
            for position in hosts.positions(host):
                mask[position] &= hosts.node[position] != node
        return mask


class CapacityFilter(base.Filter):
    """Hosts with enough free capacity of one resource."""

    checks_capacity, run_on_rebuild = True, False
    resource = words = unit = ''

    def free(self, hosts: host_view.Hosts) -> np.ndarray:
        """Return the amount of the resource that a further server can use on each host."""
        return hosts.free(self.resource)

    def mask(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        amount = request.resources[self.resource]
        return self.free(hosts) >= amount if amount else hosts.all_pass

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        largest = max(0, int(self.free(hosts)[removed].max()))
        amount = request.resources[self.resource]
        return f'has|have {self.words} (largest free {largest}{self.unit}, asked {amount}{self.unit})'

    def lacks(self, hosts: host_view.Hosts, request: Request, position: int) -> str:
        missing = math.ceil(request.resources[self.resource] - self.free(hosts)[position])
        what = self.words.rpartition(' ')[2]
        return f'lacks {missing}{self.unit} of {what}' if self.unit else f'lacks {missing} {what}'

    def shortfall(self, hosts: host_view.Hosts, request: Request) -> np.ndarray | float:
        amount = request.resources[self.resource]
        return np.clip((amount - self.free(hosts)) / amount, 0, 1) if amount else 0.0


class CoreFilter(CapacityFilter):
    resource, words, unit = 'vcpus', 'too few free vCPUs', ''


class RamFilter(CapacityFilter):
    resource, words, unit = 'memory_mb', 'too little free memory', ' MB'


class DiskFilter(CapacityFilter):
    resource, words, unit = 'local_gb', 'too little free disk', ' GB'


FILTERS = (AllHostsFilter, ComputeFilter, AvailabilityZoneFilter, CoreFilter, RamFilter, DiskFilter,
           IsolatedHostsFilter)
