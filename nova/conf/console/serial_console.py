"""[serial_console]: serial consoles."""
from oslo_config import cfg

GROUP = 'serial_console'

OPTIONS = [
    cfg.StrOpt('base_url', default='',
               help='Where the clients of users reach the proxy of serial consoles, for example ws://127.0.0.1:6083/. '
                    'Empty: no serial consoles are given out.'),
]
