"""[http]: where nova-api and nova-all listen."""
from oslo_config import cfg
from oslo_config import types

GROUP = 'http'

OPTIONS = [
    cfg.HostAddressOpt('listen', default='127.0.0.1',
                       help='Address to listen on. 0.0.0.0 and :: are all addresses of this host.'),
    cfg.StrOpt('tls', default='auto', choices=[
        ('auto', 'TLS with cert_file and key_file where they are set. Without them nova-all makes its certificates '
                 'itself, below tls of its state directory, for any address but loopback; nova-api warns.'),
        ('on', 'TLS on every address. nova-api needs cert_file and key_file.'),
        ('off', 'Plain HTTP: where a proxy speaks TLS, and the network behind it is its own.')],
               help='Whether the API listens with TLS.'),
    cfg.StrOpt('cert_file',
               help='File with the certificate of this server and its chain (PEM). Read again on SIGHUP and every few '
                    'hours, so that a renewed one needs no restart.'),
    cfg.StrOpt('key_file',
               help='File with the private key of cert_file (PEM), readable by the user of the service only.'),
    cfg.PortOpt('port', default=8774, min=0,
                help='Port to listen on. 0 takes a free one.'),
    cfg.IntOpt('workers', default=1, min=1, max=64,
               help='Processes of nova-api that serve this port: one for each core that it shall use. With more than '
                    'one, a further process starts them, starts again what ends and answers for all of them in '
                    '[monitoring]. Each has threads, connections and bounds of its own, so that the bounds of '
                    'one client and of failed logins are multiplied. nova-all is one process.'),
    cfg.IntOpt('threads', default=32, min=2, max=1000,
               help='Requests worked on at once. Logins, health and each face have a part of them of their own; image '
                    'uploads have half as many in addition, downloads a quarter, and event streams what event_streams '
                    'of [api] says.'),
    cfg.IntOpt('drain_time', default=0, min=0, max=600,
               help='Seconds for which a stopping nova-api still takes requests while /healthcheck answers 503, so '
                    'that a load balancer sends the next ones elsewhere: more than it takes to notice. They are part '
                    'of graceful_shutdown_timeout. 0 suits a balancer that keeps no connections to its servers, and '
                    'tries another one when a connection is refused: a request over a connection that ends in that '
                    'moment gets no answer.'),
    cfg.BoolOpt('access_log', default=False,
                help='Whether each request is a line of the log of nova-api or nova-all, at INFO from '
                     'nova.runtime.access_log: id, address, user and project, method and path, status, seconds and '
                     'bytes of the answer. The query is left out. Off by default: a proxy in front often has such a '
                     'log already, and on a busy server it is most of what is written.'),
    cfg.StrOpt('paste_config', default='api-paste.ini',
               help='File with the pipelines of the compute API, below /etc/nova or with its whole path.'),
    cfg.ListOpt('trusted_proxies', default=[], item_type=types.String(max_length=64),
                help='Addresses and networks (192.0.2.10, 2001:db8:1::/64) of the proxies in front of this server. '
                     'One client may have 256 connections; a proxy, which brings those of many clients, may have '
                     'more, and must bound each client itself. Their headers Forwarded and X-Forwarded-* are believed '
                     'when [oslo_middleware] enable_proxy_headers_parsing is set. Name the proxies alone: any other '
                     'host in such a network chooses the address by which failed logins are counted.'),
    cfg.URIOpt('public_url', schemes=['http', 'https'],
               help='URL by which clients reach the all-in-one, for the service catalog, clouds.yaml and the '
                    'WWW-Authenticate of a 401, where it differs from where it listens.'),
]
