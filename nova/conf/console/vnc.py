"""[vnc]: VNC consoles."""
from oslo_config import cfg

GROUP = 'vnc'

OPTIONS = [
    cfg.BoolOpt('enabled', default=True,
                help='Whether the guests of this host have a VNC display. A change takes effect at the next start '
                     'of a guest.'),
    cfg.HostAddressOpt('server_listen', default='127.0.0.1',
                       help='Address of this host on which its guests listen for VNC. Each guest has its own '
                            'password, which only the proxy knows. With several hosts, use the address of the '
                            'internal network through which nova-novncproxy reaches this host. The wildcard addresses '
                            '(0.0.0.0, ::) are refused.'),
    cfg.StrOpt('novncproxy_base_url', default='http://127.0.0.1:6080/vnc_auto.html', max_length=255,
               help='URL of the noVNC proxy for the browsers of users. Empty: the API offers no VNC consoles. '
                    'nova-all serves them itself, at its own address unless this option is set.'),
    cfg.HostAddressOpt('novncproxy_host', default='127.0.0.1', help='Address on which nova-novncproxy listens.'),
    cfg.PortOpt('novncproxy_port', default=6080, help='Port on which nova-novncproxy listens. 0 selects a free '
                                                      'port.'),
    cfg.HostAddressOpt('xvpvncproxy_host', default='127.0.0.1', help='Address on which nova-xvpvncproxy listens.'),
    cfg.PortOpt('xvpvncproxy_port', default=6081, help='Port on which nova-xvpvncproxy listens. 0 selects a free '
                                                       'port.'),
]
