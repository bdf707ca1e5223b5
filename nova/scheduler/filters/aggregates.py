"""Filters by the metadata of a host's aggregates; each filter evaluates equal metadata only once for all hosts."""
import collections.abc

import numpy as np

from nova.scheduler import aggregate_values
from nova.scheduler import host_view
from nova.scheduler.filters import base
from nova.scheduler.filters import builtin
from nova.scheduler.filters import busy
from nova.scheduler.filters import operators
from nova.scheduler.filters import request_fields
from nova.scheduler.placement_request import Request

TENANT = 'filter_tenant_id'

Metadata = collections.abc.Mapping[str, frozenset[str]]      # {key: values in all aggregates of a host}


class AggregateInstanceExtraSpecsFilter(base.CachedFilter):
    """Hosts with aggregate metadata that satisfy the flavor's extra specs.

    Only extra specs with the scope ``aggregate_instance_extra_specs`` or without a scope apply. If a metadata key has
    several values, separated by commas or from several aggregates, one value must match.
    """

    run_on_rebuild = False

    def key(self, request: Request) -> frozenset[tuple[str, str]]:
        specs = request_fields.extra_specs(request)
        found = request_fields.scoped(specs, 'aggregate_instance_extra_specs') if specs else {}
        return frozenset((key, str(value)) for key, value in found.items())

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        requirements = self.key(request)

        def satisfies(merged: Metadata) -> bool:
            return all(_satisfied(merged.get(key, ()), requirement) for key, requirement in requirements)
        return hosts.by_aggregates(satisfies)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        keys = ', '.join(sorted(key for key, _ in self.key(request)))
        return f"is|are in no aggregate that satisfies the flavor's extra specs ({keys})"


def _satisfied(values: collections.abc.Iterable[str], requirement: str) -> bool:
    return any(operators.matches(part, requirement) for value in values for part in request_fields.listed(value))


class AggregateTypeAffinityFilter(base.CachedFilter):
    """Hosts with the flavor in their aggregate metadata ``instance_type``, and hosts without this key."""

    run_on_rebuild = False

    def key(self, request: Request) -> str | None:
        return request_fields.flavor_name(request)

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        name = self.key(request)

        def allows(merged: Metadata) -> bool:
            values = merged.get('instance_type')
            return values is None or any(name in request_fields.listed(value) for value in values)
        return hosts.by_aggregates(allows)

    def reason(self, hosts: host_view.Hosts, request: Request, removed: np.ndarray) -> str:
        return f'is|are reserved for other flavors than {self.key(request)}'


class AggregateMultiTenancyIsolation(base.CachedFilter):
    """Hosts with the project in their aggregate metadata ``filter_tenant_id``, and hosts without such a key.

    Keys that begin with filter_tenant_id, such as filter_tenant_id2, may name further projects.
    """

    run_on_rebuild = False
    why = 'is|are reserved for other projects'

    def key(self, request: Request) -> str | None:
        return getattr(request.spec, 'project_id', None)

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        project = self.key(request)

        def allows(merged: Metadata) -> bool:
            named = [part for key, values in merged.items() if key.startswith(TENANT)
                     for value in values for part in request_fields.listed(value)]
            return not named or project in named
        return hosts.by_aggregates(allows)


class AggregateImagePropertiesIsolation(base.CachedFilter):
    """Hosts with suitable aggregate metadata: a key named like an image property must list the property's value."""

    why = 'is|are reserved for images with other properties'

    def key(self, request: Request) -> frozenset[tuple[str, str]]:
        return frozenset((key, str(value)) for key, value in request_fields.properties(request).items())

    def judge(self, hosts: host_view.Hosts, request: Request) -> np.ndarray:
        options = self.conf.filter_scheduler
        prefix = options.aggregate_image_properties_isolation_namespace
        prefix = prefix and prefix + options.aggregate_image_properties_isolation_separator
        properties = {key: value for key, value in self.key(request) if not prefix or key.startswith(prefix)}

        def agrees(merged: Metadata) -> bool:
            return all(any(properties[key] in request_fields.listed(value) for value in merged[key])
                       for key in properties if key in merged)
        return hosts.by_aggregates(agrees)


class _AggregateCapacityFilter(builtin.CapacityFilter):
    """Hosts with room under the smallest allocation ratio of their aggregates.

    If no aggregate has a ratio, the ratio of the host applies.
    """

    ratio = ''

    def free(self, hosts: host_view.Hosts) -> np.ndarray:
        resource = self.resource
        return np.minimum(self._capacity(hosts) - hosts.used[resource], hosts.total[resource])

    def ratios(self, hosts: host_view.Hosts) -> np.ndarray:
        return np.asarray(aggregate_values.overridden(hosts, self.ratio, hosts.values(self.ratio).astype(float)))

    def _capacity(self, hosts: host_view.Hosts) -> np.ndarray:
        def make() -> np.ndarray:
            own = hosts.values(self.ratio).astype(float)
            return hosts.capacity[self.resource] / own * self.ratios(hosts)
        return hosts.cached(('capacity', self.resource), make)

    def limits(self, hosts: host_view.Hosts, position: int) -> dict[str, float]:
        return {self.resource: float(self.ratios(hosts)[position])}


class AggregateCoreFilter(_AggregateCapacityFilter):
    resource, words, unit = builtin.CoreFilter.resource, builtin.CoreFilter.words, builtin.CoreFilter.unit
    ratio = 'cpu_allocation_ratio'


class AggregateRamFilter(_AggregateCapacityFilter):
    resource, words, unit = builtin.RamFilter.resource, builtin.RamFilter.words, builtin.RamFilter.unit
    ratio = 'ram_allocation_ratio'


class AggregateDiskFilter(_AggregateCapacityFilter):
    resource, words, unit = builtin.DiskFilter.resource, builtin.DiskFilter.words, builtin.DiskFilter.unit
    ratio = 'disk_allocation_ratio'


class AggregateNumInstancesFilter(busy.NumInstancesFilter):
    """Hosts below the limit of servers: the smallest ``max_instances_per_host`` of their aggregates, or the option."""

    def max_servers(self, hosts: host_view.Hosts) -> int | np.ndarray:
        return aggregate_values.overridden(hosts, 'max_instances_per_host', super().max_servers(hosts), int)


class AggregateIoOpsFilter(busy.IoOpsFilter):
    """Hosts below the limit of busy servers: the least ``max_io_ops_per_host`` of their aggregates, or the option."""

    def max_servers(self, hosts: host_view.Hosts) -> int | np.ndarray:
        return aggregate_values.overridden(hosts, 'max_io_ops_per_host', super().max_servers(hosts), int)


FILTERS = (AggregateInstanceExtraSpecsFilter, AggregateTypeAffinityFilter, AggregateMultiTenancyIsolation,
           AggregateImagePropertiesIsolation, AggregateCoreFilter, AggregateRamFilter, AggregateDiskFilter,
           AggregateNumInstancesFilter, AggregateIoOpsFilter)
