"""[scheduler]: placing servers."""
from oslo_config import cfg

GROUP = 'scheduler'

OPTIONS = [
    cfg.IntOpt('max_attempts', default=3, min=1, max=100,
               help='Hosts on which the build of a server is tried before it ends in ERROR.'),
]
