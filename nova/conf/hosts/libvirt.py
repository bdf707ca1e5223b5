"""[libvirt]: guests through libvirt and QEMU."""
from oslo_config import cfg
from oslo_config import types

GROUP = 'libvirt'
ID_RANGE = r'[0-9]{1,10}:[0-9]{1,10}:[1-9][0-9]{0,9}\Z'
CPU_NAME = r'[0-9A-Za-z][0-9A-Za-z_.-]*\Z'

OPTIONS = [
    cfg.IntOpt('inject_partition', default=-2, min=-2, max=255,
               help='Whether guestfish writes the files of users (personality) into the root disk of a server '
                    'without a config drive. guestfish opens the disk in a separate virtual machine. -2: disabled; '
                    'the API refuses such files. -1: write into the operating system that guestfish detects. 0: '
                    'the disk is one file system without partitions. Positive: the number of the partition. The '
                    'API and the hosts need the same value.'),
    cfg.BoolOpt('inject_network', default=False,
                help='Whether the addresses, gateways and name servers of a server without a config drive are '
                     'written to /etc/network/interfaces on its root disk, if the image has that directory. Needs '
                     'inject_partition.'),
    cfg.StrOpt('connection_uri', default='qemu:///system', max_length=255,
               help='URI of libvirt. It must be on this host, because nova-compute creates disks as local files.'),
    cfg.StrOpt('virt_type', default='auto', choices=['auto', 'kvm', 'qemu', 'lxc'],
               help='kvm needs hardware virtualization; qemu emulates and is many times slower. auto: kvm if the '
                    'processor, /dev/kvm and libvirt all support it. lxc: containers, which share the kernel of '
                    'the host, instead of virtual machines.'),
    cfg.StrOpt('lxc_connection_uri', default='lxc:///system', max_length=255,
               help='URI of libvirt on this host with virt_type = lxc.'),
    cfg.ListOpt('uid_maps', default=['0:1000000000:65536'], item_type=types.String(max_length=40, regex='^' + ID_RANGE),
                help='Mapping of user ids in containers to user ids on the host: first id in the container, first '
                     'id on the host, count. No user of the host and no entry of /etc/subuid may use the mapped '
                     'host ids, because root of a container can act as each of them. All containers of the host '
                     'use the same mapping.'),
    cfg.ListOpt('gid_maps', default=['0:1000000000:65536'], item_type=types.String(max_length=40, regex='^' + ID_RANGE),
                help='Mapping of group ids, in the form of uid_maps.'),
    cfg.StrOpt('cpu_mode', choices=['host-model', 'host-passthrough', 'maximum', 'custom', 'none'],
               help='CPU model of guests. host-model: the known model closest to the host CPU, so that guests can '
                    'move between similar hosts. host-passthrough: the host CPU itself. maximum: every feature '
                    'that can be emulated. custom: a model of cpu_models. none: the default of the machine type. '
                    'Unset: host-model with kvm, maximum with qemu.'),
    cfg.ListOpt('cpu_models', default=[], item_type=types.String(max_length=64, regex='^' + CPU_NAME),
                help='CPU models for cpu_mode = custom, as libvirt names them (virsh cpu-models x86_64), the most '
                     'basic first. A guest gets the first model that this host supports, so that hosts of several '
                     'generations can use a common model.'),
    cfg.ListOpt('cpu_model_extra_flags', default=[],
                item_type=types.String(max_length=64, regex='^[+-]?' + CPU_NAME),
                help='CPU flags that guests get in addition to the model, or lose if prefixed with -, like pcid or '
                     '-vmx. Not allowed with cpu_mode = none.'),
    cfg.StrOpt('images_type', default='qcow2', max_length=255,
               help='Format and location of the disks of new guests: name of an entry point in the group '
                    'nova.libvirt.local_disks, or path of a class. qcow2: root disks are overlays on the cached '
                    'image, which are created immediately. raw: full copies, which are a little faster to use and '
                    'slower to create. On btrfs and on XFS with reflinks, copies of raw images are created '
                    'immediately and share blocks until they are written. rbd: all disks are images in a Ceph '
                    'pool, and root disks are clones of the server image.'),
    cfg.StrOpt('images_rbd_pool', default='rbd', max_length=128, regex=r'^[0-9A-Za-z][0-9A-Za-z_.-]*\Z',
               help='Ceph pool of guest disks, with images_type = rbd.'),
    cfg.StrOpt('images_rbd_ceph_conf', default='/etc/ceph/ceph.conf', max_length=255,
               help='Ceph configuration file on this host. It specifies the monitors and the keyring.'),
    cfg.StrOpt('rbd_user', max_length=128, regex=r'^[0-9A-Za-z][0-9A-Za-z_.-]*\Z',
               help='Ceph user for these disks, without "client.". Unset: Ceph does not authenticate clients.'),
    cfg.StrOpt('rbd_secret_uuid', max_length=36, regex=r'^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z',
               help='UUID of the libvirt secret that contains the key of rbd_user. QEMU authenticates with this '
                    'key. Required with rbd_user.'),
    cfg.StrOpt('memory_source', default='anonymous', choices=['anonymous', 'memfd'],
               help='Source of guest memory, for guests that are started from now on. memfd: an in-memory file, '
                    'which can be shared with other processes of the host.'),
    cfg.IntOpt('file_backed_memory', default=0, min=0, max=1 << 30,
               help="MiB of guest memory in files below memory_backing_dir of libvirt's qemu.conf. The host offers "
                    "this amount instead of its RAM. It needs a file system of that size and ram_allocation_ratio "
                    "of at most 1. 0: guest memory is RAM."),
    cfg.StrOpt('virtiofsd_path', max_length=255, regex=r'^/.+',
               help='Path of nova-virtiofsd, which libvirt starts as root for each share of a guest. The program '
                    'mounts the share and then executes virtiofsd. Unset: the program next to this one, or in '
                    'PATH. If AppArmor confines libvirt, choose a directory from which libvirt may start programs, '
                    'like /usr/bin.'),
    cfg.IntOpt('wait_soft_reboot_seconds', default=120, min=0, max=3600,
               help='Seconds that a guest has to shut down in a soft reboot before it is powered off and on.'),
    cfg.IntOpt('remove_unused_base_images_after', default=86400, min=60, max=86400 * 365,
               help='Seconds after which a cached image without guests on this host is removed.'),
    cfg.BoolOpt('sandbox_qemu_img', default=True,
                help='Whether qemu-img, which reads untrusted uploads, runs in a sandbox (bubblewrap and seccomp). '
                     'If the sandbox is unavailable, nova-compute does not start. Set false only where a container '
                     'allows no namespaces. An image that exploits qemu-img then gets all privileges of '
                     'nova-compute.'),
    cfg.DictOpt('disk_cachemodes', default={},
                help='QEMU cache modes of disks by source type: file, block or network, as in '
                     'file=none,network=writeback. Unset: none for block devices and for files on file systems '
                     'with direct I/O, writeback for network disks. Multiattach volumes always use none.'),
    cfg.StrOpt('detect_zeroes', default='off', choices=['off', 'on', 'unmap'],
               help='Whether QEMU detects zeros that guests write to disks. unmap: zeros become holes, which saves '
                    'disk space and costs CPU time.'),
    cfg.IntOpt('io_threads', default=0, min=0, max=16,
               help='Number of QEMU I/O threads for the virtio disks of a guest, including local disks. A disk '
                    'that is attached later uses the thread with the fewest disks. 0: the main loop of QEMU does '
                    'the I/O.'),
    cfg.BoolOpt('volume_use_multipath', default=False,
                help='Whether iSCSI, NVMe-oF and Fibre Channel volumes use all their paths, through os-brick and '
                     'multipathd. iSCSI then uses the initiator of the kernel. Off: iSCSI uses the initiator of '
                     'QEMU.'),
    cfg.StrOpt('volume_root_helper', max_length=255,
               help='Command with which os-brick starts its privileged daemon, such as sudo. Unset: os-brick is '
                    'not used, and volumes that need kernel initiators are refused.'),
    cfg.IntOpt('qemu_img_timeout', default=3600, min=10, max=86400,
               help='Timeout in seconds for copying or converting one disk. The operation fails afterwards.'),
    cfg.StrOpt('live_migration_uri', default='qemu+tls://%s/system', max_length=255,
               help='URI of libvirt on another host, where %s is the address of the host. The other host must '
                    'accept the connection. Access to libvirt means control of that host, so the default is TLS '
                    'with certificates on both ends.'),
    cfg.StrOpt('live_migration_inbound_addr', max_length=255,
               help='Address of this host at which other hosts reach its libvirt and QEMU. Set it if migrations '
                    'use a separate network. Unset: my_ip.'),
    cfg.BoolOpt('live_migration_with_native_tls',
                help='Whether QEMU encrypts memory and disks during migration. It uses the certificates in '
                     'qemu.conf (migrate_tls_x509_cert_dir, default_tls_x509_cert_dir, or /etc/pki/qemu). Unset: '
                     'encrypt if both hosts have a server and a client certificate. On: refuse hosts without '
                     'certificates.'),
    cfg.BoolOpt('live_migration_permit_post_copy', default=False,
                help='Whether a forced completion starts the guest at the destination before all of its memory is '
                     'copied, instead of pausing it. The guest is lost if the network fails meanwhile.'),
    cfg.BoolOpt('live_migration_permit_auto_converge', default=False,
                help='Whether QEMU slows down a guest that writes memory faster than it can be copied.'),
    cfg.IntOpt('live_migration_bandwidth', default=0, min=0, max=1 << 20,
               help='Bandwidth limit of one migration in MiB/s. 0: no limit.'),
    cfg.IntOpt('live_migration_parallel_connections', default=1, min=1, max=64,
               help='Number of connections that transfer the memory of one guest. Use several if one connection '
                    'does not saturate the network.'),
    cfg.IntOpt('live_migration_downtime', default=500, min=50, max=60000,
               help='Maximum milliseconds for which a guest is paused at the end of its migration. A lower value '
                    'takes longer to reach and may never be reached.'),
    cfg.IntOpt('live_migration_completion_timeout', default=800, min=0, max=86400,
               help='Seconds that a migration may take per GiB of memory and copied disks. 0: no limit.'),
    cfg.IntOpt('live_migration_progress_timeout', default=300, min=0, max=86400,
               help='Seconds without progress after which a migration is aborted. A migration progresses when the '
                    'remaining amount of data reaches a new minimum. 0: never.'),
    cfg.StrOpt('live_migration_timeout_action', default='abort', choices=['abort', 'force_complete'],
               help='Action for a migration that exceeds one of its limits. abort: the guest stays on its host. '
                    'force_complete: the guest is paused until everything is copied, or continues at the '
                    'destination if live_migration_permit_post_copy is set.'),
]
