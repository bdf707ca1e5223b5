"""[DEFAULT]: instance categories."""
from oslo_config import cfg

GROUP = None

OPTIONS = [
    cfg.StrOpt('vpn_image_id', max_length=36,
               help='Id of the image of VPN gateways. A server created from it gets the category instance_cat_vpn, '
                    'unless the request names a category other than regular. Empty: no such image.'),
    cfg.StrOpt('instance_cat_vpn', default='vpn', max_length=255,
               help='Name of the instance category of servers that are created from vpn_image_id.'),
]
