"""[state_backup]: the nightly backup that an all-in-one makes of its control plane."""
from oslo_config import cfg

GROUP = 'state_backup'

OPTIONS = [
    cfg.IntOpt('keep', default=14, min=0, max=1000, mutable=True,
               help='Number of nightly backups to keep. A new backup replaces the oldest one. The default of two '
                    'weeks allows recovery from a mistake that was made before a holiday. 0: nova-all creates and '
                    'removes no backups.'),
    cfg.StrOpt('directory', default='', max_length=4096,
               help='Directory of the nightly backups. It must belong to the user of nova-all. On another disk, '
                    'backups survive a failure of the disk of the state path. Empty: backups below state_path.'),
    cfg.StrOpt('passphrase_file', default='', max_length=4096,
               help='File whose first line is the passphrase of the nightly backups. Only the user of nova-all may '
                    'read it. Empty: backups are not encrypted. They then contain no more secrets than the state '
                    'path.'),
]
