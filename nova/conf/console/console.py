"""[console]: common options of all console proxies."""
from oslo_config import cfg
from oslo_config import types

GROUP = 'console'

OPTIONS = [
    cfg.ListOpt('allowed_origins', default=[], item_type=types.String(max_length=255),
                help='Names of hosts (dashboard.example.org, or with a port) whose web pages may open consoles and '
                     'show them in a frame, besides those of the proxy itself. Pages of other hosts are refused, so '
                     'that no stranger\'s page uses a console that a user has open.'),
    cfg.StrOpt('cert_file',
               help='File with the certificate of the console proxies of this host and its chain (PEM), so that they '
                    'speak TLS. nova-all uses that of its API.'),
    cfg.StrOpt('key_file', help='File with the private key of cert_file (PEM).'),
    cfg.StrOpt('hypervisor_ca_file',
               help='File with the authority that has issued the certificates of the hypervisors (PEM). With it the '
                    'proxies take VNC, SPICE and serial ports over TLS alone, and refuse a hypervisor that offers '
                    'none or has no certificate for the address by which they reach it.'),
    cfg.StrOpt('hypervisor_cert_file', help='File with the certificate by which hypervisors know the proxies (PEM).'),
    cfg.StrOpt('hypervisor_key_file', help='File with the private key of hypervisor_cert_file (PEM).'),
    cfg.IntOpt('max_sessions', default=500, min=1, max=10000,
               help='Sessions of consoles that one proxy holds at once, half of them of one project at most. Each '
                    'takes two descriptors and up to 512 KiB.'),
    cfg.IntOpt('idle_timeout', default=3600, min=60, max=86400 * 7,
               help='Seconds after which a session ends in which neither side said anything.'),
]
