"""[ec2]: the EC2 API. nova-api-ec2's account for Keystone is configured with the options of keystoneauth1."""
from oslo_config import cfg

from nova.conf.clients import keystoneauth

GROUP = 'ec2'

OPTIONS = [
    cfg.BoolOpt('enabled', default=True,
                help='Whether nova-all serves the EC2 API, below /services/Cloud. nova-api-ec2 always serves it.'),
    cfg.StrOpt('region', default='RegionOne', regex=r'^[\w-]{1,64}\Z',
               help='Name of the region that EC2 clients see. nova-api-ec2 also selects the endpoints of this '
                    'region.'),
    cfg.StrOpt('listen', default='127.0.0.1',
               help='Address on which nova-api-ec2 listens. Addresses other than loopback need [http] cert_file, '
                    'or a TLS proxy in front.'),
    cfg.PortOpt('port', default=8773, help='Port of nova-api-ec2.'),
    *keystoneauth.SESSION,
    *keystoneauth.LOGIN,
]
