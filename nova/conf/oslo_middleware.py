"""[oslo_middleware]: trust in the headers of a proxy in front of the API."""
from oslo_config import cfg

GROUP = 'oslo_middleware'

OPTIONS = [
    cfg.BoolOpt('enable_proxy_headers_parsing', default=False,
                help='Whether to use the headers Forwarded and X-Forwarded-* from the proxies in [http] '
                     'trusted_proxies. They define scheme, host and path prefix of links, and the address of the '
                     'client.'),
]
