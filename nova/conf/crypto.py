"""[crypto]: the authority of nova-cert."""
from oslo_config import cfg

GROUP = 'crypto'


def _before(name: str) -> list[cfg.DeprecatedOpt]:
    """Return the former name of an option in [DEFAULT]."""
    return [cfg.DeprecatedOpt(name, group='DEFAULT')]


OPTIONS = [
    cfg.BoolOpt('use_project_ca', default=False, deprecated_opts=_before('use_project_ca'),
                help='Whether each project has an authority of its own, signed by that of the cloud, which issues the '
                     'certificates of its users: who trusts it trusts no other project. False: one for all.'),
    cfg.StrOpt('ca_path', deprecated_opts=_before('ca_path'), max_length=4096,
               help='Directory of what nova-cert issues: authorities, certificates, revocation lists. It belongs to '
                    'the user of the daemon. Empty: CA below state_path.'),
    cfg.StrOpt('keys_path', deprecated_opts=_before('keys_path'), max_length=4096,
               help='Directory of the private keys of the authorities, where they are to be on another file system '
                    'than ca_path. Only the user of the daemon may read it. Empty: private below ca_path.'),
]
