"""[fake]: the driver without guests, for tests and demonstrations."""
from oslo_config import cfg

GROUP = 'fake'

OPTIONS = [
    cfg.IntOpt('hosts', default=1, min=1, max=1000,
               help='Number of compute hosts that nova-all runs with this driver, so that servers can move between '
                    'them. The first has the name in the option host; the others append -2, -3, ….'),
    cfg.IntOpt('vcpus', default=64, min=1, max=100000, help='Number of processors of a fake host.'),
    cfg.IntOpt('memory_mb', default=262144, min=1, max=1 << 30, help='MiB of memory of a fake host.'),
    cfg.ListOpt('numa_cells', default=[],
                help='NUMA nodes of a fake host, each as CPUs:MiB or CPUs:MiB:2-MiB pages, like 4:4096,2:2048:512. '
                     'They replace vcpus and memory_mb. Empty: one node with vcpus and memory_mb.'),
    cfg.IntOpt('local_gb', default=4096, min=0, max=1 << 30, help='GiB of disk of a fake host.'),
    cfg.DictOpt('delays', default={},
                help='Duration of operations in seconds: spawn:0.5,destroy:0.1. Operations are the method names of '
                     'the driver.'),
    cfg.DictOpt('failures', default={},
                help='Fraction of calls of an operation that fail. Example: spawn:0.1 makes one build in ten fail.'),
    cfg.MultiStrOpt('pci_devices', default=[],
                    help='PCI devices of the fake hosts: a JSON object or a list of objects. The option may be '
                         'repeated. Keys: address, vendor_id, product_id, dev_type (type-PCI, type-PF or type-VF), '
                         'numa_node, parent_addr, devname and host (the only host with the device; default: all '
                         'hosts). Guests may use the devices that [pci] device_spec selects.'),
    cfg.ListOpt('cpu_features', default=[], help='CPU flags of a fake host, like aes,avx2.'),
    cfg.DictOpt('cpu_stats', default={'user': '100', 'kernel': '50', 'idle': '850', 'iowait': '0', 'frequency': '2000'},
                help='Values that the monitor of a fake host reports: nanoseconds of CPU time for user, kernel, '
                     'idle and iowait, and the frequency in MHz.'),
    cfg.BoolOpt('shares_disks', default=False,
                help='Whether the fake hosts act as if the disks of their guests were on shared storage, so that live '
                     'migrations copy no disks.'),
    cfg.StrOpt('state_dir', default='',
               help='Directory for the state of fake guests, one file per host, so that they survive a restart of '
                    'the process. Empty: fake guests end with the process.'),
]
