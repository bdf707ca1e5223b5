"""[crypto]: the certificate authorities of nova-cert."""
from oslo_config import cfg

GROUP = 'crypto'


def _before(name: str) -> list[cfg.DeprecatedOpt]:
    """Return the name that an option formerly had in [DEFAULT]."""
    return [cfg.DeprecatedOpt(name, group='DEFAULT')]


OPTIONS = [
    cfg.BoolOpt('use_project_ca', default=False, deprecated_opts=_before('use_project_ca'),
                help='Whether each project has its own CA, signed by the root CA of the cloud, for the '
                     'certificates of its users. A client that trusts the CA of a project trusts no other project. '
                     'False: one CA for all projects.'),
    cfg.StrOpt('ca_path', deprecated_opts=_before('ca_path'), max_length=4096,
               help='Directory for the files of nova-cert: CAs, certificates and revocation lists. The user of the '
                    'daemon must own it. Empty: CA below state_path.'),
    cfg.StrOpt('keys_path', deprecated_opts=_before('keys_path'), max_length=4096,
               help='Directory for the private keys of the CAs. Set it to store them on another file system than '
                    'ca_path. Only the user of the daemon may read it. Empty: private below ca_path.'),
]
