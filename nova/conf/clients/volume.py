"""[volume]: the backend of volumes, and the limits of the embedded block storage."""
from oslo_config import cfg

GROUP = 'volume'

OPTIONS = [
    cfg.StrOpt('backend', default='embedded', max_length=255,
               help='The name of an entry point of the group nova.volume.backends, or the path of a class. '
                    'embedded: this deployment keeps its volumes itself. cinder: the Block Storage service that the '
                    '[cinder] section names. none: servers have local disks alone.'),
    cfg.IntOpt('max_local_block_devices', default=3, min=-1, max=1000,
               help='Local disks (root, ephemeral and swap) that one request for a server may ask for. -1: no limit; '
                    '0: only servers that boot from volumes are possible.'),
    cfg.IntOpt('max_devices', default=26, min=1, max=26,
               help='Disks of one server at most, volumes and local ones: a disk has one letter.'),
    cfg.IntOpt('ready_timeout', default=180, min=1, max=86400,
               help='Seconds that a build waits for the volumes that are made for it.'),
    cfg.IntOpt('volumes', default=100, min=-1, max=2147483647,
               help='Volumes of a project at most, and as many snapshots. -1: no limit. Embedded only.'),
    cfg.IntOpt('gigabytes', default=1000, min=-1, max=2147483647,
               help='GiB of all volumes and snapshots of a project at most. -1: no limit. Embedded only.'),
    cfg.IntOpt('per_volume_gigabytes', default=-1, min=-1, max=2147483647,
               help='GiB of one volume of a project at most. -1: no limit but that of all of them. Embedded only.'),
    cfg.StrOpt('encryption_key_backend', default='database', choices=('database', 'barbican'),
               help='Where new keys of encrypted volumes are kept. database: in that of the API, encrypted '
                    'with [conductor] disk_keys_file. barbican: in the Key Manager service that [barbican] names, by '
                    'the account there. Existing keys stay where they are. Embedded only.'),
    cfg.StrOpt('backup_directory',
               help='Directory of the backups of embedded volumes; another disk than that of the volumes is what they '
                    'are for. Unset: backups, below the directory of the volumes.'),
    cfg.StrOpt('listen', default='127.0.0.1',
               help='Address on which nova-volume listens. Other than loopback needs [http] cert_file, or a proxy '
                    'before it that speaks TLS.'),
    cfg.PortOpt('port', default=8776, help='Port of nova-volume.'),
    cfg.PortOpt('export_port', default=10900, min=1024,
                help='TCP port of my_ip where the first other compute host reaches the embedded volumes; the next '
                     'hosts have the next ports. Nothing listens before a server there has a volume.'),
    cfg.StrOpt('export_tls_dir',
               help='Directory with ca-cert.pem, server-cert.pem and server-key.pem of these exports. Unset: they are '
                    'made, by the authority in tls below state_path. Compute hosts show a certificate of the same '
                    'authority whose name is theirs.'),
]
