"""[compute]: which processors of a host are for guests, and its traits."""
from oslo_config import cfg

GROUP = 'compute'

OPTIONS = [
    cfg.StrOpt('cpu_shared_set',
               help='Processors of the host that guests share, like 4-12,^8,15. Guests with the emulator threads '
                    'policy share run these threads there, too. No processors are shared if only cpu_dedicated_set '
                    'is set. If neither option is set, all processors serve every kind of guest, and a pinned guest '
                    'shares its processors with guests that have no topology.'),
    cfg.StrOpt('cpu_dedicated_set',
               help='Processors of the host, like 0-3,^1, that are each dedicated to one vCPU of a guest with the '
                    'CPU policy dedicated or mixed. They are never overcommitted and must not be in '
                    'cpu_shared_set.'),
    cfg.StrOpt('provider_config_location', default='/etc/nova/provider_config/', max_length=4096,
               help='Directory of YAML files that define traits of this host. The service reads them when it '
                    'starts.'),
    cfg.BoolOpt('packing_host_numa_cells_allocation_strategy', default=False,
                help='True: guests are placed on the most used NUMA node of a host, which keeps whole nodes free '
                     'for large guests. False: guests are placed on the least used node, which reduces contention.'),
]
