"""[identity]: the embedded identity service."""
from oslo_config import cfg

GROUP = 'identity'

OPTIONS = [
    cfg.StrOpt('backend', default='embedded', choices=['embedded', 'keystone'],
               help='Identity service. embedded: this deployment stores its users. keystone: the service that '
                    '[keystone_authtoken] configures.'),
    cfg.IntOpt('token_expiration', default=3600, min=60, max=604800,
               help='Lifetime of a token in seconds. A longer lifetime means fewer logins, but a stolen token '
                    'stays valid for longer.'),
    cfg.IntOpt('allow_expired_window', default=172800, min=0, max=1209600,
               help='Seconds for which a service can still validate an expired token, if the request arrived '
                    'before the token expired. This allows long operations to finish. 0 disables it.'),
    cfg.IntOpt('password_hash_rounds', default=11, min=4, max=18,
               help='Cost factor of bcrypt, as a power of two: 11 takes about 0.1 s per login. Use values below 10 '
                    'for tests only.'),
    cfg.IntOpt('password_min_length', default=1, min=1, max=128,
               help='Minimum length of a new password in characters.'),
    cfg.StrOpt('password_regex', default='',
               help='Regular expression (RE2) that the whole new password must match. Empty: no restriction.'),
    cfg.IntOpt('password_history', default=0, min=0, max=12,
               help='Number of previous passwords, including the current one, that users must not reuse. Each one '
                    'costs a slow hash when the password changes. 0: no check.'),
    cfg.IntOpt('password_expires_days', default=0, min=0, max=3650,
               help='Days until a newly set password expires. The user must then change it before the next login. '
                    'Exempt are users with the option ignore_password_expiry and passwords that were set before. '
                    '0: passwords do not expire.'),
    cfg.IntOpt('max_login_failures', default=10, min=1, max=100000,
               help='Number of failed logins of one user from one address without a delay. Each further failure '
                    'delays the next attempt: 1 s at first, then twice as long each time, up to one minute. If '
                    'logins for a user fail from this many addresses, addresses from which the user never logged '
                    'in are delayed from their first failure.'),
    cfg.IntOpt('login_failure_window', default=300, min=1, max=86400,
               help='Seconds after which a failed login is forgotten. It is also the longest delay when logins for '
                    'a user fail from many addresses.'),
    cfg.IntOpt('validation_cache_time', default=5, min=0, max=300,
               help='Seconds for which a process caches validated tokens and access keys. A revocation takes '
                    'effect immediately in the process that revokes, and in others after at most this time. 0: '
                    'every request queries the database.'),
    cfg.StrOpt('policy_file', default='identity_policy.yaml', max_length=4096,
               help='Policy file of the embedded identity API, absolute or in a configuration directory. Changes take '
                    'effect within seconds. It is separate because rules such as admin_required have a meaning of '
                    'their own in each API. The default file need not exist.'),
]
