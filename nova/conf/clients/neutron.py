"""[neutron]: the Networking service, when [network]/backend is neutron. Options are those of keystoneauth1."""
from oslo_config import cfg

from nova.conf.clients import keystoneauth

GROUP = 'neutron'

OPTIONS = [
    *keystoneauth.SERVICE,
    cfg.StrOpt('default_floating_pool', default='', max_length=255,
               help='Name or id of the external network that POST /os-floating-ips uses when the request names no '
                    'pool. Empty: every request must name a pool.'),
]
