"""[vnc]: VNC consoles."""
from oslo_config import cfg

GROUP = 'vnc'

OPTIONS = [
    cfg.BoolOpt('enabled', default=True,
                help='Whether the guests of this host have a screen and a keyboard over VNC. A guest gets them, or '
                     'loses them, when it starts the next time.'),
    cfg.HostAddressOpt('server_listen', default='127.0.0.1',
                       help='Address of this host on which its guests listen for VNC, each with a password of its own '
                            'that the proxy alone gets. Fleet: the address of the internal network, by which '
                            'nova-novncproxy reaches this host. Every address (0.0.0.0, ::) is refused.'),
    cfg.StrOpt('novncproxy_base_url', default='http://127.0.0.1:6080/vnc_auto.html', max_length=255,
               help='Where the browsers of users reach the noVNC proxy. Empty: no VNC consoles are given out. '
                    'nova-all serves them itself, and uses its own address unless this is set.'),
    cfg.HostAddressOpt('novncproxy_host', default='127.0.0.1', help='Address on which nova-novncproxy listens.'),
    cfg.PortOpt('novncproxy_port', default=6080, help='Port on which nova-novncproxy listens. 0 takes a free one.'),
    cfg.HostAddressOpt('xvpvncproxy_host', default='127.0.0.1', help='Address on which nova-xvpvncproxy listens.'),
    cfg.PortOpt('xvpvncproxy_port', default=6081, help='Port on which nova-xvpvncproxy listens. 0 takes a free one.'),
]
