"""[DEFAULT]: compute hosts."""
from oslo_config import cfg

GROUP = None

OPTIONS = [
    cfg.StrOpt('compute_driver', default='libvirt', max_length=255,
               help='Name of an entry point in the group nova.virt.drivers, or path of a class. libvirt: QEMU or '
                    'KVM guests. fake: no guests; everything else is real.'),
    cfg.StrOpt('network_locality', default='',
               help='Name of the network segment of this host, such as a rack or a switch. Servers of a group with '
                    'the policy network-proximity run in one segment. Alternatively set the metadata '
                    'network_locality of host aggregates; a host may then be in several segments. Empty: only the '
                    'aggregates define it.'),
    cfg.FloatOpt('cpu_allocation_ratio', default=4.0, min=0.01, max=1000, mutable=True,
                 help='Number of virtual CPUs per processor of the host.'),
    cfg.FloatOpt('ram_allocation_ratio', default=1.0, min=0.01, max=1000, mutable=True,
                 help='MiB of guest memory per MiB of host memory. Values above 1 need swap on the host.'),
    cfg.FloatOpt('disk_allocation_ratio', default=1.0, min=0.01, max=1000, mutable=True,
                 help='GiB of guest disks per GiB of host disk. Values above 1 are common, because qcow2 overlays '
                      'grow only when guests write. The host disk becomes full when guests fill their disks.'),
    cfg.IntOpt('reserved_host_memory_mb', default=512, min=0, max=1 << 30, mutable=True,
               help='MiB of memory reserved for the host.'),
    cfg.IntOpt('reserved_host_disk_mb', default=0, min=0, max=1 << 40, mutable=True,
               help='MiB of disk reserved for the host, rounded up to whole GiB.'),
    cfg.IntOpt('reserved_host_cpus', default=0, min=0, max=100000,
               help='Number of processors reserved for the host. It is subtracted from the processors before '
                    'cpu_allocation_ratio applies. To reserve particular processors, use [compute] cpu_shared_set '
                    'and cpu_dedicated_set.'),
    cfg.MultiStrOpt('reserved_huge_pages', default=[],
                    help='Huge pages that guests must not use, each as node:0,size:2048,count:64. The size is in '
                         'KiB unless it has a unit. Reserve the pages of other programs on the host, such as a '
                         'software switch.'),
    cfg.ListOpt('compute_monitors', default=[],
                help='Monitors whose measurements this host reports with its resources, for MetricsWeigher and '
                     'MetricsFilter. cpu.virt_driver: CPU utilization. With a monitor, every report writes to the '
                     'database.'),
    cfg.IntOpt('max_concurrent_builds', default=10, min=1, max=1000,
               help='Maximum number of servers that one host builds at once. Other builds wait. A single project '
                    'gets at most three quarters of them, rounded up; of two or more, one stays free for other '
                    'projects.'),
    cfg.IntOpt('max_concurrent_tasks', default=32, min=1, max=1000,
               help='Maximum number of other tasks (start, stop, delete, …) at once on one host. Each server has '
                    'one task at a time. A single project gets at most three quarters of them, rounded up; of '
                    'two or more, one stays free for other projects. Unresponsive guests of one project therefore do '
                    'not block other projects.'),
    cfg.IntOpt('max_concurrent_live_migrations', default=1, min=1, max=100,
               help='Maximum number of live migrations that leave this host at once. Others wait in a queue. '
                    'Parallel migrations share the bandwidth, so that each needs longer to copy the memory that '
                    'its guest changes meanwhile.'),
    cfg.IntOpt('shutdown_timeout', default=60, min=0, max=3600, mutable=True,
               help='Seconds that a guest has to shut down before it is powered off.'),
    cfg.IntOpt('vif_plugging_timeout', default=300, min=0, max=3600,
               help='Seconds that a build waits, before it starts the guest, for the Networking service to report '
                    'that the ports are plugged. 0: the build does not wait. No effect on the embedded network.'),
    cfg.BoolOpt('vif_plugging_is_fatal', default=True,
                help='Whether a build fails on this host, and is retried on another one, when the report of the '
                     'Networking service is late or reports a failure. False: the guest starts without network, '
                     'which may become available later.'),
    cfg.IntOpt('sync_power_state_interval', default=600, min=5, max=86400,
               help='Seconds between two comparisons of all power states. The driver reports changes immediately; '
                    'the comparison finds missed changes.'),
    cfg.IntOpt('update_resources_interval', default=60, min=1, max=86400,
               help='Seconds between two reports of the resources of the host.'),
    cfg.IntOpt('shelved_offload_time', default=0, min=-1, max=86400 * 365, mutable=True,
               help='Seconds after which a shelved server is removed from its host and its resources are freed. 0: '
                    'immediately. -1: never, so that unshelving is fast and the resources stay claimed.'),
    cfg.IntOpt('reclaim_instance_interval', default=0, min=0, max=86400 * 365, mutable=True,
               help='Seconds for which deleted servers are kept, powered off, so that they can be restored. Their '
                    'resources stay claimed on the host, but do not count against the quota. 0: a delete takes '
                    'effect immediately. Servers that are being built, resized or shelved are always deleted '
                    'immediately.'),
    cfg.BoolOpt('allow_resize_to_same_host', default=True,
                help='Whether a resize may keep the server on its host if there is enough space. A cloud with one '
                     'host needs this to resize servers. False: a resize always uses another host. A migration '
                     'always uses another host.'),
    cfg.IntOpt('resize_confirm_window', default=86400, min=0, max=86400 * 30, mutable=True,
               help='Seconds after which a resize or migration is confirmed automatically, so that it does not '
                    'claim resources on two hosts forever. The API guide promises 24 hours. 0: never.'),
    cfg.BoolOpt('resume_guests_state_on_host_boot', default=True,
                help='Whether the host starts its ACTIVE servers again after it was down. False: they become '
                     'SHUTOFF.'),
]
