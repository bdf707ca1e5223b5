"""[filter_scheduler]: how hosts are chosen."""
from __future__ import annotations

from typing import Any

from oslo_config import cfg

GROUP = 'filter_scheduler'


def _before(*names: str) -> dict[str, Any]:
    """Return keyword arguments of an option for its former names in [DEFAULT]."""
    return {'deprecated_opts': [cfg.DeprecatedOpt(name, group='DEFAULT') for name in names]}


def _weight(name: str, default: float, text: str, least: int = -1000) -> cfg.FloatOpt:
    return cfg.FloatOpt(name, default=default, min=least, max=1000000000, **_before(name),
                        help=text + ' An aggregate\'s metadata of this name overrides it for its hosts; of several '
                             'values the smallest counts.')


OPTIONS = [
    cfg.MultiStrOpt('available_filters', default=['nova.scheduler.filters.all_filters'],
                    **_before('scheduler_available_filters'),
                    help='Filters that enabled_filters may name; may be given several times. '
                         'nova.scheduler.filters.all_filters (or .standard_filters) are those that come with the '
                         'system; any other value is the path of a class, or the name of an entry point of the group '
                         'nova.scheduler.filters. Then it is enabled by the name of its class.'),
    cfg.ListOpt('enabled_filters', **_before('scheduler_default_filters'),
                default=['ComputeFilter', 'AvailabilityZoneFilter', 'ComputeCapabilitiesFilter',
                         'ImagePropertiesFilter', 'SameHostFilter', 'DifferentHostFilter', 'CoreFilter', 'RamFilter',
                         'DiskFilter'],
                help='Filters that a host must pass, in this order: names of available_filters, or '
                     'package.module.Class. A host that is requested by name is '
                     'always honoured, and so are server groups, traits and hosts that have failed before; '
                     'room for the server is checked by the claim in any case.'),
    cfg.ListOpt('weight_classes', default=['nova.scheduler.weights.all_weighers'],
                **_before('scheduler_weight_classes'),
                help='Weighers whose sum ranks the hosts that pass. nova.scheduler.weights.all_weighers are those that '
                     'come with the system, of which one is named by its class, like RAMWeigher; any other value is '
                     'the path of a class, or the name of an entry point of the group nova.scheduler.weights.'),
    cfg.ListOpt('isolated_images', default=[], **_before('isolated_images', 'image_isolated'),
                help='Ids of images that IsolatedHostsFilter lets run on isolated_hosts only.'),
    cfg.ListOpt('isolated_hosts', default=[], **_before('isolated_hosts', 'host_isolated'),
                help='Names of hosts that IsolatedHostsFilter keeps for isolated_images.'),
    cfg.BoolOpt('restrict_isolated_hosts_to_isolated_images', default=True,
                **_before('restrict_isolated_hosts_to_isolated_images'),
                help='isolated_hosts run isolated_images only. False: other images, too.'),
    cfg.IntOpt('max_io_ops_per_host', default=8, min=0, max=100000, **_before('max_io_ops_per_host'), mutable=True,
               help='Servers in a task that keeps disks and network busy (build, move, snapshot, …) from which '
                    'IoOpsFilter lets no more to a host. Several schedulers may exceed it by what they place at once.'),
    cfg.IntOpt('max_instances_per_host', default=50, min=0, max=1000000, **_before('max_instances_per_host'),
               mutable=True,
               help='Servers on a host from which NumInstancesFilter lets no more to it.'),
    cfg.StrOpt('aggregate_image_properties_isolation_namespace', max_length=255,
               **_before('aggregate_image_properties_isolation_namespace'),
               help='AggregateImagePropertiesIsolation compares properties that begin with this and the separator '
                    'only. Empty: all.'),
    cfg.StrOpt('aggregate_image_properties_isolation_separator', default='.', max_length=255,
               **_before('aggregate_image_properties_isolation_separator'),
               help='What stands between that namespace and the rest of a property\'s name.'),
    _weight('ram_weight_multiplier', 1.0,
            'How much free memory counts. Positive spreads servers, negative stacks them.'),
    _weight('cpu_weight_multiplier', 1.0,
            'How much free virtual CPUs count. Positive spreads servers, negative stacks them.'),
    _weight('disk_weight_multiplier', 1.0,
            'How much free disk counts. Positive spreads servers, negative stacks them.'),
    _weight('io_ops_weight_multiplier', -1.0,
            'How much it counts that a host has many servers in a task that keeps disks and network busy. Negative '
            'prefers hosts with little to do.'),
    _weight('build_failure_weight_multiplier', 1000000.0,
            'How much it counts against a host that builds have failed there since one succeeded. More than everything '
            'else in sum, so that such a host is chosen last; 0 leaves it alone.', least=0),
    _weight('hypervisor_version_weight_multiplier', 1.0,
            'How much a newer version of the hypervisor counts. Negative prefers old ones.'),
    cfg.FloatOpt('soft_affinity_weight_multiplier', default=10.0, min=0, max=1000,
                 help='How much it counts that a host has servers of the same group, when its policy is '
                      'soft-affinity. More than the sum of the other multipliers, so that the policy decides.'),
    cfg.FloatOpt('soft_anti_affinity_weight_multiplier', default=10.0, min=0, max=1000,
                 help='How much it counts that a host has few servers of the same group, when its policy is '
                      'soft-anti-affinity. More than the sum of the other multipliers, so that the policy decides.'),
    cfg.FloatOpt('pci_weight_multiplier', default=1.0, min=0, max=1000,
                 help='How much it counts that a host has few free PCI devices, so that hosts that have them stay free '
                      'for who asks for them. Never negative: that would send all others there.'),
    cfg.IntOpt('host_subset_size', default=1, min=1, max=16, **_before('scheduler_host_subset_size'),
               help='One of so many of the best hosts is taken, which one the id of the server decides. More than 1 '
                    'keeps several schedulers from the same host, at the price of not the best; equals are spread in '
                    'any case.'),
    cfg.BoolOpt('shuffle_best_same_weighed_hosts', default=True,
                help='Hosts of equal weight are taken in an order that differs from server to server, so that a burst '
                     'of servers is spread over them. False: in the order in which the hosts came.'),
]
