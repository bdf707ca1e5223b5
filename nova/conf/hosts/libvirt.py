"""[libvirt]: guests through libvirt and QEMU."""
from oslo_config import cfg
from oslo_config import types

GROUP = 'libvirt'
ID_RANGE = r'[0-9]{1,10}:[0-9]{1,10}:[1-9][0-9]{0,9}\Z'
CPU_NAME = r'[0-9A-Za-z][0-9A-Za-z_.-]*\Z'

OPTIONS = [
    cfg.IntOpt('inject_partition', default=-2, min=-2, max=255,
               help='Whether users\' files (personality) are written into the root disk of a server without a config '
                    'drive, by guestfish, which opens the disk in a virtual machine of its own. -2: no, such files '
                    'are refused. -1: into the system that is found. 0: the disk is one file system. Above: the '
                    'number of the partition. The API has to have the same as the hosts.'),
    cfg.BoolOpt('inject_network', default=False,
                help='Whether the addresses, gateways and name servers of a server without a config drive are written '
                     'into its root disk, as /etc/network/interfaces, where the image has that directory. Needs '
                     'inject_partition.'),
    cfg.StrOpt('connection_uri', default='qemu:///system', max_length=255,
               help="libvirt's address. It must be of this host, because disks are made as files here."),
    cfg.StrOpt('virt_type', default='auto', choices=['auto', 'kvm', 'qemu', 'lxc'],
               help='kvm needs the processor\'s support; qemu emulates and is many times slower. '
                    'auto: kvm when the processor, /dev/kvm and libvirt all offer it. '
                    'lxc: containers instead of machines, which share the kernel of the host.'),
    cfg.StrOpt('lxc_connection_uri', default='lxc:///system', max_length=255,
               help="libvirt's address with virt_type = lxc, of this host."),
    cfg.ListOpt('uid_maps', default=['0:1000000000:65536'], item_type=types.String(max_length=40, regex='^' + ID_RANGE),
                help='Which users of the host the users of containers are: first id in the container, first id on the '
                     'host, how many. No user of the host, and nothing in /etc/subuid, may have the ids outside: a '
                     'container is root of them. All containers of the host have the same.'),
    cfg.ListOpt('gid_maps', default=['0:1000000000:65536'], item_type=types.String(max_length=40, regex='^' + ID_RANGE),
                help='The same of groups.'),
    cfg.StrOpt('cpu_mode', choices=['host-model', 'host-passthrough', 'maximum', 'custom', 'none'],
               help='Processor that guests see. host-model: nearly that of the host, known to others, so that guests '
                    'can move between similar hosts. host-passthrough: that of the host itself. maximum: all '
                    'that emulation can do. custom: the one of cpu_models. none: the plain one of the machine type. '
                    'Unset: host-model with kvm, maximum with qemu.'),
    cfg.ListOpt('cpu_models', default=[], item_type=types.String(max_length=64, regex='^' + CPU_NAME),
                help='Processors for cpu_mode = custom, as libvirt names them (virsh cpu-models x86_64), the plainest '
                     'first. A guest gets the first that this host can give it, so that hosts of several generations '
                     'can agree on one.'),
    cfg.ListOpt('cpu_model_extra_flags', default=[],
                item_type=types.String(max_length=64, regex='^[+-]?' + CPU_NAME),
                help="Flags that guests' processors have besides, or with a - before them not, like pcid or -vmx. Not "
                     'with cpu_mode = none.'),
    cfg.StrOpt('images_type', default='qcow2', max_length=255,
               help='Form and place of the disks of new guests: the name of an entry point of the group '
                    'nova.libvirt.local_disks, or the path of a class. '
                    'qcow2: root disks are overlays on the cached image, made at once. '
                    'raw: a copy of its own, a little faster to use and slower to make, but at once for a raw image on '
                    'XFS with reflinks and on btrfs, where both share their blocks until one is written. '
                    'rbd: all disks of guests are images of a pool of Ceph, root disks clones of the image.'),
    cfg.StrOpt('images_rbd_pool', default='rbd', max_length=128, regex=r'^[0-9A-Za-z][0-9A-Za-z_.-]*\Z',
               help='Pool of Ceph that the disks of guests are in, with images_type = rbd.'),
    cfg.StrOpt('images_rbd_ceph_conf', default='/etc/ceph/ceph.conf', max_length=255,
               help="Ceph's configuration on this host, which names the monitors and the keyring."),
    cfg.StrOpt('rbd_user', max_length=128, regex=r'^[0-9A-Za-z][0-9A-Za-z_.-]*\Z',
               help='User of Ceph for these disks, without "client.". Unset: Ceph authenticates no client.'),
    cfg.StrOpt('rbd_secret_uuid', max_length=36, regex=r'^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z',
               help="Id of libvirt's secret with the key of rbd_user, which QEMU logs in with. Needed with rbd_user."),
    cfg.StrOpt('memory_source', default='anonymous', choices=['anonymous', 'memfd'],
               help='Where the memory comes from of guests that are started from now on. memfd: a file in memory, '
                    'which other processes of the host can be given.'),
    cfg.IntOpt('file_backed_memory', default=0, min=0, max=1 << 30,
               help="MiB of guests' memory that is in files, below memory_backing_dir of libvirt's qemu.conf: so much "
                    'is given out instead of the memory of the host. Needs a file system with as much room, and '
                    'ram_allocation_ratio = 1 at most. 0: memory is memory.'),
    cfg.StrOpt('virtiofsd_path', max_length=255, regex=r'^/.+',
               help='Path of nova-virtiofsd, which libvirt starts as root for each share of a guest: it mounts the '
                    'share and becomes virtiofsd. Unset: the one beside this program, or of the PATH. Where AppArmor '
                    'confines libvirt, it has to be where that may start programs from, like /usr/bin.'),
    cfg.IntOpt('wait_soft_reboot_seconds', default=120, min=0, max=3600,
               help='Seconds that a guest gets to shut down by itself in a soft reboot, before it is switched off '
                    'and on.'),
    cfg.IntOpt('remove_unused_base_images_after', default=86400, min=60, max=86400 * 365,
               help='Seconds after which a cached image that no guest of this host uses is removed.'),
    cfg.BoolOpt('sandbox_qemu_img', default=True,
                help='Whether qemu-img, which reads what strangers upload, runs in a sandbox (bubblewrap and seccomp), '
                     'without which nova-compute does not start. false: only where a container allows no '
                     'namespaces; then an image that breaks qemu-img has all rights of nova-compute.'),
    cfg.DictOpt('disk_cachemodes', default={},
                help='Cache modes of QEMU for disks by the kind of their source: file, block or network, as in '
                     'file=none,network=writeback. Unset: none for files where the file system can do direct I/O, and '
                     'for block devices, writeback for the network. A volume of several servers has none.'),
    cfg.StrOpt('detect_zeroes', default='off', choices=['off', 'on', 'unmap'],
               help='Whether QEMU looks for zeros in what guests write to disks. unmap: they become holes, which '
                    'saves room and takes processor time.'),
    cfg.IntOpt('io_threads', default=0, min=0, max=16,
               help="Threads of QEMU for a guest's disks on the virtio bus, also local ones; one that comes later "
                    'gets the one of the fewest. 0: its main loop does their I/O.'),
    cfg.BoolOpt('volume_use_multipath', default=False,
                help='Whether volumes over iSCSI, NVMe-oF and Fibre Channel are reached over all their paths, by '
                     'os-brick and multipathd. iSCSI then goes through the initiator of the kernel, which off leaves '
                     'to QEMU.'),
    cfg.StrOpt('volume_root_helper', max_length=255,
               help='What os-brick begins its privileged daemon with, as in sudo. Unset: os-brick is not used, and '
                    'volumes that need the initiators of the kernel are refused.'),
    cfg.IntOpt('qemu_img_timeout', default=3600, min=10, max=86400,
               help='Seconds that copying or converting one disk may take, before the operation fails.'),
    cfg.StrOpt('live_migration_uri', default='qemu+tls://%s/system', max_length=255,
               help="Address of another host's libvirt, with %s for the host's address. It has to let this host in; "
                    'who gets in owns that host, so TLS with certificates of both ends is the default.'),
    cfg.StrOpt('live_migration_inbound_addr', max_length=255,
               help='Address of this host at which its libvirt and QEMU are reached by other hosts, where a network '
                    'of its own carries migrations. Unset: my_ip.'),
    cfg.BoolOpt('live_migration_with_native_tls',
                help='Whether QEMU encrypts memory and disks on their way, with the certificates that qemu.conf names '
                     '(migrate_tls_x509_cert_dir, default_tls_x509_cert_dir, or /etc/pki/qemu). Unset: where both '
                     'hosts have those of a server and of a client. On: a host without them is refused.'),
    cfg.BoolOpt('live_migration_permit_post_copy', default=False,
                help='Whether a forced completion runs the guest at the destination before all of its memory is there, '
                     'instead of pausing it. A guest is lost when the network breaks meanwhile.'),
    cfg.BoolOpt('live_migration_permit_auto_converge', default=False,
                help='Whether QEMU slows down a guest that writes memory faster than it can be copied.'),
    cfg.IntOpt('live_migration_bandwidth', default=0, min=0, max=1 << 20,
               help='MiB/s that one migration may take of the network. 0: no limit.'),
    cfg.IntOpt('live_migration_parallel_connections', default=1, min=1, max=64,
               help='Connections that transfer the memory of one guest; more than one where a single one does not fill '
                    'the network.'),
    cfg.IntOpt('live_migration_downtime', default=500, min=50, max=60000,
               help='Milliseconds that a guest may stand still at the end of its migration. A shorter one takes longer '
                    'to reach, and may never be.'),
    cfg.IntOpt('live_migration_completion_timeout', default=800, min=0, max=86400,
               help='Seconds that a migration may take for each GiB of memory and copied disks. 0: no limit.'),
    cfg.IntOpt('live_migration_progress_timeout', default=300, min=0, max=86400,
               help='Seconds after which a migration that has never less left to copy is given up. 0: never.'),
    cfg.StrOpt('live_migration_timeout_action', default='abort', choices=['abort', 'force_complete'],
               help='What becomes of a migration that passes one of its limits: the guest stays where it is, or it is '
                    'paused (or, where that is permitted, runs at the destination already) until all is copied.'),
]
