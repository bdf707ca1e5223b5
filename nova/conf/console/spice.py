"""[spice]: SPICE consoles."""
from oslo_config import cfg

GROUP = 'spice'

OPTIONS = [
    cfg.BoolOpt('enabled', default=False,
                help='Whether the guests of this host have a SPICE display. They also keep their VNC display, '
                     'unless [vnc] enabled is false. QEMU must support SPICE.'),
    cfg.HostAddressOpt('server_listen', default='127.0.0.1',
                       help='Address of this host on which its guests listen for SPICE. Each guest has its own '
                            'password. See [vnc] server_listen.'),
    cfg.BoolOpt('tls', default=False,
                help="Whether the guests of this host accept only TLS for SPICE. It needs spice_tls = 1 and "
                     "certificates in libvirt's qemu.conf."),
    cfg.BoolOpt('password', default=True,
                help='Whether SPICE requires the password of the guest, which nova-spicehtml5proxy sends. Set '
                     'false for consoles of type spice-direct, whose proxy gets the address of a guest from the '
                     'compute API, but no password. Then anyone who reaches server_listen can open the consoles.'),
    cfg.StrOpt('html5proxy_base_url', default='', max_length=255,
               help='URL of the SPICE proxy for the browsers of users. Example: '
                    'http://127.0.0.1:6082/spice_auto.html. Empty: the API offers no SPICE consoles in browsers. '
                    'nova-all serves them itself.'),
    cfg.HostAddressOpt('html5proxy_host', default='127.0.0.1', help='Address on which nova-spicehtml5proxy listens.'),
    cfg.PortOpt('html5proxy_port', default=6082, help='Port on which nova-spicehtml5proxy listens. 0 selects a '
                                                      'free port.'),
    cfg.StrOpt('spice_direct_proxy_base_url', default='', max_length=255,
               help='URL of a proxy that speaks SPICE natively, for the SPICE clients of users (microversion '
                    '2.99). Example: http://127.0.0.1:13002/nova. Empty: the API offers no such consoles.'),
]
