"""[scheduler]: placing servers."""
from oslo_config import cfg

GROUP = 'scheduler'

OPTIONS = [
    cfg.StrOpt('driver', default='filter_scheduler', max_length=255,
               deprecated_opts=[cfg.DeprecatedOpt('scheduler_driver', group='DEFAULT')],
               help='Scheduler driver: filter_scheduler, the name of an entry point in the group '
                    'nova.scheduler.driver, or the path of a class. The class is created with (conf, api_db, '
                    'cells) and implements nova/scheduler/interface.py.'),
    cfg.IntOpt('max_attempts', default=3, min=1, max=100,
               deprecated_opts=[cfg.DeprecatedOpt('scheduler_max_attempts', group='DEFAULT')],
               help='Maximum number of hosts on which the build of a server is attempted before the server ends in '
                    'ERROR.'),
]
