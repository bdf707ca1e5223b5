"""[ec2]: the EC2 API. nova-api-ec2's account for Keystone is configured with the options of keystoneauth1."""
from oslo_config import cfg

from nova.conf.clients import keystoneauth

GROUP = 'ec2'

OPTIONS = [
    cfg.BoolOpt('enabled', default=True,
                help='Whether the all-in-one serves the EC2 API, below /services/Cloud. nova-api-ec2 always does.'),
    cfg.StrOpt('region', default='RegionOne', regex=r'^[\w-]{1,64}\Z',
               help='Name of the region as EC2 clients see it, and of the endpoints that nova-api-ec2 calls.'),
    cfg.StrOpt('listen', default='127.0.0.1',
               help='Address on which nova-api-ec2 listens. Other than loopback needs [http] cert_file, or a proxy '
                    'before it that speaks TLS.'),
    cfg.PortOpt('port', default=8773, help='Port of nova-api-ec2.'),
    *keystoneauth.SESSION,
    *keystoneauth.LOGIN,
]
