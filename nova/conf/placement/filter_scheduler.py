"""[filter_scheduler]: how hosts are chosen."""
from typing import Any

from oslo_config import cfg

GROUP = 'filter_scheduler'


def _before(*names: str) -> dict[str, Any]:
    """Return the keyword argument that declares the names that an option formerly had in [DEFAULT]."""
    return {'deprecated_opts': [cfg.DeprecatedOpt(name, group='DEFAULT') for name in names]}


def _weight(name: str, default: float, text: str, least: int = -1000) -> cfg.FloatOpt:
    return cfg.FloatOpt(name, default=default, min=least, max=1000000000, **_before(name),
                        help=text + ' Aggregate metadata of the same name overrides it for the hosts of the '
                             'aggregate. The smallest value applies to a host in several aggregates.')


OPTIONS = [
    cfg.MultiStrOpt('available_filters', default=['nova.scheduler.filters.all_filters'],
                    **_before('scheduler_available_filters'),
                    help='Filters that enabled_filters may contain. The option may be repeated. '
                         'nova.scheduler.filters.all_filters (or .standard_filters) stands for the built-in '
                         'filters. Any other value is the path of a class, or the name of an entry point in the '
                         'group nova.scheduler.filters. enabled_filters then refers to it by the name of its '
                         'class.'),
    cfg.ListOpt('enabled_filters', **_before('scheduler_default_filters'),
                default=['ComputeFilter', 'AvailabilityZoneFilter', 'ComputeCapabilitiesFilter',
                         'ImagePropertiesFilter', 'SameHostFilter', 'DifferentHostFilter', 'CoreFilter', 'RamFilter',
                         'DiskFilter'],
                help='Filters that a host must pass, in this order: names from available_filters, or '
                     'package.module.Class. Regardless of this list, the scheduler honours the requested host, '
                     'server groups, traits and the exclusion of hosts on which the build failed. The claim always '
                     'checks that the host has enough resources.'),
    cfg.ListOpt('weight_classes', default=['nova.scheduler.weights.all_weighers'],
                **_before('scheduler_weight_classes'),
                help='Weighers whose sum ranks the hosts that pass the filters. '
                     'nova.scheduler.weights.all_weighers stands for the built-in weighers. A single built-in '
                     'weigher is named by its class, like RAMWeigher. Any other value is the path of a class, or '
                     'the name of an entry point in the group nova.scheduler.weights.'),
    cfg.ListOpt('isolated_images', default=[], **_before('isolated_images', 'image_isolated'),
                help='Ids of images that IsolatedHostsFilter allows on isolated_hosts only.'),
    cfg.ListOpt('isolated_hosts', default=[], **_before('isolated_hosts', 'host_isolated'),
                help='Names of hosts that IsolatedHostsFilter reserves for isolated_images.'),
    cfg.BoolOpt('restrict_isolated_hosts_to_isolated_images', default=True,
                **_before('restrict_isolated_hosts_to_isolated_images'),
                help='Whether isolated_hosts run only isolated_images. False: they also run other images.'),
    cfg.IntOpt('max_io_ops_per_host', default=8, min=0, max=100000, **_before('max_io_ops_per_host'), mutable=True,
               help='Number of servers in I/O-intensive tasks (build, move, snapshot, …) at which IoOpsFilter '
                    'rejects a host. Several schedulers that place servers at the same time may exceed it.'),
    cfg.IntOpt('max_instances_per_host', default=50, min=0, max=1000000, **_before('max_instances_per_host'),
               mutable=True,
               help='Number of servers at which NumInstancesFilter rejects a host.'),
    cfg.StrOpt('aggregate_image_properties_isolation_namespace', max_length=255,
               **_before('aggregate_image_properties_isolation_namespace'),
               help='AggregateImagePropertiesIsolation compares only properties that begin with this namespace and '
                    'the separator. Empty: all properties.'),
    cfg.StrOpt('aggregate_image_properties_isolation_separator', default='.', max_length=255,
               **_before('aggregate_image_properties_isolation_separator'),
               help='Separator between that namespace and the rest of the name of a property.'),
    _weight('ram_weight_multiplier', 1.0,
            'Multiplier of free memory. A positive value spreads servers, a negative one stacks them.'),
    _weight('cpu_weight_multiplier', 1.0,
            'Multiplier of free virtual CPUs. A positive value spreads servers, a negative one stacks them.'),
    _weight('disk_weight_multiplier', 1.0,
            'Multiplier of free disk. A positive value spreads servers, a negative one stacks them.'),
    _weight('io_ops_weight_multiplier', -1.0,
            'Multiplier of the number of servers in I/O-intensive tasks on a host. A negative value prefers hosts with '
            'a low I/O load.'),
    _weight('build_failure_weight_multiplier', 1000000.0,
            'Penalty for a host on which builds have failed since the last successful one. A value above the sum of '
            'all other weights makes such a host the last choice. 0: no penalty.', least=0),
    _weight('hypervisor_version_weight_multiplier', 1.0,
            'Multiplier of the hypervisor version. A positive value prefers newer versions, a negative one older '
            'versions.'),
    cfg.FloatOpt('soft_affinity_weight_multiplier', default=10.0, min=0, max=1000,
                 help='Multiplier that prefers hosts with servers of the same group, for groups with the policy '
                      'soft-affinity. With a value above the sum of the other multipliers, the policy outweighs all '
                      'other weighers.'),
    cfg.FloatOpt('soft_anti_affinity_weight_multiplier', default=10.0, min=0, max=1000,
                 help='Multiplier that prefers hosts with few servers of the same group, for groups with the '
                      'policy soft-anti-affinity. With a value above the sum of the other multipliers, the policy '
                      'outweighs all other weighers.'),
    cfg.FloatOpt('pci_weight_multiplier', default=1.0, min=0, max=1000,
                 help='Multiplier that prefers hosts with few free PCI devices, so that hosts with many stay '
                      'available for servers that request devices. It must not be negative: that would place all '
                      'other servers on those hosts.'),
    cfg.IntOpt('host_subset_size', default=1, min=1, max=16, **_before('scheduler_host_subset_size'),
               help='Number of best hosts from which the scheduler selects one, by the id of the server. With more '
                    'than 1, several schedulers rarely choose the same host, but the choice is not always the '
                    'best. Hosts of equal weight are spread in any case.'),
    cfg.BoolOpt('shuffle_best_same_weighed_hosts', default=True,
                help='Whether the order of hosts of equal weight differs between servers, which spreads a burst of '
                     'servers over them. False: the hosts keep their original order.'),
]
