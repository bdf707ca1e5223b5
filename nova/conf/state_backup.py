"""[state_backup]: the nightly backup that an all-in-one makes of its control plane."""
from oslo_config import cfg

GROUP = 'state_backup'

OPTIONS = [
    cfg.IntOpt('keep', default=14, min=0, max=1000, mutable=True,
               help='Nightly backups that are kept; the oldest one goes when a new one is there. Two weeks, so that a '
                    'mistake of before a holiday can be taken back. 0: nova-all makes none, and removes none.'),
    cfg.StrOpt('directory', default='', max_length=4096,
               help='Directory of the nightly backups, which belongs to the user of nova-all: on another disk they '
                    'outlive that of the state path. Empty: backups below state_path.'),
    cfg.StrOpt('passphrase_file', default='', max_length=4096,
               help='File whose first line is the passphrase of the nightly backups, for the user of nova-all alone. '
                    'Empty: they are not encrypted, which adds no secret to a disk that has the state itself.'),
]
