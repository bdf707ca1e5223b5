"""[scheduler]: placing servers."""
from oslo_config import cfg

GROUP = 'scheduler'

OPTIONS = [
    cfg.StrOpt('driver', default='filter_scheduler', max_length=255,
               deprecated_opts=[cfg.DeprecatedOpt('scheduler_driver', group='DEFAULT')],
               help='What chooses hosts: filter_scheduler, the name of an entry point of the group '
                    'nova.scheduler.driver, or the path of a class that is made with (conf, api_db, cells) and has the '
                    'methods of nova/scheduler/interface.py.'),
    cfg.IntOpt('max_attempts', default=3, min=1, max=100,
               deprecated_opts=[cfg.DeprecatedOpt('scheduler_max_attempts', group='DEFAULT')],
               help='Hosts on which the build of a server is tried before it ends in ERROR.'),
    cfg.IntOpt('alternates', default=0, min=0, max=15, mutable=True,
               help='Hosts that the scheduler names besides the one that it chose and claimed, the next best first. '
                    'Nothing is claimed of them, and the conductor asks again when a build has failed: that sees the '
                    'hosts as they are then.'),
]
