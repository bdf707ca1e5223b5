"""[DEFAULT]: records of the usage of servers."""
from oslo_config import cfg

from nova.conf import audit_period

GROUP = None

OPTIONS = [
    cfg.BoolOpt('instance_usage_audit', default=False,
                help='Whether each compute host records, once per period, the number of servers that ran there. '
                     '/os-instance_usage_audit_log returns the records. Off by default, because few deployments '
                     'use it.'),
    cfg.StrOpt('instance_usage_audit_period', default='month', regex=audit_period.PATTERN.pattern,
               help='Length of an audit period: hour, day, month or year. An offset moves its beginning: month@15 '
                    'to the 15th, day@18 to 18:00 UTC, hour@30 to minute 30, year@4 to April.'),
]
