"""[DEFAULT]: compute hosts."""
from oslo_config import cfg

GROUP = None

OPTIONS = [
    cfg.StrOpt('compute_driver', default='libvirt', max_length=255,
               help='The name of an entry point of the group nova.virt.drivers, or the path of a class. '
                    'libvirt: QEMU or KVM guests. fake: no guests at all, everything else is real.'),
    cfg.StrOpt('network_locality', default='',
               help='Name of the part of the network that this host is in, as a rack or a switch: servers of a group '
                    'with the policy network-proximity stand in one. Metadata network_locality of host aggregates says '
                    'it for many hosts at once, and a host may be in several. Empty: the aggregates alone say it.'),
    cfg.FloatOpt('cpu_allocation_ratio', default=4.0, min=0.01, max=1000, mutable=True,
                 help='Virtual CPUs given out for each processor of the host.'),
    cfg.FloatOpt('ram_allocation_ratio', default=1.0, min=0.01, max=1000, mutable=True,
                 help='Memory given out for each MiB of the host. Above 1 the host needs swap.'),
    cfg.FloatOpt('disk_allocation_ratio', default=1.0, min=0.01, max=1000, mutable=True,
                 help='Disk given out for each GiB of the host. qcow2 overlays grow as they are written to, so '
                      'that values above 1 are common, and run out when guests fill their disks.'),
    cfg.IntOpt('reserved_host_memory_mb', default=512, min=0, max=1 << 30, mutable=True,
               help='MiB of memory kept for the host itself.'),
    cfg.IntOpt('reserved_host_disk_mb', default=0, min=0, max=1 << 40, mutable=True,
               help='MiB of disk kept for the host itself; counted in whole GiB, rounded up.'),
    cfg.IntOpt('reserved_host_cpus', default=0, min=0, max=100000,
               help='Processors kept for the host itself: so many fewer, times cpu_allocation_ratio, are given out. '
                    'Which ones they are, only [compute] cpu_shared_set and cpu_dedicated_set can say.'),
    cfg.MultiStrOpt('reserved_huge_pages', default=[],
                    help='Large memory pages that are not for guests, each as node:0,size:2048,count:64, the size in '
                         'KiB or with a unit: for what else on the host has pages of its own, like a software switch.'),
    cfg.ListOpt('compute_monitors', default=[],
                help='What this host measures and reports with its resources, for MetricsWeigher and MetricsFilter. '
                     'cpu.virt_driver: how busy the processors are. Every report is then a write to the database.'),
    cfg.IntOpt('max_concurrent_builds', default=10, min=1, max=1000,
               help='Servers built at once by one host; the others wait. Projects take turns: one alone has three '
                    'quarters of them at most, and one less than all.'),
    cfg.IntOpt('max_concurrent_tasks', default=32, min=1, max=1000,
               help='Other tasks (start, stop, delete, …) at once on one host; each server has one at a time, and a '
                    'project three quarters of all at most (and one less than all), so that its guests that do not '
                    'answer do not hold up the servers of others.'),
    cfg.IntOpt('max_concurrent_live_migrations', default=1, min=1, max=100,
               help='Servers that leave this host by live migration at once; the others are queued. Several share the '
                    'bandwidth, and each takes longer to catch up with what its guest writes meanwhile.'),
    cfg.IntOpt('shutdown_timeout', default=60, min=0, max=3600, mutable=True,
               help='Seconds that a guest gets to shut down by itself before it is switched off.'),
    cfg.IntOpt('vif_plugging_timeout', default=300, min=0, max=3600,
               help='Seconds that a build waits, before its guest runs, for the Networking service to report that the '
                    'ports are plugged. 0: it does not wait. Without effect on the embedded network.'),
    cfg.BoolOpt('vif_plugging_is_fatal', default=True,
                help='Whether a build fails on this host, and is tried on another one, when that report does not come '
                     'in time or says that it failed. False: the guest runs without its network, which may come '
                    'later.'),
    cfg.IntOpt('sync_power_state_interval', default=600, min=5, max=86400,
               help='Seconds between two comparisons of all power states. Changes are reported at once by the '
                    'driver; this finds what was missed.'),
    cfg.IntOpt('update_resources_interval', default=60, min=1, max=86400,
               help='Seconds between two reports of what the host has.'),
    cfg.IntOpt('shelved_offload_time', default=0, min=-1, max=86400 * 365, mutable=True,
               help='Seconds after which a shelved server leaves its host and frees its share of it. 0: at once. '
                    '-1: never by itself, so that unshelving is quick and the share stays taken.'),
    cfg.IntOpt('reclaim_instance_interval', default=0, min=0, max=86400 * 365, mutable=True,
               help='Seconds that deleted servers are kept, switched off, so that they can be restored; their share '
                    'of the host stays taken, the quota counts them no more. 0: a delete is one at once. So it is '
                    'always for servers that are being built, resized or shelved.'),
    cfg.BoolOpt('allow_resize_to_same_host', default=True,
                help='A resize may leave the server on its host, where that has the room: a cloud of one host can '
                     'resize at all. False: always another host. A migration never stays.'),
    cfg.IntOpt('resize_confirm_window', default=86400, min=0, max=86400 * 30, mutable=True,
               help='Seconds after which a resize or migration that was neither confirmed nor reverted is confirmed, '
                    'so that it does not hold two places for ever. The API guide promises 24 hours. 0: never.'),
    cfg.BoolOpt('resume_guests_state_on_host_boot', default=True,
                help='Start the servers that were ACTIVE when the host went down, after it came up again: '
                     'what the API shows as ACTIVE should run. False leaves them SHUTOFF.'),
]
