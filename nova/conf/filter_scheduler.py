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
]
