"""[os_vif_ovs]: Open vSwitch on compute hosts that use a Networking service."""
from oslo_config import cfg

GROUP = 'os_vif_ovs'

OPTIONS = [
    cfg.StrOpt('ovsdb_connection', default='unix:/run/openvswitch/db.sock', max_length=255,
               regex=r'^(unix:/|tcp:|ssl:).+',
               help='Address of the Open vSwitch database on this host: unix:PATH or tcp:ADDRESS:PORT. The default '
                    'path is that of the distributions.'),
]
