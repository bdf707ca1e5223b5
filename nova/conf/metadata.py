"""[metadata]: the service at 169.254.169.254."""
from oslo_config import cfg

GROUP = 'metadata'

OPTIONS = [
    cfg.PortOpt('port', default=8775,
                help='Port of the metadata service on the address that guests are redirected to.'),
    cfg.StrOpt('shared_secret', default='', secret=True,
               help='Secret shared with a metadata proxy, used to sign the id of the instance. '
                    'Empty: requests through a proxy are refused; guests are known by their address.'),
    cfg.StrOpt('cert_file', default='',
               help='Certificate with its chain, PEM, of nova-api-metadata, with which proxies speak TLS then: the '
                    'address of a guest and its signature are sent there. Empty: plain HTTP, with a warning unless '
                    'it listens on loopback. The service at 169.254.169.254 is plain, as guests expect.'),
    cfg.StrOpt('key_file', default='', help='Private key of cert_file, PEM.'),
    cfg.StrOpt('tokens', default='optional', choices=['optional', 'required'],
               help='Session tokens of guests, as of EC2\'s instance metadata service version 2. optional: a guest may '
                    'use one, and older ones do without. required: every read needs one, which keeps forged requests '
                    'of a guest\'s own services out; cloud-init reads the EC2 documents then. The property '
                    'metadata_tokens=required of an image, or item of a server\'s metadata, does it for one server, '
                    'the extra spec metadata:tokens=required for those of a flavor.'),
    cfg.IntOpt('request_rate', default=20, min=1, max=10000,
               help='Requests a second of one guest at most, in each process; ten seconds\' worth may come at once. '
                    'More are answered with 429, so that one guest leaves room for the others.'),
    cfg.StrOpt('dhcp_domain', default='', max_length=200,
               help='Domain appended to the host names that guests get, and the search domain of networks that have no '
                    'dns_domain. Empty: bare host names, and the search domain is openstacklocal.'),
]
