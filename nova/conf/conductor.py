"""[conductor]: building servers, and repeating interrupted tasks."""
from oslo_config import cfg

GROUP = 'conductor'

OPTIONS = [
    cfg.IntOpt('reconcile_interval', default=30, min=1, max=3600,
               help='Seconds between two checks for tasks that no service works on.'),
    cfg.IntOpt('task_deadline', default=600, min=10, max=86400, mutable=True,
               help='Seconds without progress after which a task is sent to its service again. Set more than the '
                    'longest image download and snapshot upload take. Otherwise these tasks are requested twice, '
                    'which does no harm.'),
    cfg.IntOpt('task_timeout', default=7200, min=60, max=86400 * 7, mutable=True,
               help='Seconds after which an unfinished task fails and its server becomes available for other '
                    'actions.'),
    cfg.IntOpt('audit_interval', default=300, min=10, max=86400,
               help='Seconds between two audits, which compare the recorded usage of compute nodes with their '
                    'servers.'),
    cfg.StrOpt('disk_key_backend', default='database', choices=('database', 'barbican'),
               help='Storage of new keys of encrypted server disks. database: the cell database, encrypted with '
                    'disk_keys_file. barbican: the Key Manager service that [barbican] configures, under the '
                    'account there. Existing keys are not moved.'),
    cfg.StrOpt('disk_keys_file', max_length=4096,
               help='File with the key that encrypts the keys of encrypted server disks in the database. On the '
                    'host of the embedded volumes it also encrypts the keys of encrypted volumes. Each line is the '
                    'base64 of 32 bytes. The first line encrypts; all lines can decrypt. All conductors of a '
                    'deployment need the same file. If the file is lost, the data of these disks is lost. Only the '
                    'user of the daemon may read it. Empty: disk-keys below state_path. A service creates the file '
                    'when it first needs it, unless the database shows that another service has one.'),
    cfg.IntOpt('max_concurrent_maintenance_moves', default=4, min=1, max=1000, mutable=True,
               help='Maximum number of servers of one host that move at the same time while its maintenance starts '
                    'or stops. Each move uses bandwidth between the hosts. [DEFAULT] '
                    'max_concurrent_live_migrations of the host also applies.'),
    cfg.IntOpt('deleted_servers_kept_days', default=90, min=0, max=36500, mutable=True,
               help='Days for which deleted servers stay visible in changes-since, deleted=true and usage reports. '
                    '0 keeps them forever.'),
    cfg.IntOpt('server_actions_kept', default=1000, min=100, max=1000000, mutable=True,
               help='Maximum number of finished actions, with their events, and of finished moves that are kept '
                    'per server. Older ones are removed within about ten minutes. Without a limit, one user could '
                    'fill the database by locking and unlocking a server. Actions in progress and the creation are '
                    'always kept.'),
]
