"""[remote_debug]: connection of the process to a waiting debugger."""
from oslo_config import cfg

GROUP = 'remote_debug'

OPTIONS: list[cfg.Opt] = []
CLI_OPTIONS = [
    cfg.HostAddressOpt('host',
                       help='Address where a debugger waits for this process; needs the Python package debugpy. Who '
                            'holds the other end runs any code here: other addresses than loopback are refused unless '
                            'allow_remote is set. Empty: no debugger.'),
    cfg.PortOpt('port', default=5678, min=1,
                help='Port where the debugger waits.'),
    cfg.BoolOpt('allow_remote', default=False,
                help='Whether a debugger may wait at another address than loopback. Nothing protects the connection: '
                     'only on a network that no one else is on.'),
]
SAMPLE_OPTIONS = CLI_OPTIONS         # they may stand in a file as well
