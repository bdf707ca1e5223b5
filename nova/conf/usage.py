"""[DEFAULT]: what is reported about the use of servers."""
from oslo_config import cfg

from nova.conf import audit_period

GROUP = None

OPTIONS = [
    cfg.BoolOpt('instance_usage_audit', default=False,
                help='Each compute host records, once a period, how many servers ran there. Read by '
                     '/os-instance_usage_audit_log; off, because few deployments look at it.'),
    cfg.StrOpt('instance_usage_audit_period', default='month', regex=audit_period.PATTERN.pattern,
               help='Length of such a period: hour, day, month or year. It may begin later than its name says: '
                    'month@15 on the 15th, day@18 at 18:00 UTC, hour@30, year@4.'),
]
