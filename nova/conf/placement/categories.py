"""[DEFAULT]: instance categories."""
from oslo_config import cfg

GROUP = None

OPTIONS = [
    cfg.StrOpt('vpn_image_id', max_length=36,
               help='Id of the image of VPN gateways. A server that is made of it gets the category that '
                    'instance_cat_vpn names, unless its request names another one than regular. Empty: there is no '
                    'such image.'),
    cfg.StrOpt('instance_cat_vpn', default='vpn', max_length=255,
               help='Name of the instance category of servers that are made of vpn_image_id.'),
]
