"""[mks]: MKS consoles."""
from oslo_config import cfg

GROUP = 'mks'

OPTIONS = [
    cfg.StrOpt('mksproxy_base_url', default='',
               help='URL of the MKS proxy for the browsers of users. Example: http://127.0.0.1:6090/. Empty: the '
                    'API offers no MKS consoles.'),
]
