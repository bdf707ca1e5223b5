"""[fake]: the driver without guests, for tests and for trying things out."""
from oslo_config import cfg

GROUP = 'fake'

OPTIONS = [
    cfg.IntOpt('hosts', default=1, min=1, max=1000,
               help='Compute hosts that nova-all runs with this driver, so that servers can be moved between them: '
                    'the first has the name of the option host, the others that name and -2, -3, ….'),
    cfg.IntOpt('vcpus', default=64, min=1, max=100000, help='Processors of a fake host.'),
    cfg.IntOpt('memory_mb', default=262144, min=1, max=1 << 30, help='MiB of memory of a fake host.'),
    cfg.ListOpt('numa_cells', default=[],
                help='NUMA nodes of a fake host, each as CPUs:MiB or CPUs:MiB:pages of 2 MiB, like 4:4096,2:2048:512. '
                     'They replace vcpus and memory_mb. Empty: all of these are one node.'),
    cfg.IntOpt('local_gb', default=4096, min=0, max=1 << 30, help='GiB of disk of a fake host.'),
    cfg.DictOpt('delays', default={},
                help='Seconds that operations take: spawn:0.5,destroy:0.1. Operations are the names of the driver\'s '
                     'methods.'),
    cfg.DictOpt('failures', default={},
                help='Share of the calls of an operation that fail: spawn:0.1 lets every tenth build fail.'),
    cfg.MultiStrOpt('pci_devices', default=[],
                    help='PCI devices of the fake hosts, a JSON object or a list of such; may be given several times. '
                         'Keys: address, vendor_id, product_id, dev_type (type-PCI, type-PF or type-VF), numa_node, '
                         'parent_addr, devname, and host: the one that has it, else all have. Guests may have those '
                         'that [pci] device_spec names.'),
    cfg.ListOpt('cpu_features', default=[], help='Flags of the processor of a fake host, like aes,avx2.'),
    cfg.DictOpt('cpu_stats', default={'user': '100', 'kernel': '50', 'idle': '850', 'iowait': '0', 'frequency': '2000'},
                help='What the monitor of a fake host finds: nanoseconds that its processors spent on user, kernel, '
                     'idle and iowait, and their frequency in MHz.'),
    cfg.StrOpt('state_dir', default='',
               help='Directory in which fake guests outlive the process, one file a host. Empty: they end with it.'),
]
