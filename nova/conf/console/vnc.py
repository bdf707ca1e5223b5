"""[vnc]: VNC consoles."""
from oslo_config import cfg

GROUP = 'vnc'

OPTIONS = [
    cfg.StrOpt('novncproxy_base_url', default='http://127.0.0.1:6080/vnc_auto.html',
               help='Where the browsers of users reach the noVNC proxy. Empty: no VNC consoles are given out.'),
]
