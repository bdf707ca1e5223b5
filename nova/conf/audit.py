"""[audit]: the audit log."""
from oslo_config import cfg

GROUP = 'audit'

OPTIONS = [
    cfg.IntOpt('keep_days', default=365, min=0, max=36500, mutable=True,
               help='Days that the records of the audit log are kept; 0 keeps them for ever. Regulations name a '
                    'number: a year is what many of them ask for.'),
    cfg.StrOpt('key', default='', secret=True,
               help='Secret with which conductors seal the records, the same for all of them; 32 random characters or '
                    'more. With it, write access to the databases is not enough to forge a record, or to change one '
                    'that is sealed. Empty: the chain is made without a secret, and only seals kept elsewhere '
                    'show a log that was rewritten. nova-manage audit verify needs it, too.'),
]
