"""[mks]: MKS consoles."""
from oslo_config import cfg

GROUP = 'mks'

OPTIONS = [
    cfg.StrOpt('mksproxy_base_url', default='',
               help='Where the browsers of users reach the MKS proxy, for example http://127.0.0.1:6090/. Empty: no '
                    'MKS consoles are given out.'),
]
