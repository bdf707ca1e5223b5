"""[privileges]: the ordinary user of a daemon whose privileged operations run in a separate process."""
from oslo_config import cfg

GROUP = 'privileges'

OPTIONS = [
    cfg.StrOpt('user', default='nova', max_length=32,
               help='User whom nova-all, nova-compute and nova-network become when root starts them; what touches '
                    'networks and files of guests stays with processes of their own. That user must be able to read '
                    'the configuration, what it names, and the program, and with real guests be let in by libvirt; '
                    'the state path is given to it. Where that is not so, or the user does not exist, the daemon stays '
                    'root and says why. Empty: it stays root.'),
]
