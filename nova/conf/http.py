"""[http]: where nova-api and nova-all listen."""
from oslo_config import cfg
from oslo_config import types

GROUP = 'http'

OPTIONS = [
    cfg.HostAddressOpt('listen', default='127.0.0.1',
                       help='Address to listen on. 0.0.0.0 and :: are all addresses of this host.'),
    cfg.StrOpt('tls', default='auto', choices=[
        ('auto', 'TLS if cert_file and key_file are set. Without them, and with an address other than loopback, '
                 'nova-all creates certificates in tls below state_path, and nova-api logs a warning.'),
        ('on', 'TLS on every address. nova-api needs cert_file and key_file.'),
        ('off', 'Plain HTTP, for use behind a TLS proxy with a private network between them.')],
               help='Whether the API listens with TLS.'),
    cfg.StrOpt('cert_file',
               help='Certificate of this server and its chain (PEM). The service reads it again on SIGHUP and '
                    'every few hours, so a renewed certificate needs no restart.'),
    cfg.StrOpt('key_file',
               help='Private key of cert_file (PEM). Only the user of the service may read it.'),
    cfg.PortOpt('port', default=8774, min=0,
                help='Port to listen on. 0 selects a free port.'),
    cfg.IntOpt('workers', default=1, min=1, max=64,
               help='Number of nova-api processes that serve this port: one for each core to use. With more than '
                    'one, a supervisor process starts them, restarts those that end and reports for all of them in '
                    '[monitoring]. Each process has its own threads, connections and limits, so the limits per '
                    'client and of failed logins are multiplied. nova-all is always one process.'),
    cfg.IntOpt('threads', default=32, min=2, max=1000,
               help='Maximum number of requests that are processed at once. Logins, health checks and each API '
                    'have a reserved share. Additional threads serve image uploads (half this number), downloads '
                    '(a quarter) and event streams ([api] event_streams).'),
    cfg.IntOpt('drain_time', default=0, min=0, max=600,
               help='Seconds for which a stopping nova-api still accepts requests while /healthcheck returns 503, '
                    'so that a load balancer sends new requests elsewhere. Set more seconds than the balancer '
                    'needs to notice the 503. The time is part of graceful_shutdown_timeout. 0 suits a balancer '
                    'that keeps no connections open and retries a refused connection on another server. With 0, '
                    'a request on a connection that the service is closing gets no response.'),
    cfg.BoolOpt('access_log', default=False,
                help='Whether nova-api and nova-all log each request, at INFO from nova.runtime.access_log: id, '
                     'address, user and project, method and path, status, duration in seconds and size of the '
                     'response. The query is omitted. Off by default, because a proxy in front often has such a '
                     'log and because it dominates the log of a busy server.'),
    cfg.StrOpt('paste_config', default='api-paste.ini',
               help='File with the pipelines of the compute API: an absolute path, or a path relative to '
                    '/etc/nova.'),
    cfg.ListOpt('trusted_proxies', default=[], item_type=types.String(max_length=64),
                help='Addresses and networks (192.0.2.10, 2001:db8:1::/64) of the proxies in front of this server. '
                     'A client may have 256 connections. A trusted proxy may have more and must limit its clients '
                     'itself. The headers Forwarded and X-Forwarded-* of these proxies are used if '
                     '[oslo_middleware] enable_proxy_headers_parsing is set. List only proxies: any other host in '
                     'a listed network can choose the address under which its failed logins are counted.'),
    cfg.URIOpt('public_url', schemes=['http', 'https'],
               help='URL under which clients reach nova-all, if it differs from the listening address. It appears '
                    'in the service catalog, in clouds.yaml and in WWW-Authenticate of 401 responses.'),
]
