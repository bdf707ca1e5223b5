"""Log set-up of a process: oslo.log with the request id in every line."""
import logging
import warnings

from oslo_config.cfg import ConfigOpts
from oslo_log import log

from nova.runtime import log_limits

# Levels of libraries that log too much, or log secrets.
LEVELS = ('amqp=WARN', 'alembic=WARN', 'cheroot=WARN', 'eventlet.wsgi=WARN', 'iso8601=WARN', 'keystoneauth=WARN',
          'keystonemiddleware=WARN', 'oslo.messaging=INFO', 'oslo_messaging=INFO', 'oslo_policy=INFO', 'requests=WARN',
          'routes.middleware=WARN', 'sqlalchemy=WARN', 'stevedore=WARN', 'urllib3.connectionpool=WARN')
LINE = ('%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s [%(global_request_id)s %(request_id)s '
        '%(user_identity)s] %(instance)s%(message)s')


def setup(conf: ConfigOpts, binary: str) -> None:
    """Configure the log of this process; called once, by a command."""
    log.set_defaults(logging_context_format_string=LINE, default_log_levels=list(LEVELS))
    conf.set_default('default_log_levels', list(LEVELS))
    conf.set_default('logging_context_format_string', LINE)
    if not (conf.log_file or conf.log_dir or conf.use_syslog or conf.use_journal):
        conf.set_default('use_stderr', True)
    log.setup(conf, 'nova')
    log_limits.install()
    warnings.filterwarnings('ignore')
    logging.getLogger('nova').info('%s starts', binary)
