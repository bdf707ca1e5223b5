"""[api]: the compute API."""
from oslo_config import cfg

GROUP = 'api'

OPTIONS = [
    cfg.IntOpt('max_limit', default=1000, min=1, max=100000,
               help='Items that one page of a list has at most. More costs memory and time per request.'),
    cfg.IntOpt('max_request_body_size', default=262144, min=1024, max=16777216,
               help='Bytes of a request body at most; a larger one is answered with 413. '
                    'User data and personality files of one server must fit.'),
    cfg.URIOpt('compute_link_prefix', schemes=['http', 'https'],
               help='URL that stands for scheme, host and path prefix in links to the compute API, where '
                    'clients reach it under another name than the service itself. '
                    'Empty: what the request came with.'),
    cfg.URIOpt('image_link_prefix', schemes=['http', 'https'],
               help='URL of the image service in links to images. Empty: /image at the host of the request.'),
]
