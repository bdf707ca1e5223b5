"""[metadata]: the service at 169.254.169.254."""
from oslo_config import cfg

GROUP = 'metadata'

OPTIONS = [
    cfg.PortOpt('port', default=8775,
                help='Port of the metadata service on the address that guests are redirected to.'),
    cfg.StrOpt('shared_secret', default='', secret=True,
               help='Secret shared with a metadata proxy, which signs the id of the instance that asks. '
                    'Empty: requests through a proxy are refused; guests are known by their address.'),
    cfg.StrOpt('dhcp_domain', default='', max_length=200,
               help='Domain appended to the host names that guests are told. Empty: bare names.'),
]
