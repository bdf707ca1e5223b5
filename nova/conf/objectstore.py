"""[objectstore]: the object store that S3 clients reach."""
from oslo_config import cfg

GROUP = 'objectstore'

OPTIONS = [
    cfg.BoolOpt('enabled', default=False,
                help='Whether the all-in-one serves the object store, below /objectstore. nova-objectstore always '
                     'does.'),
    cfg.StrOpt('path', max_length=4096,
               help='Directory of objects and of their index, on one file system, for one process. Empty: objects '
                    'below state_path.'),
    cfg.StrOpt('listen', default='127.0.0.1',
               help='Address of port. Other than loopback needs [http] cert_file, or a proxy '
                    'before it that speaks TLS.'),
    cfg.PortOpt('port', default=3333,
                help='Port of nova-objectstore, and of the store by itself in the all-in-one, for clients that take no '
                     'path in an endpoint (s3cmd, restic); there, 0 is none.'),
    cfg.IntOpt('gigabytes', default=100, min=0, max=1 << 20,
               help='GiB that the objects of one project have at most, parts of uploads among them.'),
    cfg.IntOpt('objects', default=100000, min=0, max=10 ** 9, help='Objects of one project at most.'),
    cfg.IntOpt('buckets', default=100, min=0, max=10000, help='Buckets of one project at most.'),
]
