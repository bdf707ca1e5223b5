"""[objectstore]: the object store that S3 clients reach."""
from oslo_config import cfg

GROUP = 'objectstore'

OPTIONS = [
    cfg.BoolOpt('enabled', default=False,
                help='Whether nova-all serves the object store, below /objectstore. nova-objectstore always serves '
                     'it.'),
    cfg.StrOpt('path', max_length=4096,
               help='Directory of objects and their index. It must be on one file system and belong to one '
                    'process. Empty: objects below state_path.'),
    cfg.StrOpt('listen', default='127.0.0.1',
               help='Address on which the object store listens at its port. Addresses other than loopback need '
                    '[http] cert_file, or a TLS proxy in front.'),
    cfg.PortOpt('port', default=3333,
                help='Port of nova-objectstore. In nova-all, an additional port for clients that accept no path in '
                     'an endpoint (s3cmd, restic); 0 disables it.'),
    cfg.IntOpt('gigabytes', default=100, min=0, max=1 << 20,
               help='Maximum total size of the objects of one project in GiB, including parts of unfinished '
                    'uploads.'),
    cfg.IntOpt('objects', default=100000, min=0, max=10 ** 9, help='Maximum number of objects of one project.'),
    cfg.IntOpt('buckets', default=100, min=0, max=10000, help='Maximum number of buckets of one project.'),
]
