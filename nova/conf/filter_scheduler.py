"""[filter_scheduler]: how hosts are chosen."""
from oslo_config import cfg

GROUP = 'filter_scheduler'

OPTIONS = [
    cfg.ListOpt('enabled_filters',
                default=['ComputeFilter', 'AvailabilityZoneFilter', 'CoreFilter', 'RamFilter', 'DiskFilter'],
                help='Filters that a host must pass, in this order. A name without a dot is one of the built-in '
                     'filters; package.module.Class is a class with host_passes(host, spec) or mask(hosts, request). '
                     'A host that is asked for by name is '
                     'always honoured, and room for the server is checked by the claim in any case.'),
    cfg.FloatOpt('ram_weight_multiplier', default=1.0, min=-1000, max=1000,
                 help='How much free memory counts. Positive spreads servers, negative stacks them.'),
    cfg.FloatOpt('cpu_weight_multiplier', default=1.0, min=-1000, max=1000,
                 help='How much free virtual CPUs count. Positive spreads servers, negative stacks them.'),
    cfg.FloatOpt('soft_affinity_weight_multiplier', default=10.0, min=0, max=1000,
                 help='How much it counts that a host has servers of the same group, when its policy is '
                      'soft-affinity. More than the other multipliers together, so that the policy tells.'),
    cfg.FloatOpt('soft_anti_affinity_weight_multiplier', default=10.0, min=0, max=1000,
                 help='How much it counts that a host has few servers of the same group, when its policy is '
                      'soft-anti-affinity. More than the other multipliers together, so that the policy tells.'),
]
