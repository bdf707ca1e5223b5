"""[consoleauth]: how long a console may be opened."""
from oslo_config import cfg

GROUP = 'consoleauth'

OPTIONS = [
    cfg.IntOpt('token_ttl', default=600, min=1, max=86400, mutable=True,
               help='Seconds in which the URL of a console opens it. Short, because a user of the URL needs nothing '
                    'else.'),
]
