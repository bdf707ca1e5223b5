"""[remote_debug]: connection of the process to a waiting debugger."""
from oslo_config import cfg

GROUP = 'remote_debug'

OPTIONS: list[cfg.Opt] = []
CLI_OPTIONS = [
    cfg.HostAddressOpt('host',
                       help='Address at which a debugger waits for this process. Needs the Python package debugpy. '
                            'The debugger can run any code in this process, so addresses other than loopback are '
                            'refused unless allow_remote is set. Empty: no debugger.'),
    cfg.PortOpt('port', default=5678, min=1,
                help='Port where the debugger waits.'),
    cfg.BoolOpt('allow_remote', default=False,
                help='Whether the debugger may wait at an address other than loopback. The connection is not '
                     'protected: use it only on a private network.'),
]
SAMPLE_OPTIONS = CLI_OPTIONS         # these command line options are also allowed in configuration files
