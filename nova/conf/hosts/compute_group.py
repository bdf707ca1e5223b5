"""[compute]: which processors of a host are for guests, and its traits."""
from oslo_config import cfg

GROUP = 'compute'

OPTIONS = [
    cfg.StrOpt('cpu_shared_set',
               help='Processors of the host that guests share, like 4-12,^8,15; guests with emulator threads of the '
                    'policy share have those here, too. Unset, when cpu_dedicated_set is: none. With neither set, all '
                    'processors are for every kind of guest, and one that is pinned shares its processors with guests '
                    'that have no topology of their own.'),
    cfg.StrOpt('cpu_dedicated_set',
               help='Processors of the host, like 0-3,^1, that are each given to one vCPU alone, of guests with the '
                    'CPU policy dedicated or mixed. They are never overcommitted, and must not be in cpu_shared_set.'),
    cfg.StrOpt('provider_config_location', default='/etc/nova/provider_config/', max_length=4096,
               help='Directory of YAML files that give this host traits, read when the service starts.'),
    cfg.BoolOpt('packing_host_numa_cells_allocation_strategy', default=False,
                help='True: guests go to the NUMA node of a host that is used most, so that whole nodes stay free for '
                     'large ones. False: to the one with most free, so that they disturb each other least.'),
]
