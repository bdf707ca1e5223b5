"""[consoleauth]: how long a token can open a console."""
from oslo_config import cfg

GROUP = 'consoleauth'

OPTIONS = [
    cfg.IntOpt('token_ttl', default=600, min=1, max=86400, mutable=True,
               help='Lifetime of a console URL in seconds. Keep it short, because anyone with the URL can open the '
                    'console.'),
    cfg.BoolOpt('single_use', default=False,
                help='Whether a console URL can be opened only once. A browser that loses its connection or '
                     'reloads the page then needs a new URL.'),
    cfg.BoolOpt('enforce_session_timeout', default=False,
                help='Whether a console session ends when its URL expires, even while the session is in use.'),
    cfg.BoolOpt('end_with_user_token', default=True,
                help='Whether a console URL and its sessions end when the token of the requesting user expires. '
                     'With the embedded identity service they also end in these cases: the token is revoked '
                     '(logout of the dashboard), the user is disabled, loses a role of the token or gets a new '
                     'password, or the project is disabled. Keystone does not report such changes. Off: a console '
                     'stays open after its user loses access.'),
]
