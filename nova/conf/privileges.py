"""[privileges]: the ordinary user of a daemon whose privileged operations run in a separate process."""
from oslo_config import cfg

GROUP = 'privileges'

OPTIONS = [
    cfg.StrOpt('user', default='nova', max_length=32,
               help='User that nova-all, nova-compute and nova-network switch to when root starts them. Separate '
                    'processes keep the privileges for networks and files of guests. The user must be able to read '
                    'the configuration, the files that it names and the program. With real guests, libvirt must '
                    'accept the user. The daemon changes the owner of the state path to the user. If a condition '
                    'is not met or the user does not exist, the daemon continues as root and logs the reason. '
                    'Empty: the daemon continues as root.'),
]
