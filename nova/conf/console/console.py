"""[console]: common options of all console proxies."""
from oslo_config import cfg
from oslo_config import types

GROUP = 'console'

OPTIONS = [
    cfg.ListOpt('allowed_origins', default=[], item_type=types.String(max_length=255),
                help='Host names (dashboard.example.org, optionally with a port) whose web pages may open consoles '
                     'and embed them in a frame, in addition to the proxy itself. Pages of other hosts are '
                     'refused, so that a foreign page cannot use a console that a user has open.'),
    cfg.StrOpt('cert_file',
               help='Certificate and chain (PEM) with which the console proxies of this host serve TLS. nova-all '
                    'uses the certificate of its API.'),
    cfg.StrOpt('key_file', help='File with the private key of cert_file (PEM).'),
    cfg.StrOpt('hypervisor_ca_file',
               help='CA certificate (PEM) of the hypervisors. With it, the proxies connect to VNC, SPICE and '
                    'serial ports over TLS only. They refuse a hypervisor without TLS, or without a certificate '
                    'for the address that the proxy connects to.'),
    cfg.StrOpt('hypervisor_cert_file', help='Client certificate (PEM) that the proxies present to hypervisors.'),
    cfg.StrOpt('hypervisor_key_file', help='File with the private key of hypervisor_cert_file (PEM).'),
    cfg.IntOpt('max_sessions', default=500, min=1, max=10000,
               help='Maximum number of console sessions per proxy. One project may use half of them. Each session '
                    'needs two file descriptors and up to 512 KiB of memory.'),
    cfg.IntOpt('idle_timeout', default=3600, min=60, max=86400 * 7,
               help='Seconds without traffic in either direction after which a console session ends.'),
]
