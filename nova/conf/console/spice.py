"""[spice]: SPICE consoles."""
from oslo_config import cfg

GROUP = 'spice'

OPTIONS = [
    cfg.StrOpt('html5proxy_base_url', default='',
               help='Where the browsers of users reach the SPICE proxy, for example '
                    'http://127.0.0.1:6082/spice_auto.html. Empty: no SPICE consoles in browsers are given out.'),
    cfg.StrOpt('spice_direct_proxy_base_url', default='',
               help='Where the SPICE clients of users reach a proxy that speaks SPICE itself, for example '
                    'http://127.0.0.1:13002/nova (microversion 2.99). Empty: none are given out.'),
]
