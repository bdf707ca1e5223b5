"""[fake]: the driver without guests, for tests and for trying things out."""
from oslo_config import cfg

GROUP = 'fake'

OPTIONS = [
    cfg.IntOpt('hosts', default=1, min=1, max=1000,
               help='Compute hosts that nova-all runs with this driver, so that servers can be moved between them: '
                    'the first has the name of the option host, the others that name and -2, -3, ….'),
    cfg.IntOpt('vcpus', default=64, min=1, max=100000, help='Processors of a fake host.'),
    cfg.IntOpt('memory_mb', default=262144, min=1, max=1 << 30, help='MiB of memory of a fake host.'),
    cfg.IntOpt('local_gb', default=4096, min=0, max=1 << 30, help='GiB of disk of a fake host.'),
    cfg.DictOpt('delays', default={},
                help='Seconds that operations take: spawn:0.5,destroy:0.1. Operations are the names of the driver\'s '
                     'methods.'),
    cfg.DictOpt('failures', default={},
                help='Share of the calls of an operation that fail: spawn:0.1 lets every tenth build fail.'),
    cfg.StrOpt('state_dir', default='',
               help='Directory in which fake guests outlive the process, one file a host. Empty: they end with it.'),
]
