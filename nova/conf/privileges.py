"""[privileges]: who a daemon is once its privileged part stands apart."""
from oslo_config import cfg

GROUP = 'privileges'

OPTIONS = [
    cfg.StrOpt('user', default='nova', max_length=32,
               help='User whom nova-network becomes when root starts it; bridges, DHCP and filters stay with a process '
                    'of their own. It must be able to read the configuration, and own the state path\'s directory '
                    '"services". Where the user does not exist nova-network stays root and says so. Empty: it '
                    'stays root.'),
]
