"""[os_vif_ovs]: Open vSwitch on a compute host whose networks are those of a Networking service."""
from oslo_config import cfg

GROUP = 'os_vif_ovs'

OPTIONS = [
    cfg.StrOpt('ovsdb_connection', default='unix:/run/openvswitch/db.sock', max_length=255,
               regex=r'^(unix:/|tcp:|ssl:).+',
               help="Where the database of this host's Open vSwitch is: unix:PATH, tcp:ADDRESS:PORT. The path is that "
                    'of the distributions.'),
]
