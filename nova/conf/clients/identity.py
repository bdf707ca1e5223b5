"""[identity]: the embedded identity service."""
from oslo_config import cfg

GROUP = 'identity'

OPTIONS = [
    cfg.StrOpt('backend', default='embedded', choices=['embedded', 'keystone'],
               help='embedded: this deployment keeps its users itself. keystone: the Identity service that the '
                    '[keystone_authtoken] section names.'),
    cfg.IntOpt('token_expiration', default=3600, min=60, max=604800,
               help='Seconds that a token is valid. A longer life spares logins and keeps a stolen token '
                    'useful for longer.'),
    cfg.IntOpt('allow_expired_window', default=172800, min=0, max=1209600,
               help='Seconds after its end in which a service may still validate the token of a request '
                    'that it was given in time, so that long operations can finish. 0 allows none.'),
    cfg.IntOpt('password_hash_rounds', default=11, min=4, max=18,
               help='Cost of bcrypt, as a power of two: 11 takes about 0.1 s a login. '
                    'Less than 10 is for tests.'),
    cfg.IntOpt('password_min_length', default=1, min=1, max=128,
               help='Characters of a new password at least.'),
    cfg.StrOpt('password_regex', default='',
               help='Regular expression (RE2) that a new password must match as a whole. Empty: any does.'),
    cfg.IntOpt('password_history', default=0, min=0, max=12,
               help='A password that users choose must differ from so many of their last ones, the present one '
                    'included. Each costs a slow hash when a password is changed. 0: none.'),
    cfg.IntOpt('password_expires_days', default=0, min=0, max=3650,
               help='Days for which a password that is set from now on is good; a user then changes it before the next '
                    'login. Users with the option ignore_password_expiry are left alone, as are passwords that were '
                    'set before. 0: for ever.'),
    cfg.IntOpt('max_login_failures', default=10, min=1, max=100000,
               help='Failed logins for one user from one address that are free. After each one more the next try has '
                    'to wait: 1 s, then twice as long each time, at most a minute. While so many addresses fail for '
                    'one user, those from which the user has not logged in wait from their first failure on.'),
    cfg.IntOpt('login_failure_window', default=300, min=1, max=86400,
               help='Seconds after which a failed login is forgotten, and the longest wait of an address that is one '
                    'of many.'),
    cfg.IntOpt('validation_cache_time', default=5, min=0, max=300,
               help='Seconds for which a process trusts a token that it has validated, and an access key that '
                    'it has read. Revocations by the '
                    'same process take effect at once, those by others after at most this time. '
                    '0 asks the database for every request.'),
]
