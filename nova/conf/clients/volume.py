"""[volume]: the backend of volumes, and the limits of the embedded block storage."""
from oslo_config import cfg

GROUP = 'volume'

OPTIONS = [
    cfg.StrOpt('backend', default='embedded', max_length=255,
               help='Name of an entry point in the group nova.volume.backends, or path of a class. embedded: this '
                    'deployment stores its volumes. cinder: the Block Storage service that [cinder] configures. '
                    'none: servers have local disks only.'),
    cfg.IntOpt('max_local_block_devices', default=3, min=-1, max=1000,
               help='Maximum number of local disks (root, ephemeral and swap) in one create request. -1: no limit. '
                    '0: only servers that boot from volumes are allowed.'),
    cfg.IntOpt('max_devices', default=26, min=1, max=26,
               help='Maximum number of disks of one server, both volumes and local disks. Each disk needs one '
                    'letter for its device name.'),
    cfg.IntOpt('ready_timeout', default=180, min=1, max=86400,
               help='Seconds that a build waits for the volumes that are created for it.'),
    cfg.IntOpt('volumes', default=100, min=-1, max=2147483647,
               help='Maximum number of volumes, and of snapshots, of a project. -1: no limit. Embedded volumes '
                    'only.'),
    cfg.IntOpt('gigabytes', default=1000, min=-1, max=2147483647,
               help='Maximum total size of the volumes and snapshots of a project in GiB. -1: no limit. Embedded '
                    'volumes only.'),
    cfg.IntOpt('per_volume_gigabytes', default=-1, min=-1, max=2147483647,
               help='Maximum size of one volume in GiB. -1: only the total of the project is limited. Embedded '
                    'volumes only.'),
    cfg.StrOpt('encryption_key_backend', default='database', choices=('database', 'barbican'),
               help='Storage of new keys of encrypted volumes. database: the API database, encrypted with '
                    '[conductor] disk_keys_file. barbican: the Key Manager service, with the account, that '
                    '[barbican] configures. Existing keys are not moved. Embedded volumes only.'),
    cfg.StrOpt('backup_directory',
               help='Directory for backups of embedded volumes. Choose another disk than that of the volumes, so '
                    'that backups survive its failure. Unset: the subdirectory "backups" of the directory of '
                    'the volumes.'),
    cfg.StrOpt('listen', default='127.0.0.1',
               help='Address on which nova-volume listens. Addresses other than loopback need [http] cert_file, or '
                    'a TLS proxy in front.'),
    cfg.PortOpt('port', default=8776, help='Port of nova-volume.'),
    cfg.PortOpt('export_port', default=10900, min=1024,
                help='First TCP port, on my_ip, for exports of embedded volumes to other compute hosts. Each '
                     'further host uses the next port. A port is opened when a server on that host has a volume.'),
    cfg.StrOpt('export_tls_dir',
               help='Directory with ca-cert.pem, server-cert.pem and server-key.pem for volume exports. Unset: the '
                    'CA in tls below state_path issues the files. Compute hosts must present a certificate of the '
                    'same CA with their own name.'),
    cfg.StrOpt('policy_file', default='volume_policy.yaml', max_length=4096,
               help='Policy file of the embedded block storage API, absolute or in a configuration directory. Changes '
                    'take effect within seconds. It is separate because rules such as admin_api have a meaning of '
                    'their own in each API. The default file need not exist.'),
]
