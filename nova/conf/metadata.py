"""[metadata]: the service at 169.254.169.254."""
from oslo_config import cfg

GROUP = 'metadata'

OPTIONS = [
    cfg.PortOpt('port', default=8775,
                help='Port of the metadata service on the address that guests are redirected to.'),
    cfg.StrOpt('shared_secret', default='', secret=True,
               help='Secret shared with a metadata proxy, which signs the instance id with it. Empty: requests '
                    'through a proxy are refused, and guests are identified by their address.'),
    cfg.StrOpt('cert_file', default='',
               help='Certificate and chain (PEM) with which nova-api-metadata serves TLS to proxies. Proxies send '
                    'the address of a guest and a signature. Empty: plain HTTP, with a warning unless the service '
                    'listens on loopback. The service at 169.254.169.254 always uses plain HTTP, as guests expect.'),
    cfg.StrOpt('key_file', default='', help='Private key of cert_file (PEM).'),
    cfg.StrOpt('tokens', default='optional', choices=['optional', 'required'],
               help="Session tokens of guests, as in version 2 of EC2's instance metadata service. optional: "
                    "guests may use a token. required: every read needs a token. This blocks requests that an "
                    "attacker forges through a service in the guest. cloud-init then uses its EC2 data source. To "
                    "require tokens for single servers, set metadata_tokens=required as an image property or "
                    "server metadata. For all servers of a flavor, set the extra spec metadata:tokens=required."),
    cfg.IntOpt('request_rate', default=20, min=1, max=10000,
               help="Maximum number of requests per second of one guest, in each process. Bursts of ten seconds' "
                    "worth are allowed. Further requests get 429, so that one guest cannot block others."),
    cfg.StrOpt('dhcp_domain', default='', max_length=200,
               help='Domain that is appended to the host names of guests. It is also the search domain of networks '
                    'without dns_domain. Empty: host names have no domain, and the search domain is '
                    'openstacklocal.'),
]
