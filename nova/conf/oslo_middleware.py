"""[oslo_middleware]: trust in the headers of a proxy in front of the API. The group name is that of oslo.middleware."""
from oslo_config import cfg

GROUP = 'oslo_middleware'

OPTIONS = [
    cfg.BoolOpt('enable_proxy_headers_parsing', default=False,
                help='Believe the headers Forwarded and X-Forwarded-* of the proxies that [http] trusted_proxies '
                     'names: scheme, host and path prefix of links, and the address of the client.'),
]
