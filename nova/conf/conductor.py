"""[conductor]: building servers, and repeating interrupted tasks."""
from oslo_config import cfg

GROUP = 'conductor'

OPTIONS = [
    cfg.IntOpt('reconcile_interval', default=30, min=1, max=3600,
               help='Seconds between two looks for tasks that no service works on.'),
    cfg.IntOpt('task_deadline', default=600, min=10, max=86400, mutable=True,
               help='Seconds without a sign of life after which a task is given to its service again. Longer than '
                    'the longest image download and snapshot upload, or these are requested twice (which does no '
                    'harm).'),
    cfg.IntOpt('task_timeout', default=7200, min=60, max=86400 * 7, mutable=True,
               help='Seconds after which a task that never ends is failed and its server freed for other actions.'),
    cfg.IntOpt('audit_interval', default=300, min=10, max=86400,
               help='Seconds between two comparisons of the usage of compute nodes with their servers.'),
    cfg.StrOpt('disk_key_backend', default='database', choices=('database', 'barbican'),
               help='Where new keys of encrypted disks of servers are kept. database: in that of the cell, encrypted '
                    'with disk_keys_file. barbican: in the Key Manager service that [barbican] names, by the account '
                    'there. Existing keys stay where they are.'),
    cfg.StrOpt('disk_keys_file', max_length=4096,
               help='File with the key that encrypts, in the database, the keys of encrypted disks of servers, and of '
                    'encrypted volumes on the host of the embedded ones: base64 of 32 bytes a line. The first line '
                    'encrypts; all lines can decrypt. All conductors of a deployment have the same file. If it is '
                    'lost, these disks are lost. Only the user of the daemon may read it. Empty: disk-keys '
                    'below state_path. A service makes it when it is first needed, unless the database shows that '
                    'another one has it.'),
    cfg.IntOpt('max_concurrent_maintenance_moves', default=4, min=1, max=1000, mutable=True,
               help='Servers of one host that are moved at the same time while its maintenance starts or stops. Each '
                    'takes a share of the network between the hosts; [DEFAULT] max_concurrent_live_migrations of the '
                    'host holds as well.'),
    cfg.IntOpt('deleted_servers_kept_days', default=90, min=0, max=36500, mutable=True,
               help='Days that deleted servers stay visible in changes-since, deleted=true and usage reports. '
                    '0 keeps them for ever.'),
    cfg.IntOpt('server_actions_kept', default=1000, min=100, max=1000000, mutable=True,
               help='Actions of a server that are kept with their events, and as many of its moves; older ones that '
                    'have ended are removed within about ten minutes. Without a bound one user could fill the '
                    'database by locking and unlocking a server. What is in progress, and the creation, stay.'),
]
