"""[consoleauth]: how long a console may be opened."""
from oslo_config import cfg

GROUP = 'consoleauth'

OPTIONS = [
    cfg.IntOpt('token_ttl', default=600, min=1, max=86400, mutable=True,
               help='Seconds in which the URL of a console opens it. Short, because a user of the URL needs nothing '
                    'else.'),
    cfg.BoolOpt('single_use', default=False,
                help='Whether the URL of a console opens it once. A browser that lost its connection, or whose user '
                     'loads the page again, needs a new one then.'),
    cfg.BoolOpt('enforce_session_timeout', default=False,
                help='Whether a session ends when the time of its URL is over, also while it is in use.'),
    cfg.BoolOpt('end_with_user_token', default=True,
                help='Whether the URL of a console and its sessions end with the token of the user who requested it: '
                     'when its time is over, and with the embedded identity service also when it is revoked (a logout '
                     'of the dashboard), its user is disabled, loses a role of the token or gets another password, or '
                     'its project is disabled. Keystone does not notify of the latter. Off: a console stays open '
                     'although its user lost access.'),
]
