"""[audit]: the audit log."""
from oslo_config import cfg

GROUP = 'audit'

OPTIONS = [
    cfg.IntOpt('keep_days', default=365, min=0, max=36500, mutable=True,
               help='Days for which audit records are kept. 0 keeps them forever. Many regulations require one '
                    'year.'),
    cfg.StrOpt('key', default='', secret=True,
               help='Secret with which conductors seal the audit records. Use at least 32 random characters and '
                    'the same secret on all conductors. With a secret, write access to the databases is not enough '
                    'to forge or change a sealed record. Empty: only copies of the seals that are kept outside of the '
                    'databases reveal a rewritten log. nova-manage audit verify needs the secret, too.'),
]
